// Goal: if a step ends, fails or skips calls between two batches, no call of the later batches
// starts.
// Method: batches that fail, stops and cancellations while one runs, skipped calls; questions and
// charges compared.

import { expect, test } from "vitest";
import { z } from "zod";

import type { Phase } from "../../../src/agent/phase-report.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { ToolError } from "../../../src/tools/tool-error.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { ending } from "../../support/pause-stories.ts";
import { calls, part, quiet, spawn, use } from "../../harness/scripted-agents.ts";
import { outcomes } from "../../support/call-outcomes.ts";

test("starts no batch after a batch that failed its agent", async () => {
  const broken = spyTool("broken", () => {
    throw new ToolError("The house burns.", { severity: "abortive" });
  });
  const alone = spyTool("alone", () => "", { sequential: true });
  const free = spyTool("free");
  const { role } = soloist([calls(use("broken"), use("alone"), use("free"))], {
    tools: [broken, alone, free],
  });
  const result = await newFixture().run(role);
  expect([ending(result), alone.calls.length, free.calls.length]).toEqual([
    ["failed", "error"],
    0,
    0,
  ]);
  expect(outcomes(result).map(([, type, code]) => [type, code])).toEqual([
    ["failed", "tool_error"],
    ["not_executed", "not_executed"],
    ["not_executed", "not_executed"],
  ]);
  expect([result.usage.total.toolCalls, result.agents[0]?.errors.length]).toEqual([1, 1]);
});

test("calls no hooks for calls of a batch that can no longer start", async () => {
  const hooked: string[] = [];
  const broken = spyTool("broken", () => {
    throw new ToolError("The house burns.", { severity: "abortive" });
  });
  const alone = spyTool("alone", () => "", { sequential: true });
  const { role } = soloist([calls(use("broken"), use("alone"))], {
    tools: [broken, alone],
    hooks: [
      transform("beforeTool", ({ toolName }) => {
        hooked.push(toolName);
      }),
    ],
  });
  await newFixture().run(role);
  expect(hooked).toEqual(["broken"]);
});

test("keeps the failures of every batch, and continues after failures that the model can handle", async () => {
  const broken = spyTool("broken", () => {
    throw new Error("oops");
  });
  const alone = spyTool("alone", () => "alone done", { sequential: true });
  const { role } = soloist([calls(use("broken"), use("alone"), use("broken")), says("ok")], {
    tools: [broken, alone],
  });
  const result = await newFixture().run(role);
  expect([ending(result), outcomes(result).map(([name, type]) => [name, type])]).toEqual([
    ["completed", "completed"],
    [
      ["broken", "failed"],
      ["alone", "succeeded"],
      ["broken", "failed"],
    ],
  ]);
});

/** Calls `act` after the first phase of this name. */
async function at(run: Run, wanted: Phase, act: () => void): Promise<void> {
  let isDone = false;
  for await (const { phase } of run.iterate()) {
    if (phase === wanted && !isDone) act();
    isDone ||= phase === wanted;
  }
}

test("skips the calls of all batches of the step", async () => {
  const free = spyTool("free");
  const alone = spyTool("alone", () => "", { sequential: true });
  const { role } = soloist([calls(use("free"), use("alone"), use("free")), says("ok")], {
    tools: [free, alone],
  });
  const fixture = newFixture();
  const run = fixture.start(role);
  await at(run, "evaluate", () => run.skipToolCalls("Not today."));
  const result = await fixture.outcome(run);
  expect([free.calls.length, alone.calls.length]).toEqual([0, 0]);
  expect(outcomes(result).map(([, type, code]) => [type, code])).toEqual(
    [0, 1, 2].map(() => ["refused", "skipped"]),
  );
});

test("skips calls that have not started while a batch runs, and none of later steps", async () => {
  const held = latch();
  const free = spyTool("free");
  const slow = spyTool("slow", () => held.opened, { sequential: true });
  const { role } = soloist(
    [calls(use("slow"), use("free"), use("slow"), use("free")), calls(use("free")), says("ok")],
    { tools: [free, slow] },
  );
  const fixture = newFixture();
  const run = fixture.start(role);
  await quiet();
  run.skipToolCalls("Not today.");
  held.open();
  const result = await fixture.outcome(run);
  expect(outcomes(result).map(([name, , code]) => [name, code])).toEqual([
    ["slow", ""],
    ["free", "skipped"],
    ["slow", "skipped"],
    ["free", "skipped"],
    ["free", ""],
  ]);
});

for (const ends of ["stop", "cancel"] as const) {
  test(`starts, guards and charges no later call after a ${ends} during a batch`, async () => {
    const log: string[] = [];
    const held = latch();
    const slow = spyTool("slow", () => held.opened.then(() => "slow done"));
    const alone = spyTool("alone", () => void log.push("alone"), { sequential: true });
    const free = spyTool("free", () => void log.push("free"));
    const child = part("child", [says("never")]);
    const root = part("root", [calls(use("slow"), use("alone"), use("free"), spawn("child"))], {
      tools: [slow, alone, free],
      subagents: [child.role],
      hooks: [
        transform("beforeTool", ({ toolName }) => {
          log.push(`${toolName} hook`);
        }),
      ],
      guards: [
        toolGuard(({ toolName }) => {
          log.push(`${toolName} guard`);
          return { type: "allow" };
        }),
      ],
    });
    const fixture = newFixture();
    const run = fixture.start(root.role);
    await quiet();
    if (ends === "stop") run.requestStop();
    else void run.cancel();
    held.open();
    const result = await fixture.outcome(run);
    expect(outcomes(result).map(([, type]) => type)).toEqual([
      ends === "stop" ? "succeeded" : "cancelled",
      "not_executed",
      "not_executed",
      "not_executed",
    ]);
    expect([log, child.model.requests.length]).toEqual([["slow hook", "slow guard"], 0]);
    expect([result.usage.total.toolCalls, result.steps[0]?.telemetry.usage.toolCalls]).toEqual([
      1, 1,
    ]);
  });
}

test("accepts a typed output beside a sequential tool, and executes the calls after it", async () => {
  const alone = spyTool("alone", () => "alone done", { sequential: true });
  const { role } = soloist(
    [calls(use("alone"), { toolName: "Finish", arguments: { answer: "42" } }, use("alone"))],
    { tools: [alone], output: z.object({ answer: z.string() }) },
  );
  const result = await newFixture().run(role);
  expect([ending(result), result.output, alone.calls.length]).toEqual([
    ["completed", "completed"],
    { answer: "42" },
    2,
  ]);
});

test("counts identical calls across batches", async () => {
  const alone = spyTool("alone", () => "", { sequential: true, maxIdenticalCalls: 2 });
  const { role } = soloist([calls(use("alone"), use("alone"), use("alone")), says("ok")], {
    tools: [alone],
  });
  const result = await newFixture({ unansweredPolicy: "deny" }).run(role);
  expect(outcomes(result).map(([, type]) => type)).toEqual(["succeeded", "succeeded", "refused"]);
});
