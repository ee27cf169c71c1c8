// Goal: a wrap around a tool call measures, repeats or replaces the call, which counts once.
// Method: wraps around tools that count, throw and hang.

import { expect, test } from "vitest";

import { wrapToolCall, type Hook } from "../../../src/hooks/hook.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, quiet, receivedTexts, use } from "../../harness/scripted-agents.ts";

proves(["R86"], "nests wraps, with the orchestrator's wraps outside", async () => {
  const log: string[] = [];
  const skin = (name: string, priority = 0): Hook =>
    wrapToolCall(
      async (_call, next) => {
        log.push(`${name} in`);
        const result = await next();
        log.push(`${name} out`);
        return result;
      },
      { name, priority },
    );
  const { role } = soloist([asks("work", {}), says("done")], {
    tools: [spyTool("work", () => void log.push("work"))],
    hooks: [skin("role"), skin("first", 1)],
  });
  await newFixture({ hooks: [skin("orchestrator")] }).run(role);
  expect(log).toEqual([
    "first in",
    "orchestrator in",
    "role in",
    "work",
    "role out",
    "orchestrator out",
    "first out",
  ]);
});

proves(["R86"], "counts a call once if a wrap repeats a failed tool", async () => {
  let attempts = 0;
  const flaky = spyTool("work", () => {
    attempts += 1;
    if (attempts < 3) throw new Error("flaky");
    return "at last";
  });
  const retry = wrapToolCall(async (_call, next) => {
    for (;;) {
      try {
        return await next();
      } catch {
        // Retry.
      }
    }
  });
  const { role, model } = soloist([asks("work", {}), says("done")], {
    tools: [flaky],
    hooks: [retry],
  });
  const result = await newFixture().run(role, { budget: { toolCalls: 1 } });
  expect([attempts, receivedTexts(model.requests[1]), result.usage.own.toolCalls]).toEqual([
    3,
    ["at last"],
    1,
  ]);
});

test("records a result whether a wrap passes on or ignores the tool's error", async () => {
  const broken = spyTool("work", () => {
    throw new Error("broken");
  });
  const through = soloist([asks("work", {}), says("done")], {
    tools: [broken],
    hooks: [wrapToolCall((_call, next) => next())],
  });
  const passed = await newFixture().run(through.role);
  const away = soloist([asks("work", {}), says("done")], {
    tools: [broken],
    hooks: [wrapToolCall((_call, next) => (void next(), "away"))],
  });
  const looked = await newFixture().run(away.role);
  expect([
    passed.status,
    receivedTexts(through.model.requests[1]),
    looked.status,
    receivedTexts(away.model.requests[1]),
  ]).toEqual(["completed", ["work failed: broken"], "completed", ["away"]]);
});

test("abandons a wrapped tool that hangs when its run is cancelled", async () => {
  const fixture = newFixture({ graceMs: 300 });
  const hooks = [wrapToolCall(() => new Promise(() => undefined))];
  const run = fixture.start(
    soloist([calls(use("work"))], { tools: [spyTool("work")], hooks }).role,
  );
  await quiet();
  void run.cancel("Enough.");
  await quiet();
  fixture.clock.advance(300);
  const result = await fixture.outcome(run);
  expect([
    result.status,
    result.agents[0]?.errors,
    result.steps[0]?.tools.executions.map(({ type }) => type),
  ]).toEqual(["cancelled", [], ["cancelled"]]);
});
