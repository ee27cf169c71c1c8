// Runs a delegation: starts subagents and waits for them without a slot (S1). Its call ends after
// them, except for background subagents, which only their parent has to outlive (T2).
//
// call-tool.ts calls `delegate`, for `SpawnSubagent` and for the delegations of users. The
// supervisor of the run (orchestrator/tree/supervisor.ts) checks, starts and runs each subagent.
// The outcome becomes the result of the call here, and record-calls.ts records it.

import { awaitWithinBounds, type BoundedOutcome } from "../../kernel/cancel-signal.ts";
import { describeReceived, checkKeys, checkText } from "../../kernel/argument-checks.ts";
import { deepFreeze, omitUndefined, isRecord } from "../../kernel/json.ts";
import type { AgentId } from "../../protocol/ids.ts";
import {
  copyContent,
  formatContent,
  replaceText,
  type MessageContent,
} from "../../protocol/message-content.ts";
import type { SpawnOutcome, SpawnRequest, SubagentOutcome } from "../../protocol/subagent.ts";
import type { ToolFailureCode } from "../../protocol/tool-failure.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import { describeDelegation } from "../../tools/delegation-text.ts";
import type {
  DelegationContext,
  DelegationOutcome,
  SubagentService,
  ContinueRequest,
} from "../../tools/tool-context.ts";
import type { DelegatedCall } from "../run-ports.ts";
import type { Deferral } from "../agent-state.ts";
import type { CallEnd } from "../effect-outcomes.ts";
import { CANCELLED } from "./cancelled-calls.ts";
import {
  failCall,
  createThrownOutcome,
  PARENT_ENDING,
  type CallOutcome,
  type PausedChild,
} from "./call-outcome.ts";
import { createCallContext, checkSpawnRequest } from "./call-context.ts";
import { closeCall, createNextDelegation, type CallInProgress } from "./open-call.ts";
import { recordBegin, recordEnd, recordPause, type BegunCall } from "./record-calls.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { applyChain } from "../run-user-code.ts";

const SPAWN_TOO_LATE = "Not started: the call that requested the subagent has ended.";
const REQUEST_TOO_LATE = "Not done: the call has ended.";

/** Returns the outcome of a request that came after its call had ended. */
function refuseLate(message: string): SpawnOutcome {
  return deepFreeze({ type: "refused", refusal: { code: "parent_stopped", message } });
}

/** Records and counts the refusal of a request of an agent that starts nothing further. */
function refuseStopped(call: CallInProgress, role: string): SpawnOutcome {
  const { supervisor } = call.agent.run;
  supervisor.recordForbiddenSpawn(call.agent, { role }, PARENT_ENDING, createNextDelegation(call));
  return { type: "refused", refusal: PARENT_ENDING };
}

/** Runs a delegation from its beginning. */
export async function delegate(
  call: CallInProgress,
  { tool, use }: Extract<OwnCall, { readonly type: "delegation" }>,
): Promise<CallEnd> {
  const begun = recordBegin(call);
  if (typeof use !== "function") {
    const delegation = createNextDelegation(call);
    const pending =
      use.type === "spawn"
        ? spawnWithHooks(call, use.request, delegation)
        : continueWithHooks(call, use.request, delegation);
    return await awaitAndRecord(call, pending, begun);
  }
  return await awaitCode(call, tool.name, use(createDelegationContext(call)), begun);
}

/** Awaits the code of a tool that starts subagents itself, and the subagents that it started. */
async function awaitCode(
  call: CallInProgress,
  toolName: string,
  working: Promise<DelegationOutcome>,
  begun: BegunCall,
): Promise<CallEnd> {
  const bounds = { ...call.agent.bounds, signal: call.signal };
  let bounded = await awaitWithinBounds(working, bounds);
  if (bounded.type === "abandoned" && call.spawned.length > 0) {
    await Promise.allSettled(call.spawned);
    bounded = await awaitWithinBounds(working, bounds);
  }
  const subtasks = closeCall(call);
  const children = await Promise.allSettled(call.spawned);
  const [awaited, ...others] = findPaused(call, bounded, children);
  const pending =
    awaited === undefined
      ? findOutcome(call, toolName, bounded, children)
      : Promise.resolve({ type: "paused", childId: awaited } as const);
  const inBackground = [...collectSpawned(children, "started"), ...others];
  const startedAgentIds = inBackground.length === 0 ? undefined : inBackground;
  return await awaitAndRecord(call, pending, begun, { subtasks, startedAgentIds });
}

/** Resumes a subagent that was paused with the call, and waits for it. */
export async function resumeDelegation(
  call: CallInProgress,
  { childId, subtasks, startedAgentIds }: Extract<Deferral, { readonly type: "subagent" }>,
): Promise<CallEnd> {
  const { agent, position } = call;
  const begun = recordBegin(call);
  const pending = agent.run.supervisor.resume(agent, childId, position);
  return await awaitAndRecord(call, pending, begun, { subtasks, startedAgentIds });
}

/**
 * Waits for a delegation. Records the end of its call, or that the call waits for a paused
 * subagent.
 */
async function awaitAndRecord(
  call: CallInProgress,
  pending: Promise<DelegationOutcome>,
  begun: BegunCall,
  left: Pick<PausedChild, "subtasks" | "startedAgentIds"> = {},
): Promise<CallEnd> {
  let outcome: CallOutcome | PausedChild;
  try {
    const ended = await pending;
    outcome = ended.type === "paused" ? ended : createDelegatedOutcome(ended);
  } catch (cause) {
    outcome = call.signal.aborted ? CANCELLED : createThrownOutcome(call.toolName, cause);
  }
  closeCall(call);
  const whole = { ...outcome, ...omitUndefined(left) };
  return whole.type === "paused"
    ? recordPause(call, whole, begun)
    : await recordEnd(call, whole, begun);
}

/**
 * Returns the paused subagents of a delegation: first the one whose result becomes that of the
 * call. The others report in messages. Their questions would be lost if the call ended instead.
 */
function findPaused(
  { agent }: CallInProgress,
  bounded: BoundedOutcome<DelegationOutcome>,
  children: readonly PromiseSettledResult<SpawnOutcome>[],
): readonly AgentId[] {
  if (bounded.type === "abandoned" || children.some(({ status }) => status === "rejected"))
    return [];
  const pausedIds = collectSpawned(children, "paused");
  const returned = bounded.type === "returned" ? bounded.value : undefined;
  const isReturned = (childId: AgentId): boolean =>
    isOutcome(returned) && returned.type === "paused" && returned.childId === childId;
  const isPaused = (childId: AgentId): boolean =>
    agent.children.some(({ identity, hasEnded }) => identity.agentId === childId && !hasEnded);
  return [
    ...pausedIds.filter(isReturned),
    ...pausedIds.filter((childId) => !isReturned(childId) && isPaused(childId)),
  ];
}

/**
 * Returns the result of a delegation whose subagents have ended. Ends the paused ones if its code
 * has not returned, or a subagent could not be started.
 */
async function findOutcome(
  { agent }: CallInProgress,
  toolName: string,
  bounded: BoundedOutcome<DelegationOutcome>,
  children: readonly PromiseSettledResult<SpawnOutcome>[],
): Promise<DelegationOutcome> {
  const broken = children.find((child) => child.status === "rejected");
  const { supervisor } = agent.run;
  const pausedIds = collectSpawned(children, "paused");
  await Promise.all(pausedIds.map((childId) => supervisor.dismiss(agent, childId)));
  if (broken !== undefined) throw broken.reason;
  if (bounded.type === "threw") throw bounded.error;
  const returned = bounded.type === "returned" ? bounded.value : undefined;
  if (isOutcome(returned) && returned.type !== "paused") return returned;
  throw new TypeError(
    `Expected the delegation ${toolName} to return the result of context.spawn or context.subagents, got ${describeReceived(returned)}. Return that result unchanged.`,
  );
}

/** Lists subagents that a call has started and that are paused or work in the background. */
function collectSpawned(
  children: readonly PromiseSettledResult<SpawnOutcome>[],
  type: "paused" | "started",
): readonly AgentId[] {
  return children.flatMap((child) =>
    child.status === "fulfilled" && child.value.type === type ? [child.value.childId] : [],
  );
}

/**
 * True for an outcome returned by the context, and for a refusal or answer that the delegation
 * created itself.
 */
function isOutcome(value: unknown): value is DelegationOutcome {
  if (!isRecord(value)) return false;
  const { type, result, refusal, childId } = value;
  if (type === "answered") return typeof value["text"] === "string";
  if (type === "started")
    return typeof childId === "string" && typeof value["subagent"] === "string";
  if (type === "ended") return isRecord(result) && isRecord(result["usage"]);
  if (type === "refused") return isRecord(refusal) && typeof refusal["message"] === "string";
  return type === "paused" && typeof childId === "string";
}

/**
 * True if the call can start nothing further. A call whose subagent was active when the process
 * died still adopts that subagent, in order to end it.
 */
export function isTooLate({ agent, signal, position }: CallInProgress): boolean {
  return signal.aborted && agent.persistence?.inFlight?.hasChildOf(position.callId) !== true;
}

function createDelegationContext(call: CallInProgress): DelegationContext {
  return createCallContext(call, {
    spawn: (request: SpawnRequest) => {
      const checked = checkSpawnRequest("spawn", request);
      if (call.isClosed) return Promise.resolve(refuseLate(SPAWN_TOO_LATE));
      return isTooLate(call)
        ? Promise.resolve(refuseStopped(call, checked.role))
        : takeChild(call, spawnWithHooks(call, checked, createNextDelegation(call)));
    },
    subagents: bindSubagentService(call),
  });
}

/** Adds a subagent that is started for the call. */
function takeChild(call: CallInProgress, spawned: Promise<SpawnOutcome>): Promise<SpawnOutcome> {
  // A delegation may start a subagent and ignore the outcome.
  spawned.catch(() => undefined);
  call.spawned.push(spawned);
  return spawned;
}

/**
 * Returns the outcome of a delegation that is not paused. If its subagent did not complete, the
 * call failed.
 */
function createDelegatedOutcome(
  outcome: Exclude<DelegationOutcome, { readonly type: "paused" }>,
): CallOutcome {
  if (outcome.type === "answered") {
    const { text, reportedAgentIds = [] } = outcome;
    return { type: "succeeded", text, ...(reportedAgentIds.length > 0 && { reportedAgentIds }) };
  }
  const text = describeDelegation(outcome);
  if (outcome.type === "refused") {
    const { code, message: reason } = outcome.refusal;
    return failCall(code, text, { reason });
  }
  if (outcome.type === "started")
    return { type: "succeeded", text, startedAgentIds: [outcome.childId] };
  const { outcome: worth, usage, reason } = outcome.result;
  // For the record only: the parent was already charged for the calls of the child.
  const counted = { usage: usage.total };
  return worth === "completed"
    ? { type: "succeeded", text, ...counted }
    : failCall(SUBAGENT_FAILURES[worth], text, { ...counted, reason: reason.message });
}

const SUBAGENT_FAILURES = {
  partial: "subagent_partial",
  no_output: "subagent_no_output",
  failed: "subagent_failed",
  cancelled: "subagent_cancelled",
} as const satisfies Record<Exclude<SubagentOutcome, "completed">, ToolFailureCode>;

/** The agent that delegates, and the step in which it delegates. */
export interface Delegator {
  readonly agent: AgentRuntime;
  readonly stepNumber: number;
}

/**
 * Starts a subagent with the task as changed by hooks. Rejects only with the coded error of a hook
 * that broke.
 */
export async function spawnWithHooks(
  delegator: Delegator,
  request: SpawnRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const { agent } = delegator;
  const isHooked = agent.hooks.points.has("subagentStart");
  // Always awaited, so that all calls of a reply are checked before the first one creates a
  // subagent.
  const task = await (isHooked ? applyTaskHooks(delegator, request, call) : request.task);
  return await agent.run.supervisor.spawn(agent, { ...request, task }, call);
}

// Hooks that see a task before its subagent starts.

/** Returns the task as changed by hooks. Rejects with the coded error of a hook that broke. */
async function applyTaskHooks(
  { agent, stepNumber }: Delegator,
  { role, task: original }: Pick<SpawnRequest, "role" | "task">,
  call: DelegatedCall,
): Promise<MessageContent> {
  const point = "subagentStart";
  if (agent.hooks.chain(point).length === 0) return original;
  const { callId = null, nth = 0 } = call;
  const task = formatContent(original);
  const ask = async (): Promise<string> => {
    const input = { role, task, childDepth: agent.identity.depth + 1 };
    const { patch } = await applyChain(agent, { point, stepNumber, position: call, input });
    return patch.task ?? task;
  };
  const hasStarted = agent.persistence?.inFlight?.hasChildOf(callId, nth) === true;
  const hooked = hasStarted ? task : await ask();
  return hooked === task ? original : replaceText(original, hooked);
}

// Operations of a delegation on the subagents of its agent: wait, message, cancel and continue.

/**
 * Returns the operations of a call on the agent's subagents. They are refused once the call has
 * ended.
 */
function bindSubagentService(call: CallInProgress): SubagentService {
  const { agent } = call;
  const service = agent.run.supervisor.createService(agent, createNextDelegation(call));
  return Object.freeze({
    ...service,
    wait: async (request?: Parameters<SubagentService["wait"]>[0]) =>
      call.isClosed ? refuseLate(REQUEST_TOO_LATE) : await service.wait(request),
    sendMessage: (subagent: string, text: string) =>
      call.isClosed ? refuseLate(REQUEST_TOO_LATE) : service.sendMessage(subagent, text),
    cancel: async (subagent: string, reason?: string) =>
      call.isClosed ? refuseLate(REQUEST_TOO_LATE) : await service.cancel(subagent, reason),
    continue: (request: ContinueRequest) => {
      const checked = parseContinueRequest(request);
      return call.isClosed
        ? Promise.resolve(refuseLate(SPAWN_TOO_LATE))
        : takeChild(call, continueWithHooks(call, checked, createNextDelegation(call)));
    },
  });
}

/**
 * Returns the request with checked content. Throws `invalid_argument` if it
 * is invalid.
 */
function parseContinueRequest(request: ContinueRequest): ContinueRequest {
  const fields = ["subagent", "task", "background", "role", "includeResultsFrom", "roleDefinition"];
  checkKeys("continue", request, fields);
  checkText("continue.subagent", request.subagent);
  return { ...request, task: copyContent("continue.task", request.task) };
}

/** Continues a subagent that has ended, with the task as changed by hooks. */
async function continueWithHooks(
  delegator: Delegator,
  request: ContinueRequest,
  call: DelegatedCall,
): Promise<SpawnOutcome> {
  const { agent } = delegator;
  const { supervisor } = agent.run;
  const known = agent.findChild(request.subagent);
  if (known === undefined) return await supervisor.continue(agent, request, call);
  const delegation = { role: known.role.name, task: request.task };
  const task = await applyTaskHooks(delegator, delegation, call);
  return await supervisor.continue(agent, { ...request, task }, call);
}
