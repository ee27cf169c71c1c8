// PersistedEffects: what the effects of one agent come to, kept in the journal of its run before it is acted upon (D1); what the journal knows
// is not done again (D2). What has several steps of its own, such as the work of subagents, is kept by those steps.

import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { LeaseOutcome, Lease } from "../../agent/account-view.ts";
import type { EffectLog } from "../../agent/effect-log.ts";
import { modelEffectName, toolEffectName } from "../../agent/effect-names.ts";
import { CallEndSchema, keptOutcome } from "../../agent/effect-outcomes.ts";
import type { CallEnd, InferOutcome, PlannedCall } from "../../agent/effects.ts";
import type { EffectPosition } from "../../agent/agent-identity.ts";
import type { CallId, LeaseId } from "../../protocol/ids.ts";
import type { JournalWriter } from "./journal.ts";

export class PersistedEffects implements EffectLog {
  readonly #journal: JournalWriter;
  readonly #agent: AgentRuntime;
  /** Ends of calls that went ahead of their batch, and how many of them are known to be kept. */
  #ahead = 0;
  #caughtUp = 0;

  constructor(journal: JournalWriter, agent: AgentRuntime) {
    this.#journal = journal;
    this.#agent = agent;
  }

  async reserve(place: EffectPosition, work: () => Promise<LeaseOutcome>): Promise<LeaseOutcome> {
    return this.#agent.inFlight?.takeLease(modelEffectName(place)) ?? (await work());
  }

  /** A request goes out once its lease is kept: what a crash loses of it is known, and charged. */
  async infer(
    place: EffectPosition,
    lease: Lease,
    work: () => Promise<InferOutcome>,
  ): Promise<InferOutcome> {
    const name = modelEffectName(place);
    const known = this.outcome(name);
    if (known !== undefined) return keptOutcome(this.#agent.model, lease, known);
    await this.kept();
    const outcome = await work();
    await this.keep(name, outcome, lease.leaseId);
    return outcome;
  }

  async callTool(
    place: EffectPosition,
    call: PlannedCall,
    work: (call: PlannedCall) => Promise<CallEnd>,
  ): Promise<CallEnd> {
    const name = toolEffectName(place, call);
    const known = this.outcome(name);
    if (known !== undefined) {
      const end = CallEndSchema.parse(known);
      call.onEnd(end);
      return end;
    }
    const { type } = call.bound;
    const isWork = type === "function" || type === "external" || type === "delegation";
    if (isWork && this.#isAhead) await this.kept();
    const end = await work(call);
    this.#append(name, end);
    const isWaiting = isWork || call.deferral !== undefined;
    // A call that does nothing need not wait until its end is kept: it is, so that it is recorded once.
    if (isWaiting) await (this.#mayGoAhead(end) ? this.#goAhead() : this.kept());
    return end;
  }

  /** What succeeded comes to a request, a further call or code of the user's next, and each of them waits until it is kept (D1). */
  #mayGoAhead(end: CallEnd): boolean {
    if (end.type === "deferred" || end.failure !== undefined) return false;
    return end.execution.type === "succeeded" && this.#agent.stepper === undefined;
  }

  #goAhead(): Promise<void> {
    this.#ahead += 1;
    return this.#journal.ahead();
  }

  get #isAhead(): boolean {
    return this.#ahead > this.#caughtUp;
  }

  async consult<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isAhead) await this.kept();
    return await work();
  }

  outcome(name: string): unknown {
    return this.#agent.inFlight?.outcome(name);
  }

  /** `leaseId`: of a model call. */
  async keep(name: string, outcome: object, leaseId?: LeaseId): Promise<void> {
    this.#append(name, outcome, leaseId);
    await this.kept();
  }

  #append(name: string, outcome: object, leaseId?: LeaseId): void {
    const { agentId } = this.#agent.identity;
    const lease = leaseId === undefined ? {} : { leaseId };
    this.#journal.append({ type: "effect", agentId, name, outcome, ...lease });
  }

  async kept(): Promise<void> {
    const ahead = this.#ahead;
    await this.#journal.kept();
    this.#caughtUp = Math.max(this.#caughtUp, ahead);
  }

  claimed(): Promise<void> | undefined {
    return this.#journal.claimed();
  }

  hadBegun(name: string): boolean {
    return this.#agent.inFlight?.takeBegun(name) === true;
  }

  async begin(name: string): Promise<void> {
    this.#journal.append({ type: "begun", agentId: this.#agent.identity.agentId, name });
    await this.#journal.kept();
  }

  hasChildOf(callId: CallId | null, nth?: number): boolean {
    return this.#agent.inFlight?.hasChildOf(callId, nth) === true;
  }
}
