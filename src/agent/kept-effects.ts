// Effects that are kept: the result of each is in the log before anybody acts upon it (D1), and what the log knows is not done again (D2).
// Put around the effects of a process. What has several steps of its own, such as work of subagents, is kept by those steps.

import type { z } from "zod";

import type { AgentId, LeaseId } from "../protocol/ids.ts";
import type { SpawnOutcome } from "../protocol/subagent.ts";
import type { EventPlace } from "./agent-context.ts";
import type { Subtask } from "./agent-state.ts";
import type { LeaseAsk, LeaseOutcome } from "./budget-gate.ts";
import type { EffectLog } from "./effect-log.ts";
import { modelEffectName, toolEffectName } from "./effect-names.ts";
import { CallEndSchema, InferOutcomeSchema } from "./effect-outcomes.ts";
import {
  settledBy,
  type CallEnd,
  type Consulted,
  type Effect,
  type EffectPlace,
  type Effects,
  type History,
  type InferOutcome,
  type PlannedCall,
} from "./effects.ts";

export class KeptEffects implements Effects {
  readonly #inner: Effects;
  readonly #log: EffectLog;

  constructor(inner: Effects, log: EffectLog) {
    this.#inner = inner;
    this.#log = log;
  }

  reserve(place: EffectPlace, ask: LeaseAsk): Effect<LeaseOutcome> {
    const lease = this.#log.lease(modelEffectName(place));
    return lease === undefined
      ? this.#inner.reserve(place, ask)
      : effect("lease", Promise.resolve(lease));
  }

  /** A request goes out once its lease is kept: what a crash loses of it is known, and charged. */
  infer(...[place, lease, request, facts]: Parameters<Effects["infer"]>): Effect<InferOutcome> {
    const name = modelEffectName(place);
    const work = async (): Promise<InferOutcome> => {
      await this.#log.kept();
      return await this.#inner.infer(place, lease, request, facts)[settledBy]();
    };
    return this.#once(name, InferOutcomeSchema, work, lease.leaseId);
  }

  callTool(place: EffectPlace, call: PlannedCall): Effect<CallEnd> {
    const { type } = call.bound;
    const isWork = type === "function" || type === "external" || type === "delegation";
    const name = toolEffectName(place, call);
    const known = this.#log.outcome(name);
    if (known !== undefined) {
      const end = CallEndSchema.parse(known);
      call.onEnd(end);
      return effect(name, Promise.resolve(end));
    }
    const work = (): Promise<CallEnd> => this.#inner.callTool(place, call)[settledBy]();
    return isWork || call.deferral !== undefined
      ? effect(name, this.#kept(name, work, undefined))
      : this.#noted(name, work);
  }

  endCalls(place: EffectPlace): void {
    this.#inner.endCalls(place);
  }

  delegate(
    ...[place, index, subtask, history]: [EffectPlace, number, Subtask, History]
  ): Effect<Consulted<SpawnOutcome>> {
    return this.#inner.delegate(place, index, subtask, history);
  }

  dismiss(childId: AgentId): Effect<void> {
    return this.#inner.dismiss(childId);
  }

  awaitSubagents(...[place, childIds, until]: Parameters<Effects["awaitSubagents"]>): Effect<void> {
    return this.#inner.awaitSubagents(place, childIds, until);
  }

  detach(childId: AgentId): Effect<void> {
    return this.#inner.detach(childId);
  }

  consult<T>(name: string, work: () => T | Promise<T>, at?: EventPlace): Effect<Consulted<T>> {
    return this.#inner.consult(name, work, at);
  }

  join<T>(effects: readonly Effect<T>[]): Promise<readonly T[]> {
    return this.#inner.join(effects);
  }

  nowMs(): number {
    return this.#inner.nowMs();
  }

  #once<T extends object>(
    ...[name, schema, work, leaseId]: [string, z.ZodType<T>, () => Promise<T>, LeaseId?]
  ): Effect<T> {
    const known = this.#log.outcome(name);
    if (known !== undefined) return effect(name, Promise.resolve(schema.parse(known)));
    return effect(name, this.#kept(name, work, leaseId));
  }

  /** A call that does nothing need not wait until its end is kept: it is, so that nobody is told of it twice. */
  #noted(name: string, work: () => Promise<CallEnd>): Effect<CallEnd> {
    const noted = async (): Promise<CallEnd> => {
      const end = await work();
      void this.#log.keep(name, end);
      return end;
    };
    return effect(name, noted());
  }

  async #kept<T extends object>(
    name: string,
    work: () => Promise<T>,
    leaseId: LeaseId | undefined,
  ): Promise<T> {
    const outcome = await work();
    await this.#log.keep(name, outcome, leaseId);
    return outcome;
  }
}

function effect<T>(name: string, settled: Promise<T>): Effect<T> {
  return { name, [settledBy]: () => settled };
}
