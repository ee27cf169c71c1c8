// Goal: a retained result keeps no part of its run in memory, and never changes.
// Method: weak references and a forced garbage collection; a clock that moves while a paused agent
// is ended.

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { expect, test } from "vitest";
import { z } from "zod";

import { defineAgent, defineTool, Orchestrator } from "../../../src/index.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/index.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { beside } from "../../support/life-agents.ts";
import { payTool } from "../../support/pause-stories.ts";
import { calls, part } from "../../harness/scripted-agents.ts";

setFlagsFromString("--expose-gc");
const collectGarbage = z.function().parse(runInNewContext("gc"));

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const CALLER = `00-${TRACE_ID}-b7ad6b7169203331-01`;

function looker() {
  const look = defineTool({
    name: "look",
    description: "Looks.",
    inputSchema: z.object({ at: z.string() }),
    execute: ({ at }) => `seen ${at}`,
  });
  return defineAgent({
    name: "looker",
    instructions: "Look.",
    tools: [look],
    model: new ScriptedModel([asks("look", { at: "a" }), says("Done.")]),
  });
}

/** Returns the result of a run, and a weak reference to a value that only the run refers to. */
async function runWithContext() {
  const context = { user: "Ada" };
  const result = await new Orchestrator().start(looker(), "Look at a.", { context }).result;
  return { result, held: new WeakRef(context) };
}

proves(
  ["D630"],
  "lets the run and its context be garbage-collected while its result is retained",
  async () => {
    const { result, held } = await runWithContext();
    for (let turn = 0; turn < 10 && held.deref() !== undefined; turn += 1) {
      await new Promise(setImmediate);
      collectGarbage();
    }
    expect(held.deref()).toBe(undefined);
    expect([
      result.accounts.map(({ agentPath: path, own }) => [path, own.steps, own.toolCalls]),
      result.prices.map(({ model }) => model),
      Object.values(result.definitions).includes("Look."),
      [result.subagentsByDepth, result.refusalsByCode],
    ]).toEqual([[["looker", 2, 1]], ["scripted"], true, [{}, {}]]);
  },
);

test("returns the same trace id in result and snapshot without observers", async () => {
  const run = new Orchestrator().start(looker(), "Look at a.");
  const result = await run.result;
  expect(result.traceId).toMatch(/^[\da-f]{32}$/u);
  expect(run.snapshot()).toMatchObject({ traceId: result.traceId });
});

test("continues the trace of the caller without observers", async () => {
  const options = { traceparent: CALLER };
  const result = await new Orchestrator().start(looker(), "Look at a.", options).result;
  expect(result.traceId).toBe(TRACE_ID);
});

/**
 * Executes a run whose lead ends while its detached subagent is paused. Ending the subagent takes a
 * second.
 */
async function leavePaused(readsAtOnce: boolean) {
  const held = latch();
  const pay = { toolName: "pay", arguments: { amount: 1 } };
  const slow = part("slow", [calls(pay), says("Never.")], { tools: [payTool()] });
  const lead = part("lead", [calls(beside("slow")), says("Done.", { after: held.opened })], {
    delegation: { background: true, parentEndPolicy: "detach" },
    subagents: [slow.role],
  });
  const take = ({ type }: EspalierEvent): void => {
    if (type === "agent.paused") held.open();
    if (type === "agent.resumed") s.clock.advance(1_000);
  };
  const s = newFixture({ sinks: [{ emit: take }] });
  const run = s.start(lead.role, "Do it.", { traceparent: CALLER });
  const result = await run.result;
  const atOnce = readsAtOnce ? JSON.stringify(result) : undefined;
  const { accounts } = await s.outcome(run);
  return { read: JSON.parse(atOnce ?? JSON.stringify(result)) as unknown, accounts };
}

proves(["D631"], "does not change while a detached paused agent is ended", async () => {
  const [{ read: early }, { read: late, accounts }] = [
    await leavePaused(true),
    await leavePaused(false),
  ];
  expect(late).toEqual(early);
  expect(accounts.map(({ pausedMs }) => pausedMs)).toEqual([0, 1_000]);
});
