// Goal: user code outside of calls has the ids of the agent that it works for, and never those of
// another agent.
// Method: a filter, a token counter and a store that log, in a tree of agents; all their lines are
// compared.

import { expect, test } from "vitest";
import { z } from "zod";

import { Orchestrator, toolFilter } from "../../../src/index.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";
import { logbook } from "../../support/telemetry/logbook.ts";

test("gives filters and token counters the ids of their own agent", async () => {
  const { lines, write } = logbook();
  const own = (who: string) => ({
    toolFilters: [
      toolFilter(() => {
        write(`filter of ${who}`);
        return true;
      }),
    ],
    scripted: {
      countTokens: () => {
        write(`counter of ${who}`);
        return 10;
      },
    },
  });
  const inner = part("inner", [calls(use("work")), says("Inner.")], {
    ...own("inner"),
    tools: [nothing("work", () => "worked")],
  });
  const nest = nothing("nest", async () => {
    const run = new Orchestrator().start(inner.role, "Within.");
    return (await run.settled).text;
  });
  const helper = part("helper", [calls(use("nest")), says("Helped."), says("Helped more.")], {
    ...own("helper"),
    tools: [nest],
  });
  const lead = part(
    "lead",
    [calls(spawn("helper")), calls(spawn("helper", "More.")), says("Led.")],
    {
      ...own("lead"),
      subagents: [helper.role],
    },
  );
  await new Orchestrator().start(lead.role, "Go.").settled;
  const seen = lines.map(([at, { agentPath, stepId, callId }]) => [at, agentPath, stepId, callId]);
  expect(new Set(seen.map((one) => JSON.stringify(one)))).toEqual(
    new Set(
      [
        ...at("lead", "lead"),
        ...at("helper", "lead/helper#1"),
        ...at("helper", "lead/helper#2"),
        ...at("inner", "inner"),
      ].map((one) => JSON.stringify(one)),
    ),
  );
});

test("gives a store no ids, whichever agent's records it writes", async () => {
  const { lines, write } = logbook();
  const kept = memoryStore();
  const store: Store = new Proxy(kept, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== "function") return value;
      return (...given: readonly unknown[]): unknown => {
        if (key === "append") write("append");
        return Reflect.apply(value, target, given);
      };
    },
  });
  const slow = nothing("work", async () => {
    for (let turn = 0; turn < 10; turn += 1) await flushEventLoop();
    return "worked";
  });
  const helper = part("helper", [calls(use("work")), says("Helped.")], { tools: [slow] });
  const lead = part("lead", [calls(spawn("helper")), says("Led.")], { subagents: [helper.role] });
  await new Orchestrator({ store }).start(lead.role, "Go.").settled;
  expect(lines.length).toBeGreaterThan(5);
  expect(lines.filter(([, ids]) => Object.keys(ids).length > 0)).toEqual([]);
});

function at(who: string, agentPath: string): readonly unknown[] {
  return [`filter of ${who}`, `counter of ${who}`].map((what) => [what, agentPath, null, null]);
}

function nothing(name: string, execute: () => string | Promise<string>) {
  return defineTool({ name, description: "Does it.", inputSchema: z.object({}), execute });
}
