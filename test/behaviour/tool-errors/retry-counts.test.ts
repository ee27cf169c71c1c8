// Goal: the model is asked for a corrected call of a tool as often as the tool allows, and each
// tool has its own count.
// Method: tools that record their retryCount; scripts over several tools, several calls in a reply,
// and pauses.

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll } from "../../support/pause-stories.ts";
import { withRetries } from "../../../src/tools/wrappers/with-retries.ts";
import { calls, part, quiet, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";
import {
  acting,
  ending,
  ends,
  fails,
  historyOf,
  retries,
  succeeds,
  texts,
  type Act,
} from "../../support/tool-acts.ts";

interface Counting {
  readonly tool: FunctionTool;
  /** The retryCount and maxRetries of its calls, in order. */
  readonly seen: readonly (readonly [number, number])[];
}

function counting(name: string, acts: readonly Act[], maxRetries?: number): Counting {
  const seen: (readonly [number, number])[] = [];
  const noted = acts.map((act): Act => (context) => {
    seen.push([context.retryCount, context.maxRetries]);
    return act(context);
  });
  const more = maxRetries === undefined ? {} : { maxRetries };
  return { tool: acting(name, noted, more), seen };
}

async function play(
  script: readonly ScriptedReply[],
  definition: Partial<Omit<AgentDefinition, "model">>,
): Promise<RunResult> {
  return await newFixture().run(soloist(script, definition).role);
}

const one = (name: string): ScriptedReply => calls(use(name));
const DONE = says("Done.");

proves(["R109"], "keeps the count of a tool while other tools are called in between", async () => {
  const a = counting("a", [retries, retries, succeeds]);
  const b = counting("b", [succeeds]);
  const script = [one("a"), one("b"), one("a"), one("a"), DONE];
  await play(script, { tools: [a.tool, b.tool] });
  expect([a.seen, b.seen]).toEqual([
    [
      [0, 2],
      [1, 2],
      [2, 2],
    ],
    [[0, 2]],
  ]);
});

proves(["R109"], "resets the count after a success", async () => {
  const a = counting("a", [retries, succeeds, retries, succeeds]);
  const result = await play([one("a"), one("a"), one("a"), one("a"), DONE], { tools: [a.tool] });
  expect(a.seen.map(([count]) => count)).toEqual([0, 1, 0, 1]);
  expect(result.status).toBe("completed");
});

proves(["R109"], "counts the retries of each tool separately", async () => {
  const a = counting("a", [retries, retries, succeeds]);
  const b = counting("b", [retries, succeeds]);
  await play([calls(use("a"), use("b")), calls(use("b"), use("a")), one("a"), DONE], {
    tools: [a.tool, b.tool],
  });
  expect([a.seen, b.seen].map((seen) => seen.map(([count]) => count))).toEqual([
    [0, 1, 2],
    [0, 1],
  ]);
});

proves(["R109"], "counts invalid arguments like a retry that the tool requests", async () => {
  const seen: number[] = [];
  const order = defineTool({
    name: "order",
    description: "Orders.",
    inputSchema: z.object({ count: z.int() }),
    execute: (_input, { retryCount }) => void seen.push(retryCount),
  });
  const script = [
    asks("order", { count: "x" }),
    asks("order", "{oops"),
    asks("order", { count: 1 }),
    DONE,
  ];
  const result = await play(script, { tools: [order] });
  expect([seen, ends(result)]).toEqual([
    [2],
    ["retry invalid_arguments", "retry invalid_json", "succeeded"],
  ]);
});

test("ignores other failures in the count", async () => {
  const a = counting("a", [retries, fails, retries, succeeds]);
  await play([one("a"), one("a"), one("a"), one("a"), DONE], { tools: [a.tool] });
  expect(a.seen.map(([count]) => count)).toEqual([0, 1, 1, 2]);
});

test("passes the same count to all calls of one reply, and counts them once", async () => {
  const a = counting("a", [retries, retries, retries, succeeds]);
  const result = await play([calls(use("a"), use("a"), use("a")), one("a"), DONE], {
    tools: [a.tool],
  });
  expect(a.seen.map(([count]) => count)).toEqual([0, 0, 0, 1]);
  expect(ends(result)).toEqual([
    "retry tool_retry",
    "retry tool_retry",
    "retry tool_retry",
    "succeeded",
  ]);
});

for (const [order, acts, expected] of [
  ["a success before it does not cover a retry", [succeeds, retries], 1],
  ["a success after it does", [retries, succeeds], 0],
] as const) {
  test(`counts two calls in one reply in order: ${order}`, async () => {
    const a = counting("a", [...acts, succeeds]);
    await play([calls(use("a"), use("a")), one("a"), DONE], { tools: [a.tool] });
    expect(a.seen.map(([count]) => count)).toEqual([0, 0, expected]);
  });
}

test("counts in call order, whichever call ends first", async () => {
  const held = Promise.withResolvers<void>();
  const slow: Act = async (context) => {
    await held.promise;
    return retries(context);
  };
  const quick: Act = () => {
    held.resolve();
    return "fine";
  };
  const a = counting("a", [slow, quick, succeeds]);
  const result = await play([calls(use("a"), use("a")), one("a"), DONE], { tools: [a.tool] });
  expect(ends(result)).toEqual(["retry tool_retry", "succeeded", "succeeded"]);
  expect(a.seen.map(([count]) => count)).toEqual([0, 0, 0]);
});

proves(["R109"], "preserves counts across a pause into a new orchestrator", async () => {
  const a = counting("a", [retries, retries, succeeds]);
  const tools = [a.tool, spyTool("pay", () => "paid", { needsApproval: true })];
  const { role } = soloist([one("a"), calls(use("a"), use("pay")), one("a"), DONE], { tools });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  expect([paused.status, a.seen.map(([count]) => count)]).toEqual(["paused", [0, 1]]);
  const result = await fixture.outcome(fixture.resume(role, paused.pausedRun, approveAll(paused)));
  expect([result.status, a.seen.map(([count]) => count)]).toEqual(["completed", [0, 1, 2]]);
});

test("counts for each agent separately, also for one role and one tool", async () => {
  const a = counting("a", [retries, retries, retries, retries, succeeds]);
  let spoken = 0;
  const script = (): ScriptedReply => {
    spoken += 1;
    return spoken % 3 === 0 ? says("Child.") : one("a");
  };
  const child = part("child", script, { tools: [a.tool] });
  const root = part("root", [calls(spawn("child")), calls(spawn("child")), DONE], {
    subagents: [child.role],
  });
  const result = await newFixture().run(root.role);
  expect(a.seen.map(([count]) => count)).toEqual([0, 1, 0, 1]);
  expect(result.agents.map(({ status }) => status)).toEqual([
    "completed",
    "completed",
    "completed",
  ]);
});

// maxRetries.

const LIMIT = {
  status: "stopped",
  code: "retry_limit",
  data: { toolName: "a", callId: "call_2" },
};

proves(["R110"], "stops the agent at the second failure if one retry is allowed", async () => {
  const a = counting("a", [retries], 1);
  const fixture = newFixture();
  const run = fixture.start(soloist([one("a"), one("a")], { tools: [a.tool] }).role);
  const history = await historyOf(fixture, run);
  const result = await run.result;
  expect(a.seen).toEqual([
    [0, 1],
    [1, 1],
  ]);
  expect(ends(result)).toEqual(["retry tool_retry", "failed retry_limit"]);
  expect(ending(result)).toEqual([LIMIT.status, LIMIT.code, LIMIT.data]);
  expect(history).toEqual({
    texts: [
      "a asks for a corrected call: Say it otherwise.",
      "a asks for a corrected call: Say it otherwise.\nIt was corrected once already. Do not call a again: do without it, or answer with what you have.",
    ],
    problems: [],
  });
  expect(
    fixture.sink.ofType("tool.ended").map(({ error }) => [error?.code, error?.severity]),
  ).toEqual([
    ["tool_retry", "retryable"],
    ["retry_limit", "fatal"],
  ]);
  expect(
    fixture.sink.ofType("signal.raised").map(({ signal }) => [signal.source, signal.reason.code]),
  ).toEqual([["tool", "retry_limit"]]);
});

proves(
  ["R110"],
  "continues without the call if retryLimitPolicy is continue, with a valid history",
  async () => {
    const a = counting("a", [retries], 1);
    const { role, model } = soloist([one("a"), one("a"), DONE], {
      tools: [a.tool],
      errorPolicy: { retryLimitPolicy: "continue" },
    });
    const result = await newFixture().run(role);
    expect(ends(result)).toEqual(["retry tool_retry", "failed retry_limit"]);
    expect([result.status, result.text]).toEqual(["completed", "Done."]);
    expect(receivedTexts(model.requests[2])).toEqual([
      "a asks for a corrected call: Say it otherwise.\nIt was corrected once already. Do not call a again: do without it, or answer with what you have.",
    ]);
    model.assertComplete();
  },
);

proves(
  ["R110"],
  "fails at the first failure if no retry is allowed, with either policy",
  async () => {
    for (const retryLimitPolicy of ["stop", "continue"] as const) {
      const a = counting("a", [retries], 0);
      const script = retryLimitPolicy === "stop" ? [one("a")] : [one("a"), DONE];
      const result = await play(script, {
        tools: [a.tool],
        errorPolicy: { retryLimitPolicy },
      });
      expect([retryLimitPolicy, a.seen, ends(result)]).toEqual([
        retryLimitPolicy,
        [[0, 0]],
        ["failed retry_limit"],
      ]);
      expect(result.status).toBe(retryLimitPolicy === "stop" ? "stopped" : "completed");
      expect(texts(result)).toEqual([
        "a asks for a corrected call: Say it otherwise.\nDo not call a again: do without it, or answer with what you have.",
      ]);
    }
  },
);

proves(["R110"], "allows two retries by default", async () => {
  const a = counting("a", [retries]);
  const result = await play([one("a"), one("a"), one("a")], { tools: [a.tool] });
  expect(ends(result)).toEqual(["retry tool_retry", "retry tool_retry", "failed retry_limit"]);
  expect(ending(result).slice(0, 2)).toEqual(["stopped", "retry_limit"]);
  expect(texts(result)[2]).toContain("It was corrected 2 times already.");
});

test("prefers the tool's own maximum to that of the role", async () => {
  const own = counting("own", [retries], 1);
  const other = counting("other", [retries]);
  const script = [calls(use("own"), use("other")), calls(use("own"), use("other")), DONE];
  const result = await play(script, {
    tools: [own.tool, other.tool],
    toolDefaults: { maxRetries: 0 },
    errorPolicy: { retryLimitPolicy: "continue" },
  });
  expect(ends(result)).toEqual([
    "retry tool_retry",
    "failed retry_limit",
    "failed retry_limit",
    "failed retry_limit",
  ]);
});

test("reports two calls of one reply beyond the limit, with the first as the reason", async () => {
  const a = counting("a", [retries], 1);
  const result = await play([one("a"), calls(use("a"), use("a"))], { tools: [a.tool] });
  expect(ends(result)).toEqual(["retry tool_retry", "failed retry_limit", "failed retry_limit"]);
  expect(ending(result)).toEqual(["stopped", "retry_limit", { toolName: "a", callId: "call_2" }]);
});

test("executes the other calls of a reply with a call beyond the limit", async () => {
  const a = counting("a", [retries], 0);
  const b = counting("b", [succeeds]);
  const result = await play([calls(use("b"), use("a"), use("b"))], { tools: [a.tool, b.tool] });
  expect(ends(result)).toEqual(["succeeded", "failed retry_limit", "succeeded"]);
  expect(ending(result).slice(0, 2)).toEqual(["stopped", "retry_limit"]);
});

test("fails each further call beyond the limit until the tool succeeds", async () => {
  const a = counting("a", [retries, retries, succeeds, retries, succeeds], 1);
  const result = await play([one("a"), one("a"), one("a"), one("a"), one("a"), DONE], {
    tools: [a.tool],
    errorPolicy: { retryLimitPolicy: "continue" },
  });
  expect(ends(result)).toEqual([
    "retry tool_retry",
    "failed retry_limit",
    "succeeded",
    "retry tool_retry",
    "succeeded",
  ]);
  expect(a.seen.map(([count]) => count)).toEqual([0, 1, 1, 0, 1]);
});

test("stops at the limit for arguments that never fit, without executing the tool", async () => {
  const order = defineTool({
    name: "order",
    description: "Orders.",
    inputSchema: z.object({ count: z.int() }),
    maxRetries: 1,
    execute: () => expect.unreachable("it must not run"),
  });
  const result = await play([asks("order", { count: "x" }), asks("order", "{oops")], {
    tools: [order],
  });
  expect(ends(result)).toEqual(["retry invalid_arguments", "failed retry_limit"]);
  expect(ending(result).slice(0, 2)).toEqual(["stopped", "retry_limit"]);
});

proves(
  ["R110"],
  "stops only the child that reached its limit, and continues its parent",
  async () => {
    const a = counting("a", [retries], 0);
    const child = part("child", [one("a")], { tools: [a.tool] });
    const root = part("root", [calls(spawn("child")), DONE], { subagents: [child.role] });
    const result = await newFixture().run(root.role);
    expect(result.agents.map(({ status, reason }) => [status, reason.code])).toEqual([
      ["completed", "completed"],
      ["stopped", "retry_limit"],
    ]);
    expect(receivedTexts(root.model.requests[1])[0]).toContain('"reason":"retry_limit"');
  },
);

const queueing: Act = (context) => {
  context.queueSubtask({ role: "child", task: "Tidy up." });
  return retries(context);
};

test("executes subtasks that a tool queued before it failed", async () => {
  for (const [maxRetries, what] of [
    [1, "retry"],
    [0, "limit"],
  ] as const) {
    const child = part("child", [says("Tidy.")]);
    const tools = [acting("a", [queueing], { maxRetries })];
    const { role } = part("root", [one("a"), DONE], {
      tools,
      subagents: [child.role],
      errorPolicy: { retryLimitPolicy: "continue" },
    });
    const result = await newFixture().run(role);
    expect([what, result.agents.length]).toEqual([what, 2]);
  }
});

proves(["R109"], "does not count retries of a wrapper", async () => {
  const a = counting("a", [fails, fails, retries, fails, succeeds], 1);
  const fixture = newFixture();
  const { role } = soloist([one("a"), one("a"), DONE], {
    tools: [withRetries(a.tool, { initialDelayMs: 0 })],
    errorBudget: { maxToolErrors: 0, maxRetryErrors: 1 },
  });
  const run = fixture.start(role);
  for (let wait = 0; wait < 3; wait += 1) {
    await quiet();
    fixture.clock.advance(0);
  }
  const result = await fixture.outcome(run);
  expect([result.status, ends(result)]).toEqual(["completed", ["retry tool_retry", "succeeded"]]);
  expect(a.seen.map(([count]) => count)).toEqual([0, 0, 0, 1, 1]);
  expect(fixture.sink.ofType("tool.retried").map(({ attempt }) => attempt)).toEqual([1, 2, 1]);
});
