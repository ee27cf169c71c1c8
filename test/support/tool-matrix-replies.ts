// Replies with any calls that fail and succeed, under any error budget and policy, and their
// expected counts.

import * as fc from "fast-check";

import type { ErrorBudget, ErrorPolicy } from "../../src/policies/error-budget.ts";
import type { ScriptedCall } from "../../src/testing/scripted-model.ts";
import { spawn, use } from "../harness/scripted-agents.ts";

/** A call with its outcome when made alone, and its count. */
interface Kind {
  readonly call: ScriptedCall;
  readonly end: string;
  readonly counts: "success" | "error" | "retry" | "nothing";
}

const wrong = { toolName: "read", arguments: { path: 7 } };

const KINDS = {
  look: { call: use("look"), end: "succeeded", counts: "success" },
  invalid_json: {
    call: { toolName: "read", arguments: "{path}" },
    end: "retry invalid_json",
    counts: "retry",
  },
  invalid_arguments: { call: wrong, end: "retry invalid_arguments", counts: "retry" },
  tool_retry: { call: use("fetch"), end: "retry tool_retry", counts: "retry" },
  retry_limit: { call: use("guess"), end: "failed retry_limit", counts: "error" },
  unknown_tool: { call: use("open"), end: "failed unknown_tool", counts: "error" },
  tool_not_available: {
    call: use("secret"),
    end: "refused tool_not_available",
    counts: "error",
  },
  recoverable: { call: use("crash"), end: "failed tool_error", counts: "error" },
  fatal: { call: use("close"), end: "failed tool_error", counts: "error" },
  tool_timeout: { call: use("hang"), end: "failed tool_timeout", counts: "error" },
  blocked: { call: use("wipe"), end: "refused blocked", counts: "error" },
  denied: { call: use("pay"), end: "refused denied", counts: "error" },
  approval_check_failed: {
    call: use("list"),
    end: "refused approval_check_failed",
    counts: "error",
  },
  unknown_role: { call: spawn("nobody"), end: "refused unknown_role", counts: "nothing" },
  subagent_failed: { call: spawn("broken"), end: "failed subagent_failed", counts: "error" },
} as const satisfies Readonly<Record<string, Kind>>;

type KindName = keyof typeof KINDS;

/** These tools allow three corrections in a row. */
const MAX_RETRIES = 2;

/** Replies of a model, and the limits of its agent. */
export interface Replies {
  readonly replies: readonly (readonly KindName[])[];
  readonly errorBudget: ErrorBudget;
  readonly errorPolicy: ErrorPolicy;
}

const kindNames: readonly KindName[] = Object.keys(KINDS).filter(
  (name): name is KindName => name in KINDS,
);

const limit = fc.oneof(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 4, max: 12 }));
const policy = fc.constantFrom("continue" as const, "stop" as const);

/** Returns any of the calls. About every second one succeeds. */
export const anyReplies: fc.Arbitrary<Replies> = fc.record({
  replies: fc.array(
    fc.array(fc.oneof(fc.constant<KindName>("look"), fc.constantFrom(...kindNames)), {
      minLength: 1,
      maxLength: 6,
    }),
    { minLength: 1, maxLength: 4 },
  ),
  errorBudget: fc.record({
    maxToolErrors: limit,
    maxConsecutiveErrors: limit,
    maxRetryErrors: limit,
  }),
  errorPolicy: fc.record({ blockedPolicy: policy, retryLimitPolicy: policy }),
});

/** The calls of a reply. */
export function callsOf(reply: readonly KindName[]): readonly ScriptedCall[] {
  return reply.map((name) => KINDS[name].call);
}

/** Returns the expected outcomes of the calls, reply by reply. */
export interface Expected {
  readonly ends: readonly string[];
  readonly signals: readonly string[];
  readonly ending: readonly [status: string, code: string];
}

/**
 * Counts as documented: N failures are tolerated, the next one ends the agent, and a success ends a
 * series, which may have been too long before.
 */
export function expectedReplies({ replies, errorBudget, errorPolicy }: Replies): Expected {
  const ends: string[] = [];
  const retries = new Map<string, number>();
  let errors = 0;
  let inRow = 0;
  let asked = 0;
  for (const reply of replies) {
    const codes: string[] = [];
    const before = new Map(retries);
    const counted = new Set<string>();
    let longestRow = 0;
    for (const name of reply) {
      const { call, end, counts }: Kind = KINDS[name];
      const isSpent = counts === "retry" && (before.get(call.toolName) ?? 0) >= MAX_RETRIES;
      const came = isSpent ? "failed retry_limit" : end;
      ends.push(came);
      codes.push(came.split(" ")[1] ?? "");
      if (counts === "success") inRow = 0;
      if (counts === "error" || isSpent) {
        errors += 1;
        inRow += 1;
        longestRow = Math.max(longestRow, inRow);
      }
      if (counts !== "retry" || isSpent) continue;
      asked += 1;
      if (!counted.has(call.toolName))
        retries.set(call.toolName, (before.get(call.toolName) ?? 0) + 1);
      counted.add(call.toolName);
    }
    const { maxToolErrors, maxConsecutiveErrors, maxRetryErrors } = errorBudget;
    const beyond = [
      errors > maxToolErrors,
      longestRow > maxConsecutiveErrors,
      asked > maxRetryErrors,
    ];
    const signals = [
      ...codes.flatMap((code) => signalOf(code, errorPolicy)),
      ...beyond.flatMap((isBeyond) => (isBeyond ? ["error_budget"] : [])),
    ];
    const winner = ["retry_limit", "error_budget", "blocked"].find((code) =>
      signals.includes(code),
    );
    if (winner !== undefined) return { ends, signals, ending: ["stopped", winner] };
  }
  return { ends, signals: ["completed"], ending: ["completed", "completed"] };
}

function signalOf(
  code: string,
  { blockedPolicy, retryLimitPolicy }: ErrorPolicy,
): readonly string[] {
  if (code === "retry_limit" && retryLimitPolicy === "stop") return ["retry_limit"];
  const isBlocked = ["blocked", "denied", "approval_check_failed"].includes(code);
  return isBlocked && blockedPolicy === "stop" ? ["blocked"] : [];
}
