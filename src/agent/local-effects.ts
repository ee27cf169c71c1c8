// Effects in this process, without a journal.
// Owns: the effects under way of one execution. Talks to: model, tools, hooks, queue slots, ledger, approver, spawner, event recorder.
//
// S1. A queue slot is held by a model call or a tool body only; a delegation waits for its child without one, as does a question.
// S2. The lease comes before the slot: whoever holds a slot needs nothing further to end, so the queue cannot deadlock.
// S3. Foreign code that ignores its signal is left behind after the grace period; what it gives later goes nowhere.

import { prefixOf, type SentRequest } from "../model/request-prefix.ts";
import type { AgentId, StepId } from "../protocol/ids.ts";
import type { SpawnOutcome } from "../protocol/subagent.ts";
import type { EventPlace } from "./agent-context.ts";
import type { Subtask } from "./agent-state.ts";
import type { LeaseAsk, LeaseOutcome } from "./budget-gate.ts";
import { modelEffectName, placeName, toolEffectName } from "./effect-names.ts";
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
import { errorRecord } from "./life-cycle.ts";
import type { LocalEffectsOptions } from "./local-options.ts";
import { inferLocally } from "./model-call.ts";
import { ReplyCalls } from "./tool-calls/reply-calls.ts";
import { spawnWithHooks } from "./tool-calls/spawn.ts";
import { callToolLocally } from "./tool-calls/call-tool.ts";

export function localEffects(options: LocalEffectsOptions): Effects {
  return new LocalEffects(options);
}

/** A class: a function of its own for each effect of each of ten thousand agents is memory that counts. */
class LocalEffects implements Effects {
  readonly #options: LocalEffectsOptions;
  /** The request of the last step, with which the next one is compared. */
  #lastRequest: SentRequest | undefined;
  #calls: ReplyCalls | undefined;

  constructor(options: LocalEffectsOptions) {
    this.#options = options;
  }

  reserve(place: EffectPlace, ask: LeaseAsk): Effect<LeaseOutcome> {
    const options = this.#options;
    return effect(
      `lease.${placeName(place)}`,
      atWork(options, () => options.reserve(ask)),
    );
  }

  infer(
    ...[place, lease, request, { isEstimated, asides }]: Parameters<Effects["infer"]>
  ): Effect<InferOutcome> {
    const options = this.#options;
    const last = place.aside === undefined ? this.#lastRequest : undefined;
    if (place.aside === undefined) this.#lastRequest = { request, asides };
    const prefix = last === undefined ? undefined : prefixOf(last, request);
    return effect(
      modelEffectName(place),
      atWork(options, () => inferLocally(options, { place, lease, request, isEstimated, prefix })),
    );
  }

  callTool(place: EffectPlace, call: PlannedCall): Effect<CallEnd> {
    const { stepId } = place;
    const { callId } = call.call;
    const { options } = this.#callsOf(stepId);
    const called = options.at({ stepId, callId }, () => callToolLocally(options, place, call));
    return effect(toolEffectName(place, call), called);
  }

  endCalls({ stepId }: EffectPlace): void {
    this.#callsOf(stepId).end();
  }

  /** The calls of a step. Those of the step before have all ended. */
  #callsOf(stepId: StepId): ReplyCalls {
    if (this.#calls?.stepId === stepId) return this.#calls;
    this.#calls?.letGo();
    this.#calls = new ReplyCalls(this.#options, stepId);
    return this.#calls;
  }

  delegate(
    ...[place, index, subtask, history]: Parameters<Effects["delegate"]>
  ): Effect<Consulted<SpawnOutcome>> {
    const options = this.#options;
    return effect(
      `subtask.${place.stepNumber}.${index}`,
      options.at({ stepId: place.stepId }, () =>
        consult(options, () => delegate(options, place, subtask, { history, nth: index })),
      ),
    );
  }

  dismiss(childId: AgentId): Effect<void> {
    return effect(`dismissal:${childId}`, this.#options.dismissChild(childId));
  }

  awaitSubagents(
    ...[place, childIds, until]: Parameters<Effects["awaitSubagents"]>
  ): ReturnType<Effects["awaitSubagents"]> {
    return effect(`subagents.${placeName(place)}`, this.#options.awaitChildren(childIds, until));
  }

  detach(childId: AgentId): ReturnType<Effects["detach"]> {
    return effect(`detachment:${childId}`, Promise.resolve(this.#options.detachChild(childId)));
  }

  consult<T>(...[name, work, at = {}]: Consultation<T>): Effect<Consulted<T>> {
    const options = this.#options;
    return effect(
      name,
      atWork(options, () => options.at(at, () => consult(options, work))),
    );
  }

  join<T>(effects: readonly Effect<T>[]): Promise<readonly T[]> {
    return Promise.all(effects.map((one) => one[settledBy]()));
  }

  nowMs(): number {
    return this.#options.clock.nowMs();
  }
}

type Consultation<T> = [name: string, work: () => T | Promise<T>, at?: EventPlace];

/** What is put in must not reject: failures of foreign code are data by then. */
function effect<T>(name: string, settled: Promise<T>): Effect<T> {
  return { name, [settledBy]: () => settled };
}

/** The agent's time passes while the work is under way. What is given must not reject. */
function atWork<T>(options: LocalEffectsOptions, work: () => Promise<T>): Promise<T> {
  const rest = options.working();
  const settled = work();
  void settled.then(rest);
  return settled;
}

async function consult<T>(
  { signal }: LocalEffectsOptions,
  work: () => T | Promise<T>,
): Promise<Consulted<T>> {
  try {
    return { type: "returned", value: await work() };
  } catch (cause) {
    return signal.aborted ? { type: "cancelled" } : { type: "failed", error: errorRecord(cause) };
  }
}

async function delegate(
  options: LocalEffectsOptions,
  place: EffectPlace,
  { request, childId }: Subtask,
  { history, nth }: { readonly history: History; readonly nth: number },
): Promise<SpawnOutcome> {
  if (childId !== undefined) return await options.resumeChild(childId, { stepId: place.stepId });
  return await spawnWithHooks(options, place, request, {
    stepId: place.stepId,
    history,
    group: [],
    nth,
  });
}
