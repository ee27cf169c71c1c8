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
    const end = await work(call);
    const { type } = call.bound;
    const isWork = type === "function" || type === "external" || type === "delegation";
    const keeping = this.keep(name, end);
    // A call that does nothing need not wait until its end is kept: it is, so that it is recorded once.
    if (isWork || call.deferral !== undefined) await keeping;
    return end;
  }

  consult<T>(work: () => Promise<T>): Promise<T> {
    return work();
  }

  outcome(name: string): unknown {
    return this.#agent.inFlight?.outcome(name);
  }

  /** `leaseId`: of a model call. */
  async keep(name: string, outcome: object, leaseId?: LeaseId): Promise<void> {
    const { agentId } = this.#agent.identity;
    const lease = leaseId === undefined ? {} : { leaseId };
    this.#journal.append({ type: "effect", agentId, name, outcome, ...lease });
    await this.#journal.kept();
  }

  kept(): Promise<void> {
    return this.#journal.kept();
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
