// PersistedEffects: what the effects of one agent result in, kept in the journal of its run before it is acted upon (D1); what the journal knows
// is not done again (D2). What has several steps of its own, such as the work of subagents, is kept by those steps.
// Owns what the agent had begun when its process died, until the phase in which that happened is done once more: meanwhile nothing that is
// asked of it from outside is handled, and what was recorded, charged or booked is not recorded, charged or booked again.

import { lazyObject, z } from "../../protocol/lazy-schema.ts";
import type { Persistence } from "../../agent/persistence.ts";
import type { EffectPosition } from "../../agent/agent-identity.ts";
import { mayDelegate } from "../../agent/agent-role.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { AgentState } from "../../agent/agent-state.ts";
import type { Lease, LeaseOutcome } from "../../budget/lease.ts";
import {
  CallEndSchema,
  readInferOutcome,
  type CallEnd,
  type InferOutcome,
} from "../../agent/effects.ts";
import type { Phase } from "../../agent/phase-report.ts";
import {
  differenceFrom,
  parseRecordOf,
  restoreCall,
  shownArguments,
  type StoredCall,
} from "../../agent/tool-calls/parsed-call.ts";
import { callTool, requestPermission } from "../../agent/tool-calls/call-tool.ts";
import type { CallInProgress } from "../../agent/tool-calls/open-call.ts";
import { permittedAgain, refuseCall } from "../../agent/tool-calls/questions.ts";
import { emitResult } from "../../agent/tool-calls/record.ts";
import { INTERRUPTED, type Permission } from "../../agent/tool-calls/call-outcome.ts";
import { defined, sameJson } from "../../kernel/json.ts";
import type { LeaseId } from "../../protocol/ids.ts";
import { JsonValueSchema } from "../../protocol/json-value.ts";
import type { StopSignal } from "../../protocol/stop.ts";
import type { OwnCall } from "../../tools/bind-call.ts";
import { modelEffectName, permitEffectName, toolEffectName } from "./effect-names.ts";
import { takeFirst, type InFlightWork } from "../../agent/in-flight.ts";
import type { RunJournal } from "./run-journal.ts";

/** A call that may run, as the journal has it. */
const PermitSchema = lazyObject(() => ({
  /** Before parsing. */
  arguments: JsonValueSchema(),
  /** Absent if equal to `arguments`, or if JSON does not have the value. */
  parsedArguments: JsonValueSchema().exactOptional(),
  unparsed: z.literal(true).exactOptional(),
  schemaHash: z.string(),
  fingerprint: z.string().exactOptional(),
  /** It was asked about, and approved. */
  isApproved: z.literal(true).exactOptional(),
}));

export class PersistedEffects implements Persistence {
  protected readonly agent: AgentRuntime;
  readonly #journal: RunJournal;
  inFlight: InFlightWork | undefined;
  /** Signals that its log had from the beginning: a request that repeats one of them is dropped, once. */
  readonly #logged: StopSignal[];
  /** Ends of calls that nothing waited for, and how many of them are known to be kept. */
  #unwaited = 0;
  #caughtUp = 0;

  /** `inFlight`: of an agent whose process died. */
  constructor(journal: RunJournal, agent: AgentRuntime, inFlight: InFlightWork | undefined) {
    this.agent = agent;
    this.#journal = journal;
    this.inFlight = inFlight;
    this.#logged = [...agent.currentState.log.signals];
  }

  // Model calls

  async reserve(
    position: EffectPosition,
    work: () => Promise<LeaseOutcome>,
  ): Promise<LeaseOutcome> {
    return this.inFlight?.takeLease(modelEffectName(position)) ?? (await work());
  }

  async infer(
    position: EffectPosition,
    lease: Lease,
    work: () => Promise<InferOutcome>,
  ): Promise<InferOutcome> {
    const name = modelEffectName(position);
    const known = this.outcome(name);
    if (known !== undefined) return readInferOutcome(known);
    const { run } = this.agent;
    const isAgain = this.inFlight !== undefined && position.sideCall === undefined;
    if (isAgain) run.pieces?.reset(this.agent.pieceSource(position), "recovered");
    const outcome = await this.#recorded(name, work, lease.leaseId);
    await this.whenPersisted();
    return outcome;
  }

  /**
   * A request is sent once its lease and its event `model.requested` are persisted. A recovery charges a
   * lost call only if both are in the journal. The wait is not work under way: `run.leave` may end it.
   */
  sending(): Promise<void> {
    this.#journal.workEnds();
    return this.whenPersisted().then(() => this.#journal.workBegins());
  }

  // Tool calls

  async callTool(call: CallInProgress): Promise<CallEnd> {
    const name = toolEffectName(call);
    const known = this.outcome(name);
    if (known !== undefined) {
      const recorded = recordedEnd(known, call);
      // Emitted again: the process that emitted it is gone.
      if (recorded.type === "executed") emitResult(this.agent, call, recorded);
      return recorded;
    }
    const { type } = call.bound;
    const isWork = type === "function" || type === "external" || type === "delegation";
    if (isWork && this.#isAhead) await this.whenPersisted();
    const end =
      type === "function"
        ? await this.#recorded(name, () => callTool(call))
        : this.#append(name, await callTool(call));
    if (isProgress(end)) this.#journal.writer.noteProgress();
    // The end of a call without effects is kept, so that it is recorded once, but not waited for.
    if (!isWork && call.deferral === undefined) return end;
    if (this.#isActedUponLater(end)) this.#unwaited += 1;
    else await this.whenPersisted();
    return end;
  }

  /**
   * Of an agent that is alone in its run, what succeeded reaches a request, a further call, code of the user's or the end of the run next, and
   * each of them waits until it is kept (D1). It is written with the next request.
   */
  #isActedUponLater(end: CallEnd): boolean {
    const { identity, role, stepper } = this.agent;
    const isAlone = identity.parentAgentId === null && !mayDelegate(role);
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

  /** What was allowed is kept before it is acted upon, so that no approver is asked twice; a call that must not be repeated is not. */
  authorize(call: CallInProgress, bound: OwnCall): Permission | Promise<Permission> {
    if (!isRepeatable(bound.tool) && this.hadBegun(toolEffectName(call)))
      return { type: "unrunnable", outcome: INTERRUPTED };
    const name = permitEffectName(call);
    const permit = this.outcome(name);
    if (bound.type === "delegation" && this.inFlight?.hasChildOf(call.call.callId) === true)
      return { type: "granted", bound: begunCall(bound, permit) };
    if (permit !== undefined) return permittedBefore(call, bound, permit);
    const asked = requestPermission(call, bound);
    const isAtOnce = !(asked instanceof Promise) && call.deferral === undefined;
    return isAtOnce ? asked : this.#permitted(name, asked);
  }

  async #permitted(name: string, asked: Permission | Promise<Permission>): Promise<Permission> {
    const permission = await asked;
    if (permission.type !== "granted") return permission;
    this.#append(name, permitFor(permission));
    await this.whenPersisted();
    return permission;
  }

  begin(call: CallInProgress, tool: OwnCall["tool"]): Promise<void> | undefined {
    if (isRepeatable(tool)) return undefined;
    return this.#begun(toolEffectName(call));
  }

  /** It counts as work under way, but not while it may not begin: giving the run up does not wait for it then. */
  async #begun(name: string): Promise<void> {
    const { writer } = this.#journal;
    if (writer.isSuspended) {
      this.#journal.workEnds();
      await writer.whenPersisted();
      this.#journal.workBegins();
    }
    this.#journal.append({ type: "begun", agentId: this.agent.identity.agentId, name });
    await writer.keptUnderWay();
  }

  // Subagents

  dismissOrphans(): Promise<void> | undefined {
    const { children = [] } = this.inFlight ?? {};
    if (children.length === 0) return undefined;
    const { supervisor } = this.agent.run;
    const dismissed = children.map(({ childId }) => supervisor.dismiss(this.agent, childId));
    return Promise.all(dismissed).then(() => undefined);
  }

  // What the agent catches up with

  unlogged(requests: readonly StopSignal[]): readonly StopSignal[] {
    const logged = this.#logged;
    if (logged.length === 0) return requests;
    const isLogged = (signal: StopSignal): boolean =>
      takeFirst(logged, (one) => sameJson(one, signal)) !== undefined;
    return requests.filter((signal) => !isLogged(signal));
  }

  // What is recorded and kept

  requested(signal: StopSignal): void {
    this.#journal.append({ type: "signal", agentId: this.agent.identity.agentId, signal });
  }

  stepOpened(state: AgentState): void {
    this.#journal.save(this.agent, "open", state);
  }

  phaseOver(phase: Phase, state: AgentState): void {
    // These have no effects: after a crash they are done once more.
    if (phase === "evaluate" || phase === "incorporate") return;
    this.#journal.phaseOver(this.agent, phase, state);
    if (phase !== "prepare") this.inFlight = undefined;
  }

  deadlineReached(deadlineAtMs: number): boolean {
    return this.#journal.deadlineReached(this.agent.identity.agentId, deadlineAtMs);
  }

  claimed(): Promise<void> | undefined {
    return this.#journal.writer.claimed();
  }

  async whenPersisted(): Promise<void> {
    const unwaited = this.#unwaited;
    await this.#journal.writer.whenPersisted();
    this.#caughtUp = Math.max(this.#caughtUp, unwaited);
  }

  /** What an effect of this name came to; undefined: it is not known. Given once. */
  protected outcome(name: string): unknown {
    return this.inFlight?.outcome(name);
  }

  /** True if a call that must not be repeated had begun before the process died, and its end is not known. Given once. */
  protected hadBegun(name: string): boolean {
    return this.inFlight?.begun.delete(name) === true;
  }

  /** An effect under way: where the run is given up it is waited for, within the grace period. `leaseId`: of a model call. */
  async #recorded<T extends object>(
    name: string,
    work: () => Promise<T>,
    leaseId?: LeaseId,
  ): Promise<T> {
    this.#journal.workBegins();
    try {
      return this.#append(name, await work(), leaseId);
    } finally {
      this.#journal.workEnds();
    }
  }

  #append<T extends object>(name: string, outcome: T, leaseId?: LeaseId): T {
    const { agentId } = this.agent.identity;
    const lease = leaseId === undefined ? {} : { leaseId };
    this.#journal.append({ type: "effect", agentId, name, outcome, ...lease });
    return outcome;
  }
}

/** True if the call is over by itself: it was neither put off nor cut off by a crash. */
function isProgress(end: CallEnd): boolean {
  return end.type === "executed" && end.execution.errorCode !== INTERRUPTED.errorCode;
}

function isRepeatable(tool: OwnCall["tool"]): boolean {
  return tool.kind !== "function" || tool.retryAfterCrash;
}

function permitFor({
  bound,
  isApproved,
}: Extract<Permission, { readonly type: "granted" }>): z.infer<ReturnType<typeof PermitSchema>> {
  const { arguments: shown, writtenArguments, unparsed } = shownArguments(bound);
  const parsedArguments = writtenArguments === undefined ? undefined : shown;
  const parts = defined({ parsedArguments, unparsed, isApproved });
  return { arguments: bound.input, ...parts, ...parseRecordOf(bound) };
}

/** Returns the call that a permit allows. */
function storedPermit(permit: unknown): StoredCall & { readonly isApproved: boolean } {
  const read = PermitSchema().parse(permit);
  const { arguments: input, parsedArguments = input, unparsed, schemaHash, fingerprint } = read;
  const value = unparsed === true ? undefined : parsedArguments;
  return { input, value, schemaHash, fingerprint, isApproved: read.isApproved === true };
}

/** The call with the arguments that were allowed before its process died, if its schema and the guards still allow them. */
async function permittedBefore(
  call: CallInProgress,
  current: OwnCall,
  permit: unknown,
): Promise<Permission> {
  const { tool } = current;
  const stored = storedPermit(permit);
  const bound = restoreCall(tool, stored);
  if (bound.type === "rejected") return bound;
  const difference = differenceFrom(bound, stored);
  if (difference === undefined) return await permittedAgain(call, bound);
  // Guards alone allowed it: they decide about the value of now.
  return stored.isApproved
    ? refuseCall(tool, "blocked", difference)
    : await requestPermission(call, current);
}

/** Returns a delegation that had begun, with the arguments that it began with, as far as they are known. */
function begunCall(bound: OwnCall, permit: unknown): OwnCall {
  if (permit === undefined) return bound;
  const restored = restoreCall(bound.tool, storedPermit(permit));
  return restored.type === "rejected" ? bound : restored;
}

/** The end of a call as it was recorded. A question that is left open is the one that it was: the state does not change by it. */
export function recordedEnd(recorded: unknown, { deferral, onEnd }: CallInProgress): CallEnd {
  const end = structuredClone(CallEndSchema().parse(recorded)); // As of a model call: see `readInferOutcome`.
  onEnd(end);
  if (end.type !== "deferred" || deferral === undefined) return end;
  return sameJson(end.deferral, deferral) ? { ...end, deferral } : end;
}
