// Effects of a replay. Outcomes of models, tools and approvers come from the recording. Subagents,
// budgets and decisions are executed again.

import { readInferOutcome, type CallEnd, type InferOutcome } from "../../agent/effect-outcomes.ts";
import type { EffectPosition } from "../../agent/agent-identity.ts";
import { CANCELLED } from "../../agent/tool-calls/cancelled-calls.ts";
import { callTool } from "../../agent/tool-calls/call-tool.ts";
import type { CallInProgress } from "../../agent/tool-calls/open-call.ts";
import { toExecutedCall } from "../../agent/tool-calls/record-calls.ts";
import {
  formatModelEffectName,
  formatPermitEffectName,
  formatToolEffectName,
} from "../../orchestrator/durability/effect-names.ts";
import type { JournalRecord, RecordOf } from "../../orchestrator/durability/journal-record.ts";
import {
  PersistedEffects,
  restoreCallEnd,
} from "../../orchestrator/durability/persisted-effects.ts";
import { SpawnRefusalSchema, type SpawnRefusal } from "../../protocol/subagent.ts";
import { takeFirst } from "../../agent/in-flight-work.ts";
import { NO_USAGE } from "../../protocol/usage.ts";
import { formatCallPosition } from "./comparison.ts";
import type { Segment } from "./recording.ts";

type EffectId = Pick<RecordOf<"effect">, "agentId" | "name">;

/** An agent that waits for an outcome. */
interface OutcomeWaiter extends EffectId {
  readonly go: (outcome: unknown) => void;
}

/** Provides agents with the recorded outcomes of effects. Owns the queue of waiting agents. */
export class OutcomeFeed {
  readonly #waiters: OutcomeWaiter[] = [];
  /** Outcomes that were not released yet. */
  readonly #left: RecordOf<"effect">[];
  #isOver = false;
  /** Number of active user functions. */
  running = 0;
  /** Records of this segment and of earlier ones. */
  readonly past: readonly JournalRecord[];
  /** Called with the key of each call that starts. */
  readonly onCall: (call: string) => void;

  constructor({ before, records }: Segment, onCall: OutcomeFeed["onCall"]) {
    this.past = [...before, ...records];
    this.onCall = onCall;
    this.#left = records.filter((record) => record.type === "effect");
  }

  release(record: RecordOf<"effect">): void {
    takeFirst(this.#left, (other) => other === record);
    takeFirst(this.#waiters, matchesEffect(record))?.go(record.outcome);
  }

  isAwaited(id: EffectId): boolean {
    return this.#waiters.some(matchesEffect(id));
  }

  /**
   * Resolves with the recorded outcome in its turn, or with `undefined` once the replay is over.
   */
  waitForOutcome(id: EffectId): Promise<unknown> {
    if (this.#isOver) return Promise.resolve(undefined);
    return new Promise<unknown>((go) => this.#waiters.push({ ...id, go }));
  }

  /** Returns the number of recorded outcomes of an effect, minus the number of waiting agents. */
  countSpare(id: EffectId): number {
    return (
      this.#left.filter(matchesEffect(id)).length - this.#waiters.filter(matchesEffect(id)).length
    );
  }

  /** Returns the name of an effect that an agent waits for and that was not recorded. */
  findUnrecorded(agentId: string): string | undefined {
    return this.#waiters.find((waiter) => waiter.agentId === agentId && this.countSpare(waiter) < 0)
      ?.name;
  }

  close(): void {
    this.#isOver = true;
    for (const { go } of this.#waiters.splice(0)) go(undefined);
  }
}

function matchesEffect({ agentId, name }: EffectId): (effect: EffectId) => boolean {
  return (other) => other.agentId === agentId && other.name === name;
}

export class ReplayEffects extends PersistedEffects {
  readonly #feed: OutcomeFeed;
  readonly #permits = new Map<string, unknown>();

  constructor(feed: OutcomeFeed, ...agent: ConstructorParameters<typeof PersistedEffects>) {
    super(...agent);
    this.#feed = feed;
  }

  override async infer(position: EffectPosition): Promise<InferOutcome> {
    const name = formatModelEffectName(position);
    const outcome = this.outcome(name) ?? (await this.#waitForNext(name));
    if (outcome === undefined) return { type: "cancelled", usage: NO_USAGE };
    return readInferOutcome(outcome);
  }

  override async callTool(call: CallInProgress): Promise<CallEnd> {
    const name = formatToolEffectName(call);
    const known = this.outcome(name);
    if (known !== undefined) return restoreCallEnd(known, call);
    const { bound, deferral } = call;
    const isWork = /^(?:function|external|delegation)$/u.test(bound.type);
    if (!isWork && deferral === undefined) {
      void this.#waitForNext(name);
      return await callTool(call);
    }
    const permit = formatPermitEffectName(call);
    const { agentId } = this.agent.identity;
    const permitted =
      this.#feed.countSpare({ agentId, name: permit }) > 0 && this.#waitForNext(permit);
    const key = formatCallPosition({ agentId, ...call.position });
    const open = bound.type === "delegation" ? this.#openQuestion(key, permit) : undefined;
    if (!isWork || (bound.type === "delegation" && open === undefined)) {
      if (permitted !== false) this.#permits.set(permit, await permitted);
      const end = await callTool(call);
      await this.#waitForNext(name);
      return end;
    }
    this.#feed.onCall(key);
    // The call took these outcomes from the interrupted effects.
    if (!this.hadBegun(name)) this.outcome(permit);
    if (open?.refusal?.code !== "blocked" || bound.type !== "delegation")
      return await this.#replayOutcome(name, call);
    // The approver is not asked again, but the refusal is recorded and counted again.
    const { code, message: text } = open.refusal;
    const { onEnd } = call;
    call.bound = { type: "rejected", tool: bound.tool, code, text };
    call.onEnd = () => undefined;
    await callTool(call);
    call.onEnd = onEnd;
    return await this.#replayOutcome(name, call);
  }

  async #replayOutcome(name: string, call: CallInProgress): Promise<CallEnd> {
    const outcome = await this.#waitForNext(name);
    if (outcome !== undefined) return restoreCallEnd(outcome, call);
    const nowMs = this.agent.run.clock.nowMs();
    const times = { startedAtMs: nowMs, endedAtMs: nowMs };
    return toExecutedCall(call, times, CANCELLED);
  }

  #waitForNext(name: string): Promise<unknown> {
    return this.#feed.waitForOutcome({ agentId: this.agent.identity.agentId, name });
  }

  /**
   * Returns the last refusal of a delegation whose question was asked and has no recorded permit.
   * `refusal` is `undefined` if it was not refused. Returns `undefined` for any other call.
   */
  #openQuestion(key: string, permit: string) {
    const { agentId } = this.agent.identity;
    let isAsked = false;
    let refusal: SpawnRefusal | undefined;
    for (const record of this.#feed.past) {
      if (record.type === "effect" && record.agentId === agentId && record.name === permit)
        return undefined;
      if (record.type !== "event" || formatCallPosition(record.event) !== key) continue;
      const { type, error: refused } = record.event;
      isAsked ||= type === "question.asked";
      if (type === "subagent.refused") refusal = SpawnRefusalSchema().safeParse(refused).data;
    }
    return isAsked ? { refusal } : undefined;
  }

  override async consult<T>(work: () => Promise<T>): Promise<T> {
    this.#feed.running += 1;
    try {
      return await work();
    } finally {
      this.#feed.running -= 1;
    }
  }

  protected override outcome(name: string): unknown {
    return this.#permits.get(name) ?? super.outcome(name);
  }
}
