// Effects in a replay. What came from the world comes from the recording; what the library does itself is done again: subagents, the
// budget, the waiting for others, and code that decides.

import type { EffectLog } from "../../agent/effect-log.ts";
import type { EventPlace } from "../../agent/agent-context.ts";
import { modelEffectName, toolEffectName } from "../../agent/effect-names.ts";
import { CallEndSchema, InferOutcomeSchema } from "../../agent/effect-outcomes.ts";
import {
  settledBy,
  type CallEnd,
  type Consulted,
  type Effect,
  type EffectPlace,
  type Effects,
  type InferOutcome,
  type PlannedCall,
} from "../../agent/effects.ts";
import { executed, formatted } from "../../agent/tool-calls/call-end.ts";
import { CANCELLED } from "../../agent/tool-calls/call-outcome.ts";
import { sameJson } from "../../kernel/json.ts";
import type { AgentNode } from "../../orchestrator/tree/agent-node.ts";
import type { EffectKeeper } from "../../orchestrator/durability/run-journal.ts";
import type { CallId } from "../../protocol/ids.ts";
import { NO_USAGE } from "../../protocol/usage.ts";
import type { RejectedCall } from "../../tools/bind-call.ts";
import type { ReplayStage } from "./replay-stage.ts";

/** How an agent of a replay comes by what its effects came to. */
export function replayKeeper(stage: ReplayStage, node: AgentNode): EffectKeeper {
  const log = new ReplayLog(node);
  return { log, around: (local) => new ReplayEffects(stage, { node, local, log }) };
}

/** What was allowed in the recording is allowed; what an agent had begun when its process died is known, as it was to the next process. */
class ReplayLog implements EffectLog {
  readonly #node: AgentNode;
  readonly #permits = new Map<string, unknown>();

  constructor(node: AgentNode) {
    this.#node = node;
  }

  allow(name: string, permit: unknown): void {
    this.#permits.set(name, permit);
  }

  outcome(name: string): unknown {
    const permit = this.#permits.get(name);
    this.#permits.delete(name);
    return permit ?? this.#node.unfinished?.outcome(name);
  }

  keep(): Promise<void> {
    return Promise.resolve();
  }

  kept(): Promise<void> {
    return Promise.resolve();
  }

  claimed(): undefined {
    return undefined;
  }

  hadBegun(name: string): boolean {
    return this.#node.unfinished?.takeBegun(name) === true;
  }

  begin(): Promise<void> {
    return Promise.resolve();
  }

  lease(name: string): ReturnType<EffectLog["lease"]> {
    return this.#node.unfinished?.takeLease(name);
  }

  hasChildOf(callId: CallId | null, nth?: number): boolean {
    return this.#node.unfinished?.hasChildOf(callId, nth) === true;
  }
}

interface Parts {
  readonly node: AgentNode;
  readonly local: Effects;
  readonly log: ReplayLog;
}

/** A delegation that was asked about, and forbidden. */
interface RefusedCall {
  readonly place: EffectPlace;
  readonly call: PlannedCall;
  readonly refused: RejectedCall;
}

class ReplayEffects implements Effects {
  readonly #stage: ReplayStage;
  readonly #parts: Parts;

  constructor(stage: ReplayStage, parts: Parts) {
    this.#stage = stage;
    this.#parts = parts;
  }

  infer(place: EffectPlace): Effect<InferOutcome> {
    const name = modelEffectName(place);
    const known = this.#parts.log.outcome(name);
    if (known === undefined) return effect(name, this.#inferred(name));
    return effect(name, Promise.resolve(InferOutcomeSchema.parse(known)));
  }

  async #inferred(name: string): Promise<InferOutcome> {
    const outcome = await this.#turn(name);
    if (outcome === undefined) return { type: "cancelled", usage: NO_USAGE };
    return InferOutcomeSchema.parse(outcome);
  }

  callTool(place: EffectPlace, call: PlannedCall): Effect<CallEnd> {
    const name = toolEffectName(place, call);
    const { type } = call.bound;
    const isWork = type === "function" || type === "external" || type === "delegation";
    const { local, log, node } = this.#parts;
    const known = log.outcome(name);
    if (known !== undefined) return effect(name, Promise.resolve(ofCall(known, call)));
    if (!isWork && call.deferral === undefined) {
      this.#stage.pass(node.identity.agentId, name);
      return local.callTool(place, call);
    }
    const isAgain = type === "delegation" && !this.#isUnallowed(place, call);
    if (isAgain || !isWork) return effect(name, this.#delegated(name, place, call));
    this.#stage.begin(node.identity.agentId, place.stepId, call.call.callId);
    // As it was looked for when the call was made.
    if (!log.hadBegun(name)) log.outcome(permitOf(place, call));
    const refused = this.#refused(place, call);
    if (refused === undefined) return effect(name, this.#called(name, call));
    return effect(name, this.#refusedAgain(name, { place, call, refused }));
  }

  /** The delegation as a call that a guard or a hook has forbidden; undefined: none has. */
  #refused({ stepId }: EffectPlace, { call, bound }: PlannedCall): RejectedCall | undefined {
    const { agentId } = this.#parts.node.identity;
    const refusal = this.#stage.forbiddance(agentId, stepId, call.callId);
    if (refusal === undefined || bound.type !== "delegation") return undefined;
    return { type: "rejected", tool: bound.tool, code: refusal.code, text: refusal.message };
  }

  /** Nobody is asked again about a delegation that was asked about; that it was refused is told and counted again. */
  async #refusedAgain(name: string, { place, call, refused }: RefusedCall): Promise<CallEnd> {
    const { local } = this.#parts;
    await local.callTool(place, { ...call, bound: refused, onEnd: () => undefined })[settledBy]();
    return await this.#called(name, call);
  }

  async #called(name: string, call: PlannedCall): Promise<CallEnd> {
    const outcome = await this.#turn(name);
    if (outcome === undefined) return this.#givenUp(call);
    return ofCall(outcome, call);
  }

  /** The subagents are replayed themselves; the call begins and ends in its turn. */
  async #delegated(name: string, place: EffectPlace, call: PlannedCall): Promise<CallEnd> {
    const { local, log, node } = this.#parts;
    const { agentId } = node.identity;
    const permit = permitOf(place, call);
    if (this.#stage.hasEnd(agentId, permit)) {
      const allowed = await this.#turn(permit);
      if (allowed === undefined) return this.#givenUp(call);
      log.allow(permit, allowed);
    }
    const end = await local.callTool(place, call)[settledBy]();
    await this.#turn(name);
    return end;
  }

  #isUnallowed({ stepId }: EffectPlace, { call }: PlannedCall): boolean {
    const { agentId } = this.#parts.node.identity;
    return this.#stage.isUnallowed(agentId, stepId, call.callId);
  }

  #givenUp(call: PlannedCall): CallEnd {
    const nowMs = this.nowMs();
    return executed(call, { startedAtMs: nowMs, endedAtMs: nowMs }, formatted(call, CANCELLED));
  }

  #turn(name: string): Promise<unknown> {
    return this.#stage.turn(this.#parts.node.identity.agentId, name);
  }

  reserve(...asked: Parameters<Effects["reserve"]>): ReturnType<Effects["reserve"]> {
    const lease = this.#parts.log.lease(modelEffectName(asked[0]));
    return lease === undefined
      ? this.#parts.local.reserve(...asked)
      : effect("lease", Promise.resolve(lease));
  }

  delegate(...asked: Parameters<Effects["delegate"]>): ReturnType<Effects["delegate"]> {
    return this.#parts.local.delegate(...asked);
  }

  endCalls(place: EffectPlace): void {
    this.#parts.local.endCalls(place);
  }

  dismiss(...asked: Parameters<Effects["dismiss"]>): ReturnType<Effects["dismiss"]> {
    return this.#parts.local.dismiss(...asked);
  }

  awaitSubagents(
    ...asked: Parameters<Effects["awaitSubagents"]>
  ): ReturnType<Effects["awaitSubagents"]> {
    return this.#parts.local.awaitSubagents(...asked);
  }

  detach(...asked: Parameters<Effects["detach"]>): ReturnType<Effects["detach"]> {
    return this.#parts.local.detach(...asked);
  }

  consult<T>(name: string, work: () => T | Promise<T>, at?: EventPlace): Effect<Consulted<T>> {
    const rest = this.#stage.working();
    const consulted = this.#parts.local.consult(name, work, at);
    void consulted[settledBy]().then(rest);
    return consulted;
  }

  join<T>(effects: readonly Effect<T>[]): Promise<readonly T[]> {
    return this.#parts.local.join(effects);
  }

  nowMs(): number {
    return this.#parts.local.nowMs();
  }
}

function permitOf({ stepNumber }: EffectPlace, { index }: PlannedCall): string {
  return `permit.${stepNumber}.${index}`;
}

/** The end of a call as it was recorded. A question that is left open is the one that it was: the state does not change by it. */
function ofCall(recorded: unknown, { deferral, onEnd }: PlannedCall): CallEnd {
  const end = CallEndSchema.parse(recorded);
  onEnd(end);
  if (end.type !== "deferred" || deferral === undefined) return end;
  return sameJson(end.deferral, deferral) ? { ...end, deferral } : end;
}

function effect<T>(name: string, settled: Promise<T>): Effect<T> {
  return { name, [settledBy]: () => settled };
}
