// Verifies calls that wait for an answer in a paused run without a signature. Their arguments can be
// replaced together with their hash, but the model's message still has the original arguments.

import type { AgentRole } from "../../agent/agent-role.ts";
import { isWholeReply } from "../../agent/agent-state.ts";
import { schemaHashOf, storedCallOf, parsedJson } from "../../agent/tool-calls/parsed-call.ts";
import { sha256 } from "../../kernel/crypto.ts";
import { EspalierError } from "../../kernel/error.ts";
import { fingerprintOf } from "../../kernel/fingerprint.ts";
import { canonicalJson, sameJson } from "../../kernel/json.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { ToolCall } from "../../protocol/message.ts";
import { bindCall, type BoundCall } from "../../tools/bind-call.ts";
import type { Tool } from "../../tools/tool.ts";
import type { PausedAgent, PausedRunRecord } from "../durability/paused-run.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";

type OpenStep = NonNullable<Extract<PausedAgent["state"], { readonly status: "paused" }>["step"]>;
type WaitingQuestion = Extract<OpenStep["deferrals"][number], { readonly type: "question" }>;

/** A call about which a question is open, with the call in the model's message. */
interface WaitingCall {
  readonly agent: PausedAgent;
  readonly step: OpenStep;
  readonly deferral: WaitingQuestion;
  readonly call: ToolCall;
}

/** A waiting call whose stored value is not the one that its schema makes now. */
interface Mismatch {
  readonly deferral: WaitingQuestion;
  readonly parsed: string | undefined;
  readonly parseAgain: () => string | undefined;
}

/**
 * Returns the run with each call marked as unverified whose stored value its schema does not make.
 * Calls that `beforeTool` hooks may have rewritten are left as they are.
 *
 * Throws `invalid_paused_run` if a call has other arguments than its model wrote.
 */
export function verifyWaitingCalls(
  run: PausedRunRecord,
  roles: ReadonlyMap<AgentId, AgentRole>,
  registry: RoleRegistry,
): PausedRunRecord {
  const mismatches = listWaitingCalls(run).flatMap((waiting) => {
    if (knownCalls.has(digestOf(run, waiting))) return [];
    const role = roles.get(waiting.agent.agentId);
    if (role === undefined) return [];
    const { tools, hooks } = registry.partsOf(role);
    const { toolName } = waiting.call;
    const tool = tools.find(toolName);
    if (tool === undefined || hooks.chain("beforeTool", toolName).length > 0) return [];
    return findMismatch(waiting, tool) ?? [];
  });
  if (mismatches.length === 0) return run;
  // A transform that reads the clock must get the chance to return another value.
  waitForClock();
  const unverified = new Set(mismatches.filter(isReproducible).map(({ deferral }) => deferral));
  return unverified.size === 0 ? run : { ...run, agents: run.agents.map(marked(unverified)) };
}

function listWaitingCalls({ agents }: PausedRunRecord): readonly WaitingCall[] {
  return agents.flatMap((agent) => {
    const { state } = agent;
    if (state.status !== "paused" || state.step === undefined) return [];
    const { step } = state;
    return step.deferrals.flatMap((deferral) => {
      const call = step.reply?.message.toolCalls.find(({ callId }) => callId === deferral.callId);
      return deferral.type !== "question" || call === undefined
        ? []
        : { agent, step, deferral, call };
    });
  });
}

function findMismatch(waiting: WaitingCall, tool: Tool): Mismatch | undefined {
  const { step, deferral, call } = waiting;
  const { input, value, schemaHash, fingerprint } = storedCallOf(deferral);
  const bind = (): BoundCall => bindCall(tool, call.argumentsText, isWholeReply(step));
  const bound = bind();
  const parsed = describeValue(bound);
  const mismatch = { deferral, parsed, parseAgain: () => describeValue(bind()) };
  // The schema that the model was shown may have coerced other texts.
  if (bound.type === "rejected") return mismatch;
  const isAsWritten =
    sameJson(input, bound.input) &&
    (value !== undefined || sameJson(deferral.question.arguments, bound.input));
  if (!isAsWritten && schemaHash === schemaHashOf(tool)) throw otherArguments(waiting);
  const stored = value === undefined ? (fingerprint ?? "") : canonicalJson(value);
  return isAsWritten && parsed === stored ? undefined : mismatch;
}

/** Returns a text that is the same for equal values. `undefined` if the arguments were rejected. */
function describeValue(bound: BoundCall): string | undefined {
  if (bound.type === "rejected") return undefined;
  const value = parsedJson(bound.value);
  return value === undefined ? (fingerprintOf(bound.value) ?? "") : canonicalJson(value);
}

/** Returns true if the schema makes the same value twice: then the stored one is not from it. */
function isReproducible({ parsed, parseAgain }: Mismatch): boolean {
  if (parsed === undefined) return true;
  const again = parseAgain();
  return again === undefined || again === parsed;
}

const CLOCK_STEP_MS = 2;

function waitForClock(): void {
  const startMs = performance.now();
  while (performance.now() - startMs < CLOCK_STEP_MS);
}

function marked(unverified: ReadonlySet<WaitingQuestion>): (agent: PausedAgent) => PausedAgent {
  return (agent) => {
    const { state } = agent;
    if (state.status !== "paused" || state.step === undefined) return agent;
    const deferrals = state.step.deferrals.map((one) =>
      one.type === "question" && unverified.has(one)
        ? ({ ...one, isUnverified: true } as const)
        : one,
    );
    return { ...agent, state: { ...state, step: { ...state.step, deferrals } } };
  };
}

function otherArguments({ agent, deferral, call }: WaitingCall): EspalierError {
  const { agentPath } = agent;
  const { callId, toolName } = call;
  const { questionId } = deferral.question;
  return new EspalierError({
    code: "invalid_paused_run",
    message: `Expected the call ${callId} of ${toolName}, which question ${questionId} of ${agentPath} is about, to have the arguments that its model wrote, got others. Resume the paused run as it was stored, with the beforeTool hooks that it was paused with.`,
    data: { toolName, questionId, agentPath },
  });
}

// Calls that this process has paused: it has parsed them itself, and does not parse them again

const MOST_KNOWN = 10_000;
const knownCalls = new Set<string>();

/** Remembers the calls that wait in a paused run of this process. The oldest are forgotten first. */
export function rememberWaitingCalls(run: PausedRunRecord): void {
  for (const waiting of listWaitingCalls(run)) knownCalls.add(digestOf(run, waiting));
  for (const digest of knownCalls) {
    if (knownCalls.size <= MOST_KNOWN) break;
    knownCalls.delete(digest);
  }
}

function digestOf({ runId, traceId }: PausedRunRecord, { call, deferral }: WaitingCall): string {
  return sha256(canonicalJson([runId, traceId, call, deferral]));
}
