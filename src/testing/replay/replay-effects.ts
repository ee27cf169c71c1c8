// Effects in a replay. What came from the world comes from the recording; what the library does itself is done again: subagents, the
// budget, the waiting for others, and code that decides. What was allowed in the recording is allowed; what an agent had begun when its
// process died is known, as it was to the next process.

import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { readInferOutcome } from "../../agent/effect-outcomes.ts";
import type { CallEnd, InferOutcome, PlannedCall } from "../../agent/effects.ts";
import type { EffectPosition } from "../../agent/agent-identity.ts";
import { CANCELLED } from "../../agent/tool-calls/failed-outcome.ts";
import { formatOutcome, toExecutedCall } from "../../agent/tool-calls/record.ts";
import {
  modelEffectName,
  permitEffectName,
  toolEffectName,
} from "../../orchestrator/durability/effect-names.ts";
import type { InFlightWork } from "../../orchestrator/durability/in-flight.ts";
import { PersistedEffects, recordedEnd } from "../../orchestrator/durability/persisted-effects.ts";
import type { RunJournal } from "../../orchestrator/durability/run-journal.ts";
import { NO_USAGE } from "../../protocol/usage.ts";
import { callPosition } from "./actions.ts";
import type { RecordedOutcomes } from "./recorded-outcomes.ts";
import type { ReplayScript } from "./replay-script.ts";

type Work = (call: PlannedCall) => Promise<CallEnd>;

/** What a replay works with. */
export interface Replayed {
  readonly outcomes: RecordedOutcomes;
  readonly script: Pick<ReplayScript, "unallowed" | "forbidden">;
  /** Called with each call that would begin now, by `callPosition`. */
  readonly onCall: (call: string) => void;
  /** Takes what the replay writes. */
  readonly journal: RunJournal;
  /** What the agent had begun when its process died. */
  readonly inFlight: InFlightWork | undefined;
}

export class ReplayEffects extends PersistedEffects {
  readonly #outcomes: RecordedOutcomes;
  readonly #script: Replayed["script"];
  readonly #onCall: Replayed["onCall"];
  readonly #permits = new Map<string, unknown>();

  constructor(agent: AgentRuntime, { outcomes, script, onCall, journal, inFlight }: Replayed) {
    super(journal, agent, inFlight);
    this.#outcomes = outcomes;
    this.#script = script;
    this.#onCall = onCall;
  }

  override async infer(position: EffectPosition): Promise<InferOutcome> {
    const name = modelEffectName(position);
    const outcome = this.outcome(name) ?? (await this.#turn(name));
    return outcome === undefined
      ? { type: "cancelled", usage: NO_USAGE }
      : readInferOutcome(outcome);
  }

  override callTool(position: EffectPosition, call: PlannedCall, work: Work): Promise<CallEnd> {
    const name = toolEffectName(position, call);
    const { type } = call.bound;
    const { agentId } = this.agent.identity;
    const isWork = type === "function" || type === "external" || type === "delegation";
    const known = this.outcome(name);
    if (known !== undefined) return Promise.resolve(recordedEnd(known, call));
    if (!isWork && call.deferral === undefined) {
      this.#outcomes.pass(agentId, name);
      return work(call);
    }
    const callKey = callPosition({ agentId, stepId: position.stepId, callId: call.call.callId });
    // One that was left open, or denied, started no subagents, nor does it now.
    const isAgain = type === "delegation" && !this.#script.unallowed.has(callKey);
    if (isAgain || !isWork) return this.#delegated(position, call, work);
    this.#onCall(callKey);
    // As it was looked for when the call was made.
    if (!this.hadBegun(name)) this.outcome(permitEffectName(position, call));
    const refusal = this.#script.forbidden.get(callKey);
    const { bound } = call;
    if (refusal === undefined || bound.type !== "delegation") return this.#called(name, call);
    const { code, message: text } = refusal;
    const refused = { type: "rejected", tool: bound.tool, code, text } as const;
    // A delegation that was asked about is not asked about again; that it was refused is recorded and counted again.
    const again = work({ ...call, bound: refused, onEnd: () => undefined });
    return again.then(() => this.#called(name, { ...call, bound: refused }));
  }

  async #called(name: string, call: PlannedCall): Promise<CallEnd> {
    const outcome = await this.#turn(name);
    return outcome === undefined ? this.#givenUp(call) : recordedEnd(outcome, call);
  }

  /** The subagents are replayed themselves; the call begins and ends in its turn. */
  async #delegated(position: EffectPosition, call: PlannedCall, work: Work): Promise<CallEnd> {
    const permit = permitEffectName(position, call);
    if (this.#outcomes.hasEnd(this.agent.identity.agentId, permit)) {
      const allowed = await this.#turn(permit);
      if (allowed === undefined) return this.#givenUp(call);
      this.#permits.set(permit, allowed);
    }
    const end = await work(call);
    await this.#turn(toolEffectName(position, call));
    return end;
  }

  #givenUp(call: PlannedCall): CallEnd {
    const nowMs = this.agent.run.clock.nowMs();
    return toExecutedCall(
      call,
      { startedAtMs: nowMs, endedAtMs: nowMs },
      formatOutcome(call, CANCELLED),
    );
  }

  #turn(name: string): Promise<unknown> {
    return this.#outcomes.turn(this.agent.identity.agentId, name);
  }

  override async consult<T>(work: () => Promise<T>): Promise<T> {
    const rest = this.#outcomes.working();
    try {
      return await work();
    } finally {
      rest();
    }
  }

  override begin(): undefined {
    return undefined;
  }

  override claimed(): undefined {
    return undefined;
  }

  override kept(): Promise<void> {
    return Promise.resolve();
  }

  protected override outcome(name: string): unknown {
    const permit = this.#permits.get(name);
    this.#permits.delete(name);
    return permit ?? super.outcome(name);
  }
}
