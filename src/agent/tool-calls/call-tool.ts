// Runs one tool call: permission, body or delegation, record. The call was rewritten, checked and
// admitted before. No promise here rejects: every failure becomes a result for the model.
//
// `executeTools` in phases/execute-tools.ts calls `callTool`. A delegation continues in delegate.ts,
// and a call that has begun ends in `recordEnd` (record-calls.ts), unless it pauses.

import { awaitWithinBounds, type BoundedOutcome } from "../../kernel/cancel-signal.ts";
import { omitUndefined } from "../../kernel/json.ts";
import type { Release } from "../../kernel/semaphore.ts";
import type { WrappedToolCall } from "../../hooks/hook.ts";
import type { HookSet } from "../../hooks/hook-set.ts";
import { runInsideWraps } from "../../hooks/run-chain.ts";
import { runInScope } from "../../protocol/correlation.ts";
import { toSpans } from "../../protocol/step-timing.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import { formatToolResult } from "../../tools/result-text.ts";
import { readToolResult } from "../../tools/tool-result.ts";
import type { ToolRuntime } from "../../tools/tool-context.ts";
import { runInTime } from "../../tools/wrappers/with-timeout.ts";
import { createHookContext } from "../run-user-code.ts";
import type { CallEnd } from "../effect-outcomes.ts";
import { WrappedTime } from "../wrapped-time.ts";
import { createToolContext } from "./call-context.ts";
import { CANCELLED, settleUnstartedCall } from "./cancelled-calls.ts";
import {
  createThrownOutcome,
  serializeToolError,
  type CallOutcome,
  createRefusedOutcome,
  type Permission,
} from "./call-outcome.ts";
import { delegate, isTooLate, resumeDelegation } from "./delegate.ts";
import { closeCall, createNextDelegation, type CallInProgress } from "./open-call.ts";
import { callExternally, resumeQuestion, decideOrAskApprover } from "./call-questions.ts";
import { readRequestedRoles } from "./requested-roles.ts";
import { toRejectedOutcome, recordBegin, recordEnd } from "./record-calls.ts";
import { selectGuards } from "../../tools/tool-guard.ts";
import { findRepetition } from "./call-decision.ts";

type FunctionCall = Extract<OwnCall, { readonly type: "function" }>;

/**
 * Runs a call in this process. It holds no slot while it waits for permission or for its subagents.
 */
export function callTool(call: CallInProgress): Promise<CallEnd> {
  const { agent, bound, deferral } = call;
  const { persistence, run } = agent;
  return runInScope(call.scope, run.recorder, async () => {
    if (deferral?.type === "subagent") return await resumeDelegation(call, deferral);
    if (bound.type === "rejected") return await recordEnd(call, toRejectedOutcome(call, bound));
    if (bound.type === "finish") return await recordEnd(call, TAKEN, recordBegin(call));
    if (bound.type === "external") return await callExternally(call, bound);
    if (bound.type === "delegation") {
      // The throttle limits the delegations that begin in one turn of the event loop.
      const turn = run.settings.throttle.turn();
      if (turn !== undefined) await turn;
    }
    const requested =
      persistence === undefined ? authorize(call, bound) : persistence.authorize(call, bound);
    // Not awaited if no question is asked, so that all calls of a reply are authorized before the
    // first one begins.
    const permission = requested instanceof Promise ? await requested : requested;
    switch (permission.type) {
      case "deferred":
        return permission;
      case "cancelled":
        return settleUnstartedCall(call);
      case "unrunnable":
        return await recordEnd(call, permission.outcome);
      case "rejected":
        if (bound.type === "delegation" && readRequestedRoles(bound.input).length > 0)
          run.supervisor.noteDeniedSpawn(agent, createNextDelegation(call));
        return await recordEnd(call, toRejectedOutcome(call, permission));
      case "granted": {
        call.bound = permission.bound;
        const claiming = persistence?.whenOwned();
        if (claiming !== undefined) await claiming;
        if (permission.bound.type === "function") return await runTool(call, permission.bound);
        return isTooLate(call) ? settleUnstartedCall(call) : await delegate(call, permission.bound);
      }
    }
  });
}

const TAKEN: CallOutcome = { type: "succeeded", text: "Your result was accepted." };

/** Runs the function in a slot, which is released once the end of the call is recorded. */
async function runTool(call: CallInProgress, bound: FunctionCall): Promise<CallEnd> {
  const { agent, signal } = call;
  const { clock, limiter } = agent.run;
  const askedAtMs = clock.nowMs();
  let releaseSlot: Release | undefined;
  agent.beginWork();
  try {
    const entered = limiter.acquireToolSlot(signal);
    releaseSlot = entered instanceof Promise ? await entered : entered;
    if (releaseSlot === undefined || signal.aborted) return settleUnstartedCall(call, askedAtMs);
    const begun = recordBegin(call, askedAtMs);
    const beginning = agent.persistence?.begin(call, bound.tool);
    if (beginning !== undefined) await beginning;
    return await recordEnd(call, await runBody(call, bound), begun);
  } finally {
    releaseSlot?.();
    agent.endWork();
  }
}

const NO_WRAPS: ReturnType<HookSet["toolWraps"]> = Object.freeze([]);

/** Runs the body with the hooks around it, and returns its outcome. */
async function runBody(call: CallInProgress, bound: FunctionCall): Promise<CallOutcome> {
  const { agent, signal, toolName } = call;
  const { clock, recorder } = agent.run;
  const startedAtMs = clock.nowMs();
  const { timeoutMs } = call.settings;
  const context = createToolContext(call);
  const runtime = (): ToolRuntime => createToolRuntime(call);
  const body = async (): Promise<unknown> =>
    timeoutMs === undefined
      ? await bound.use.run(context, runtime)
      : await runInTime(bound.use, context, runtime, timeoutMs);
  const wraps = agent.hooks.hasToolWraps ? agent.hooks.toolWraps(toolName) : NO_WRAPS;
  const timed = wraps.length === 0 ? undefined : new WrappedTime(clock);
  const working = recorder.runInSpan(
    call.scope,
    timed === undefined ? body : () => runWrapped(call, bound, wraps, () => timed.runInside(body)),
  );
  const bounded = await awaitWithinBounds(working, { ...agent.bounds, signal });
  const subtasks = closeCall(call);
  const doneAtMs = clock.nowMs();
  const spans =
    timed === undefined ? toSpans("tool", startedAtMs, doneAtMs) : [...timed.hooks, ...timed.tool];
  // A cancelled call drops its result. If the agent only stops, a result that arrived in time
  // counts. An error caused by the abort does not.
  const hasResult = bounded.type === "returned" && !agent.cancelSignal.aborted;
  if (signal.aborted && !hasResult) return { ...CANCELLED, spans };
  const outcome = readBodyOutcome(toolName, bounded);
  const formatting = toSpans("formatting", doneAtMs, clock.nowMs());
  return { ...outcome, ...omitUndefined({ subtasks }), spans: [...spans, ...formatting] };
}

/** Runs the hooks around a body. */
function runWrapped(
  call: CallInProgress,
  bound: FunctionCall,
  wraps: ReturnType<HookSet["toolWraps"]>,
  body: () => Promise<unknown>,
): Promise<unknown> {
  const { agent, stepNumber, toolName, position } = call;
  const callFor = (hookName: string): WrappedToolCall => ({
    toolName,
    callId: position.callId,
    arguments: bound.input,
    context: createHookContext(agent, stepNumber, hookName),
  });
  return runInsideWraps(wraps, callFor, body, agent.bounds);
}

function readBodyOutcome(toolName: string, bounded: BoundedOutcome<unknown>): CallOutcome {
  if (bounded.type === "abandoned") return CANCELLED;
  try {
    if (bounded.type === "returned") return createReturnedOutcome(bounded.value);
    return createThrownOutcome(toolName, bounded.error);
  } catch (cause) {
    return createThrownOutcome(toolName, cause);
  }
}

/** Returns the runtime for the wrappers of a tool. */
function createToolRuntime(call: CallInProgress): ToolRuntime {
  const { agent, toolName } = call;
  const { run } = agent;
  return Object.freeze({
    toolName,
    clock: run.clock,
    graceMs: run.settings.graceMs,
    endSignal: call.signal.abortSignal,
    run,
    noteRetry: ({ attempt, error, delayMs }: Parameters<ToolRuntime["noteRetry"]>[0]) => {
      if (call.isClosed) return;
      const retried = { attempt, error: serializeToolError(error), delayMs };
      agent.recordWithinCall({ type: "tool.retried", toolName, ...retried }, call.position);
    },
  });
}

const TEXT_ONLY = { isTextOnly: true } as const;

/**
 * Returns the outcome of a call whose tool returned `result`. Throws any error that reading the
 * result throws, and a `TypeError` for a value that is not JSON.
 */
export function createReturnedOutcome(result: unknown): CallOutcome {
  if (typeof result === "string") return { type: "succeeded", text: result };
  const known = readToolResult(result);
  if (known === undefined) return { type: "succeeded", text: formatToolResult(result) };
  const { text, structured, attachments, showAttachments } = known;
  const shown = attachments.length > 0 && { attachments, ...(showAttachments ? {} : TEXT_ONLY) };
  return { type: "succeeded", text, ...omitUndefined({ structured }), ...shown };
}

/** Returns or requests the permission for a call. Synchronous if nothing has to be asked. */
export function authorize(call: CallInProgress, bound: OwnCall): Permission | Promise<Permission> {
  const { agent, deferral, settings } = call;
  if (deferral?.type === "question") return resumeQuestion(call, bound, deferral);
  const repeated = findRepetition(call, bound);
  const isReviewed =
    call.denial !== undefined ||
    repeated !== undefined ||
    (agent.guards.length > 0 && selectGuards(agent.guards, bound.tool.name).length > 0);
  if (
    bound.type === "delegation" &&
    typeof bound.use !== "function" &&
    bound.use.type === "spawn"
  ) {
    // A subagent that cannot be started at present is refused before an approver is asked.
    const { request } = bound.use;
    const delegated = createNextDelegation(call);
    const refused = agent.run.supervisor.reserveSpawn(agent, request, delegated, isReviewed);
    if (refused !== undefined)
      return { type: "unrunnable", outcome: createRefusedOutcome(refused) };
  }
  if (call.signal.aborted) return { type: "cancelled" };
  const needsApproval =
    bound.type === "function" && (bound.use.needsApproval ?? settings.needsApproval) !== false;
  return isReviewed || needsApproval
    ? decideOrAskApprover(call, bound, repeated)
    : { type: "granted", bound };
}
