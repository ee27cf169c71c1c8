// Goal: every view shows the calls of a step in the order of the reply, and causes follow that
// order.
// Method: replies whose calls begin or are denied in another order.

import { expect } from "vitest";
import { z } from "zod";

import { defineTool, toolGuard, type RunResult } from "../../src/index.ts";
import { says } from "../../src/testing/index.ts";
import { formatRunReport } from "../../src/terminal/report.ts";
import type { RunFold } from "../../src/read-model/run-fold.ts";
import { proves } from "../harness/proves.ts";
import { newFixture, flushEventLoop } from "../harness/run-scripted.ts";
import { agent, line } from "../support/read-model/causes-in.ts";
import { foldOf } from "../support/read-model/fold-of.ts";

const input = z.object({ on: z.string() });

proves(["D541"], "names the first failure of the reply instead of the later denial", async () => {
  const { fold } = await runOf(["a", "b", "text", "denied"], "maxConsecutiveErrors", 1);
  expect(fold.causes().map(line)).toEqual([
    "lead step 1 work tool_error: a is broken",
    "lead step 1 error_budget, a limit",
  ]);
});

proves(
  ["D541"],
  "names the first failure of the reply even if its guard answers last",
  async () => {
    for (const [limit, maximum] of [
      ["maxConsecutiveErrors", 1],
      ["maxToolErrors", 2],
    ] as const) {
      const { fold } = await runOf(["slow", "b", "text", "d"], limit, maximum);
      expect(fold.causes().map(line), limit).toEqual([
        "lead step 1 work tool_error: slow is broken",
        "lead step 1 error_budget, a limit",
      ]);
    }
  },
);

proves(["D540"], "lists failed calls in the same order in steps and in the report", async () => {
  const { fold, result } = await runOf(["slow", "b", "text", "denied", "d"], "maxToolErrors", 9);
  const [step] = fold.root?.steps ?? [];
  const failed = ["slow is broken", "b is broken", /^Not executed: work was denied/, "d is broken"];
  const inOrder = failed.map((message): unknown => expect.stringMatching(message));
  expect(step?.calls.flatMap(({ error }) => error?.message ?? [])).toEqual(inOrder);
  expect(result.agents[0]?.toolErrors.map(({ message }) => message)).toEqual(inOrder);
  const report = formatRunReport(result);
  const places = ["slow is", "b is", "work was denied", "d is"].map((one) => report.indexOf(one));
  expect(places.toSorted((one, other) => one - other)).toEqual(places);
  expect(Math.min(...places)).toBeGreaterThan(0);
});

async function runOf(
  on: readonly string[],
  limit: "maxConsecutiveErrors" | "maxToolErrors",
  maximum: number,
): Promise<{ readonly fold: RunFold; readonly result: RunResult }> {
  const s = newFixture();
  const work = defineTool({
    name: "work",
    description: "Works.",
    inputSchema: input,
    execute: (given) => {
      if (given.on === "text") return "text";
      throw new Error(`${given.on} is broken`);
    },
  });
  const guard = toolGuard(async (call) => {
    const given = input.parse(call.arguments);
    if (given.on === "slow")
      await new Promise<void>((resolve) => void s.clock.setTimer(1_000, resolve));
    return given.on === "denied" ? { type: "deny", reason: "It is locked." } : { type: "allow" };
  });
  const calls = on.map((one) => ({ toolName: "work", arguments: { on: one } }));
  const lead = agent("lead", [{ calls }, says("Done.")], {
    tools: [work],
    guards: [guard],
    errorBudget: { [limit]: maximum },
  });
  const run = s.start(lead);
  await flushEventLoop();
  s.clock.advance(1_000);
  const result = await s.outcome(run);
  return { fold: foldOf(s.sink.events), result };
}
