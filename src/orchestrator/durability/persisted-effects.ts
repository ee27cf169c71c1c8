// PersistedEffects: the effects of an agent, whose outcomes are persisted before they are used
// (D1). An outcome in the journal is not produced again (D2). Effects with their own steps, such as
// the work of subagents, are persisted by these steps.
//
// Owns the effects that were in flight when the process crashed, until their phase is repeated.
// Until then, external requests to the agent wait, and recorded events and charged usage are not
// recorded or charged again.

import { lazyObject, z } from "../../protocol/lazy-schema.ts";
import type { Persistence } from "../../agent/persistence.ts";
import type { EffectPosition } from "../../agent/agent-identity.ts";
import { canStartSubagents } from "../../agent/agent-role.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { AgentState } from "../../agent/agent-state.ts";
import type { Lease, LeaseOutcome } from "../../budget/lease.ts";
import {
  CallEndSchema,
  readInferOutcome,
  type CallEnd,
  type InferOutcome,
} from "../../agent/effect-outcomes.ts";
import type { Phase } from "../../agent/phase-report.ts";
import {
  findCallDifference,
  parseRecordOf,
  restoreCall,
  pickShownArguments,
  type StoredCall,
} from "../../agent/tool-calls/parsed-call.ts";
import { authorize } from "../../agent/tool-calls/call-tool.ts";
import { callTool } from "../../agent/tool-calls/call-tool.ts";
import type { CallInProgress } from "../../agent/tool-calls/open-call.ts";
import { confirmPermission, refuseCall } from "../../agent/tool-calls/call-questions.ts";
import { emitResult } from "../../agent/tool-calls/record-calls.ts";
import { INTERRUPTED, type Permission } from "../../agent/tool-calls/call-outcome.ts";
import { omitUndefined, sameJson } from "../../kernel/json.ts";
import type { LeaseId } from "../../protocol/ids.ts";
import { JsonValueSchema } from "../../protocol/json-value.ts";
import type { StopSignal } from "../../protocol/stop.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import {
  formatModelEffectName,
  formatPermitEffectName,
  formatToolEffectName,
} from "./effect-names.ts";
import { takeFirst, type InFlightWork } from "../../agent/in-flight-work.ts";
import type { RunJournal } from "./run-journal.ts";

/** A permitted call, as stored in the journal. */
const PermitSchema = lazyObject(() => ({
  /** Before parsing. */
  arguments: JsonValueSchema(),
  /** Absent if equal to `arguments`, or if the value is not JSON. */
  parsedArguments: JsonValueSchema().exactOptional(),
  unparsed: z.literal(true).exactOptional(),
  schemaHash: z.string(),
  fingerprint: z.string().exactOptional(),
  /** Present if an approver was asked and approved. */
  isApproved: z.literal(true).exactOptional(),
}));

export class PersistedEffects implements Persistence {
  protected readonly agent: AgentRuntime;
  readonly #journal: RunJournal;
  inFlight: InFlightWork | undefined;
  /** Signals in the restored log. A request that repeats a logged signal is dropped, once. */
  readonly #logged: StopSignal[];
  /** Number of ends of calls without a wait, and of those known to be persisted. */
  #unwaited = 0;
  #caughtUp = 0;

  /**
   * Creates the effects. `inFlight` contains the effects in flight of an agent whose process
   * crashed.
   */
  constructor(journal: RunJournal, agent: AgentRuntime, inFlight: InFlightWork | undefined) {
    this.agent = agent;
    this.#journal = journal;
    this.inFlight = inFlight;
    this.#logged = [...agent.currentState.log.signals];
  }

  // Model calls

  async requestCallLease(
    position: EffectPosition,
    work: () => Promise<LeaseOutcome>,
  ): Promise<LeaseOutcome> {
    return this.inFlight?.takeLease(formatModelEffectName(position)) ?? (await work());
  }

  async infer(
    position: EffectPosition,
    lease: Lease,
    work: () => Promise<InferOutcome>,
  ): Promise<InferOutcome> {
    const name = formatModelEffectName(position);
    const known = this.outcome(name);
    if (known !== undefined) return readInferOutcome(known);
    const { run } = this.agent;
    const isAgain = this.inFlight !== undefined && position.sideCall === undefined;
    if (isAgain) run.pieces?.reset(this.agent.toPartSource(position), "recovered");
    const outcome = await this.#recordEffect(name, work, lease.leaseId);
    await this.whenPersisted();
    return outcome;
  }

  /**
   * Waits until the lease and the event `model.requested` are persisted, before the request is
   * sent. A recovery charges a lost call only if both are in the journal. The wait does not count
   * as work in progress, so `run.release` may end it.
   */
  async prepareSend(): Promise<void> {
    this.#journal.endWork();
    await this.whenPersisted();
    this.#journal.beginWork();
  }

  // Tool calls

  async callTool(call: CallInProgress): Promise<CallEnd> {
    const name = formatToolEffectName(call);
    const known = this.outcome(name);
    if (known !== undefined) {
      const recorded = restoreCallEnd(known, call);
      // Emitted again, because the process that emitted it is gone.
      if (recorded.type === "executed") emitResult(this.agent, call, recorded);
      return recorded;
    }
    const { type } = call.bound;
    const isWork = type === "function" || type === "external" || type === "delegation";
    if (isWork && this.#isAhead) await this.whenPersisted();
    const end =
      type === "function"
        ? await this.#recordEffect(name, () => callTool(call))
        : this.#append(name, await callTool(call));
    if (isProgress(end)) this.#journal.writer.noteProgress();
    // The end of a call without effects is persisted so that it is recorded once, but nothing waits
    // for that.
    if (!isWork && call.deferral === undefined) return end;
    if (this.#isActedUponLater(end)) this.#unwaited += 1;
    else await this.whenPersisted();
    return end;
  }

  /**
   * Returns true if the end of a successful call is used only later. If the agent is alone in its
   * run, the end next reaches a request, a further call, user code or the end of the run. Each of
   * these waits until it is persisted (D1), so the end is written together with the next request.
   */
  #isActedUponLater(end: CallEnd): boolean {
    const { identity, role, stepper } = this.agent;
    const isAlone = identity.parentAgentId === null && !canStartSubagents(role);
    if (!isAlone || stepper !== undefined || end.type === "deferred") return false;
    return end.failure === undefined && end.execution.type === "succeeded";
  }

  get #isAhead(): boolean {
    return this.#unwaited > this.#caughtUp;
  }

  async consult<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isAhead) await this.whenPersisted();
    return await work();
  }

  /**
   * Persists a permission before it is used, so that no approver is asked twice. A call that may be
   * repeated needs no wait.
   */
  authorize(call: CallInProgress, bound: OwnCall): Permission | Promise<Permission> {
    if (!isRepeatable(bound.tool) && this.hadBegun(formatToolEffectName(call)))
      return { type: "unrunnable", outcome: INTERRUPTED };
    const name = formatPermitEffectName(call);
    const permit = this.outcome(name);
    if (bound.type === "delegation" && this.inFlight?.hasChildOf(call.call.callId) === true)
      return { type: "granted", bound: restoreBegunCall(bound, permit) };
    if (permit !== undefined) return restorePermission(call, bound, permit);
    const permission = authorize(call, bound);
    const isAtOnce = !(permission instanceof Promise) && call.deferral === undefined;
    return isAtOnce ? permission : this.#savePermit(name, permission);
  }

  async #savePermit(name: string, permit: Permission | Promise<Permission>): Promise<Permission> {
    const permission = await permit;
    if (permission.type !== "granted") return permission;
    this.#append(name, createPermit(permission));
    await this.whenPersisted();
    return permission;
  }

  begin(call: CallInProgress, tool: OwnCall["tool"]): Promise<void> | undefined {
    if (isRepeatable(tool)) return undefined;
    return this.#recordBegin(formatToolEffectName(call));
  }

  /**
   * Waits until the begin of a call is persisted. The call counts as work in progress, except while
   * it may not begin: a release does not wait for it then.
   */
  async #recordBegin(name: string): Promise<void> {
    const { writer } = this.#journal;
    if (writer.isSuspended) {
      this.#journal.endWork();
      await writer.whenPersisted();
      this.#journal.beginWork();
    }
    this.#journal.append({ type: "begun", agentId: this.agent.identity.agentId, name });
    await writer.whenBeginPersisted();
  }

  // Subagents

  dismissOrphans(): Promise<unknown> | undefined {
    const { children = [] } = this.inFlight ?? {};
    if (children.length === 0) return undefined;
    const { supervisor } = this.agent.run;
    return Promise.all(children.map(({ childId }) => supervisor.dismiss(this.agent, childId)));
  }

  // Recorded input that the agent still has to process

  filterUnlogged(requests: readonly StopSignal[]): readonly StopSignal[] {
    const logged = this.#logged;
    if (logged.length === 0) return requests;
    const isLogged = (signal: StopSignal): boolean =>
      takeFirst(logged, (requested) => sameJson(requested, signal)) !== undefined;
    return requests.filter((signal) => !isLogged(signal));
  }

  // Records

  onStopRequested(signal: StopSignal): void {
    this.#journal.append({ type: "signal", agentId: this.agent.identity.agentId, signal });
  }

  onStepOpened(state: AgentState): void {
    this.#journal.save(this.agent, "open", state);
  }

  onPhaseEnd(phase: Phase, state: AgentState): void {
    // Phases without side effects. They are repeated after a crash.
    if (phase === "evaluate" || phase === "applyToolResults") return;
    this.#journal.recordPhase(this.agent, phase, state);
    if (phase !== "prepare") this.inFlight = undefined;
  }

  onDeadline(deadlineAtMs: number): boolean {
    return this.#journal.recordDeadline(this.agent.identity.agentId, deadlineAtMs);
  }

  whenOwned(): Promise<void> | undefined {
    return this.#journal.writer.whenClaimed();
  }

  async whenPersisted(): Promise<void> {
    const unwaited = this.#unwaited;
    await this.#journal.writer.whenPersisted();
    this.#caughtUp = Math.max(this.#caughtUp, unwaited);
  }

  /**
   * Returns the recorded outcome of the effect of this name, once. `undefined` if it is unknown.
   */
  protected outcome(name: string): unknown {
    return this.inFlight?.takeOutcome(name);
  }

  /**
   * Returns true, once, if a call that must not be repeated had begun before the process crashed,
   * and its end is unknown.
   */
  protected hadBegun(name: string): boolean {
    return this.inFlight?.unrepeatable.delete(name) === true;
  }

  /**
   * Runs an effect as work in progress: a release waits for it within the grace period. `leaseId`
   * is the lease of a model call.
   */
  async #recordEffect<T extends object>(
    name: string,
    work: () => Promise<T>,
    leaseId?: LeaseId,
  ): Promise<T> {
    this.#journal.beginWork();
    try {
      return this.#append(name, await work(), leaseId);
    } finally {
      this.#journal.endWork();
    }
  }

  #append<T extends object>(name: string, outcome: T, leaseId?: LeaseId): T {
    const { agentId } = this.agent.identity;
    const lease = leaseId === undefined ? {} : { leaseId };
    this.#journal.append({ type: "effect", agentId, name, outcome, ...lease });
    return outcome;
  }
}

/** Returns true if the call ended by itself: it was neither deferred nor interrupted by a crash. */
function isProgress(end: CallEnd): boolean {
  return end.type === "executed" && end.execution.errorCode !== INTERRUPTED.errorCode;
}

function isRepeatable(tool: OwnCall["tool"]): boolean {
  return tool.kind !== "function" || tool.retryAfterCrash;
}

function createPermit({
  bound,
  isApproved,
}: Extract<Permission, { readonly type: "granted" }>): z.infer<ReturnType<typeof PermitSchema>> {
  const { arguments: shown, writtenArguments, unparsed } = pickShownArguments(bound);
  const parsedArguments = writtenArguments === undefined ? undefined : shown;
  const parts = omitUndefined({ parsedArguments, unparsed, isApproved });
  return { arguments: bound.input, ...parts, ...parseRecordOf(bound) };
}

/** Returns the call that a permit allows. */
function parsePermit(permit: unknown): StoredCall & { readonly isApproved: boolean } {
  const read = PermitSchema().parse(permit);
  const { arguments: input, parsedArguments = input, unparsed, schemaHash, fingerprint } = read;
  const value = unparsed === true ? undefined : parsedArguments;
  return { input, value, schemaHash, fingerprint, isApproved: read.isApproved === true };
}

/**
 * Returns the call with the arguments that were permitted before its process crashed, if its schema
 * and the guards still allow them.
 */
async function restorePermission(
  call: CallInProgress,
  current: OwnCall,
  permit: unknown,
): Promise<Permission> {
  const { tool } = current;
  const stored = parsePermit(permit);
  const bound = restoreCall(tool, stored);
  if (bound.type === "rejected") return bound;
  const difference = findCallDifference(bound, stored);
  if (difference === undefined) return await confirmPermission(call, bound);
  // Without an approval only guards allowed the call, and they decide about the present value.
  return stored.isApproved
    ? refuseCall(tool, "blocked", difference)
    : await authorize(call, current);
}

/** Returns a delegation that had begun, with its recorded arguments, as far as they are known. */
function restoreBegunCall(bound: OwnCall, permit: unknown): OwnCall {
  if (permit === undefined) return bound;
  const restored = restoreCall(bound.tool, parsePermit(permit));
  return restored.type === "rejected" ? bound : restored;
}

/**
 * Returns the end of a call as it was recorded. An open question is taken from the record, so that
 * the state does not change.
 */
export function restoreCallEnd(recorded: unknown, { deferral, onEnd }: CallInProgress): CallEnd {
  const end = structuredClone(CallEndSchema().parse(recorded)); // Like a model call: see `readInferOutcome`.
  onEnd(end);
  if (end.type !== "deferred" || deferral === undefined) return end;
  return sameJson(end.deferral, deferral) ? { ...end, deferral } : end;
}
