// Goal: all state of tool calls is preserved across a pause, JSON text and a new orchestrator.
// Method: one run with retries, failures, hidden tools, truncated results and attachments before
// and after a pause; its end compared with that of a run without a pause.

import { expect, test } from "vitest";

import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { ToolRetryError } from "../../../src/tools/tool-error.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { toolResult } from "../../../src/tools/tool-result.ts";
import { approve } from "../../../src/protocol/question.ts";
import type { StepRecord } from "../../../src/protocol/step-record.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, ending } from "../../support/pause-stories.ts";
import { calls, use } from "../../harness/scripted-agents.ts";
import { outcomes } from "../../support/call-outcomes.ts";

const ATTACHMENT = {
  type: "image",
  mediaType: "image/png",
  data: "AAAA",
  name: "dot.png",
} as const;

/** Returns tools that count across the pause, and the scripts of a run. */
function world() {
  const counts: (readonly [string, number, number])[] = [];
  let isOffered = true;
  const tools = [
    spyTool("long", () => "x".repeat(30), { maxResultCharacters: 10 }),
    spyTool("picture", () => toolResult({ structured: { a: 1 }, attachments: [ATTACHMENT] })),
    spyTool("fussy", ({ callId, retryCount, maxRetries }) => {
      counts.push([callId, retryCount, maxRetries]);
      throw new ToolRetryError("Again.");
    }),
    spyTool("broken", () => {
      throw new Error("oops");
    }),
    spyTool("pay", () => "paid", { needsApproval: true }),
    spyTool("alone", () => "alone done", { sequential: true }),
    spyTool("secret"),
  ];
  const script: readonly ScriptedReply[] = [
    calls(use("fussy"), use("broken"), use("long")),
    calls(
      use("fussy"),
      use("picture"),
      use("long"),
      use("broken"),
      use("secret"),
      use("pay"),
      use("alone"),
      use("secret"),
      use("broken"),
    ),
    calls({ ...use("fussy"), callId: "call_13" }, { ...use("broken"), callId: "call_14" }),
    says("ok"),
  ];
  const more = {
    tools,
    toolFilters: [toolFilter((name) => name !== "secret" || !isOffered, { name: "discreet" })],
    errorBudget: { maxToolErrors: 20, maxConsecutiveErrors: 5, maxRetryErrors: 10 },
    errorPolicy: { retryLimitPolicy: "stop" },
  } as const;
  return {
    counts,
    part: (from: number, to?: number) => soloist(script.slice(from, to), more),
    open: () => {
      isOffered = false;
    },
  };
}

const CALLS = [
  ["fussy", "retry", "tool_retry"],
  ["broken", "failed", "tool_error"],
  ["long", "succeeded", ""],
  ["fussy", "retry", "tool_retry"],
  ["picture", "succeeded", ""],
  ["long", "succeeded", ""],
  ["broken", "failed", "tool_error"],
  ["secret", "refused", "tool_not_available"],
  ["pay", "succeeded", ""],
  ["alone", "succeeded", ""],
  ["secret", "refused", "tool_not_available"],
  ["broken", "failed", "tool_error"],
  ["fussy", "failed", "retry_limit"],
  ["broken", "failed", "tool_error"],
];

/** Omits the context of the third step, which began after the filter changed. */
function lasting({ context, ...step }: StepRecord): object {
  return step.number < 3 ? { ...step, context } : step;
}

test("preserves retries, failures, hidden tools, complete texts and attachments across a pause", async () => {
  const here = world();
  const fixture = newFixture();
  const paused = await fixture.run(here.part(0, 2).role);
  expect(ending(paused)).toEqual(["paused", "input_required"]);
  here.open(); // A tool that was hidden in a step stays hidden in it.
  const resumed = await fixture.outcome(
    fixture.resume(here.part(2).role, paused.pausedRun, approveAll(paused)),
  );
  const there = world();
  const straight = await newFixture({ approver: (question) => approve(question) }).run(
    there.part(0).role,
  );
  for (const result of [resumed, straight]) {
    expect([
      ending(result),
      outcomes(result).map(([name, type, code]) => [name, type, code]),
    ]).toEqual([["stopped", "retry_limit"], CALLS]);
  }
  expect(resumed.steps.map(lasting)).toEqual(straight.steps.map(lasting));
  expect(resumed.agents[0]?.toolErrors).toEqual(straight.agents[0]?.toolErrors);
  const counts = ["call_1", "call_4", "call_13"].map((callId, index) => [callId, index, 2]);
  expect([here.counts, there.counts]).toEqual([counts, counts]);
  const executions = resumed.steps[1]?.tools.executions ?? [];
  expect([executions[1]?.attachments, executions[2]?.fullText]).toEqual([
    [ATTACHMENT],
    "x".repeat(30),
  ]);
});

test("preserves the count of the error budget", async () => {
  const broken = spyTool("broken", () => {
    throw new Error("oops");
  });
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const more = { tools: [broken, pay], errorBudget: { maxToolErrors: 2, maxConsecutiveErrors: 9 } };
  const fixture = newFixture();
  const paused = await fixture.run(
    soloist([calls(use("broken"), use("broken")), calls(use("pay"))], more).role,
  );
  const again = soloist([calls(use("broken")), says("unused")], more);
  const result = await fixture.outcome(
    fixture.resume(again.role, paused.pausedRun, approveAll(paused)),
  );
  expect([ending(result), broken.calls.length]).toEqual([["stopped", "error_budget"], 3]);
});

test("counts tools named like object properties as any other, across a pause", async () => {
  const names = ["constructor", "toString", "hasOwnProperty"];
  const fussy = names.map((name) =>
    spyTool(name, () => {
      throw new ToolRetryError("Again.");
    }),
  );
  const pay = spyTool("pay", () => "paid", { needsApproval: true });
  const more = {
    tools: [...fussy, pay],
    toolDefaults: { maxRetries: 1 },
    errorPolicy: { retryLimitPolicy: "continue" },
  } as const;
  const fixture = newFixture();
  const paused = await fixture.run(
    soloist([calls(...names.map(use), use("__proto__")), calls(use("pay"))], more).role,
  );
  const again = soloist([calls(...names.map(use)), says("ok")], more);
  const result = await fixture.outcome(
    fixture.resume(again.role, paused.pausedRun, approveAll(paused)),
  );
  expect([ending(result), outcomes(result).map(([, , code]) => code)]).toEqual([
    ["completed", "completed"],
    [
      "tool_retry",
      "tool_retry",
      "tool_retry",
      "unknown_tool",
      "",
      "retry_limit",
      "retry_limit",
      "retry_limit",
    ],
  ]);
});
