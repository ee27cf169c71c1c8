// Goal: a log has a line for every event that its reader must know, and no other lines.
// Method: the lines of single events.

import { expect, test } from "vitest";

import { formatEventLine } from "../../src/terminal/plain-view.ts";
import type { EspalierEvent } from "../../src/index.ts";
import type { EventBody, ToolFailure } from "../../src/extend.ts";
import type { ToolFailureCode } from "../../src/protocol/tool-failure.ts";
import { AgentIdSchema, QuestionIdSchema, RunIdSchema } from "../../src/protocol/ids.ts";
import { NO_TIMING } from "../../src/protocol/step-timing.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";

const HOOK = { point: "beforeTool", changedBy: [{ hook: "redact", fields: ["arguments"] }] };
const REJECTED = {
  type: "tool.rejected",
  toolName: "mail",
  kind: "function",
  description: "Sends a mail.",
  outcome: "refused",
  index: 0,
  resultCharacters: 40,
} as const;

function refusal(code: ToolFailureCode): ToolFailure {
  return { code, message: "Not executed: mail is not allowed now.", severity: "fatal" };
}

const ANSWERED = {
  type: "question.answered",
  questionId: QuestionIdSchema().parse("exec_1.1.0"),
  toolName: "mail",
  waitedMs: 5_000,
} as const;

test.each<{ readonly body: EventBody; readonly line: string | undefined }>([
  {
    body: {
      type: "conversation.compacted",
      messagesBefore: 120,
      messagesAfter: 14,
      tokensBefore: 90_000,
      tokensAfter: 12_000,
    },
    line: "lead conversation compacted: 120 to 14 messages, 90,000 to 12,000 tokens",
  },
  {
    body: { type: "message.delivered", origin: "steering", characters: 120 },
    line: "lead was steered: 120 characters",
  },
  {
    // The reply has two calls. Finish is the second, and reports do not count it.
    body: {
      type: "step.completed",
      number: 2,
      usage: { ...NO_USAGE, modelCalls: 1, steps: 1, toolCalls: 1, totalTokens: 15, costUsd: 0.01 },
      timing: NO_TIMING,
      toolCallCount: 2,
    },
    line: "lead step 2: 15 tokens, $0.0100, 1 tool call",
  },
  { body: { type: "message.delivered", origin: "subtask", characters: 120 }, line: undefined },
  { body: { type: "request.repaired", repairCount: 1 }, line: undefined },
  { body: { type: "hook.applied", ...HOOK }, line: undefined },
  {
    body: { type: "hook.applied", ...HOOK, before: { to: "ann" }, after: { to: "bob" } },
    line: "lead arguments of a call changed by redact",
  },
  {
    body: { ...ANSWERED, answer: "denied", source: "deadline", reason: "Nobody answered in time." },
    line: "lead mail was denied by its deadline after 5.0s: Nobody answered in time.",
  },
  {
    body: { ...ANSWERED, answer: "approved", source: "approver", arguments: { to: "bob" } },
    line: 'lead mail was approved by the approver with {"to":"bob"} after 5.0s',
  },
  {
    body: { ...ANSWERED, answer: "denied", source: "caller", by: "ada@example.com", reason: "No." },
    line: "lead mail was denied by ada@example.com after 5.0s: No.",
  },
  {
    body: { ...ANSWERED, answer: "result", source: "caller" },
    line: "lead mail was given its result by the caller after 5.0s",
  },
  {
    body: { ...REJECTED, error: refusal("blocked"), blockedBy: "office", reason: "Not\nto him." },
    line: "lead mail refused (blocked): Not to him.",
  },
  {
    body: { ...REJECTED, error: refusal("tool_call_limit") },
    line: "lead mail refused (tool_call_limit): Not executed: mail is not allowed now.",
  },
  { body: { ...REJECTED, error: refusal("denied"), reason: "No." }, line: undefined },
  {
    body: {
      type: "budget.threshold_reached",
      axis: "costUsd",
      accountPath: "lead",
      threshold: 0.8,
      spent: 8_000,
      maximum: 10_000,
    },
    line: "lead has spent 80 % of its costUsd budget",
  },
])("prints $body.type as: $line", ({ body, line }) => {
  expect(formatEventLine(stamped(body))).toBe(line);
});

function stamped(body: EventBody): EspalierEvent {
  return {
    seq: 1,
    atMs: 0,
    runId: RunIdSchema().parse("run_1"),
    agentId: AgentIdSchema().parse("agent_1"),
    parentAgentId: null,
    agentPath: "lead",
    depth: 0,
    executionId: null,
    stepId: null,
    callId: null,
    traceId: "0af7651916cd43dd8448eb211c80319c",
    spanId: "b7ad6b7169203331",
    ...body,
  };
}
