// What the effects in this process work with: everything of one execution that is not its state.

import type { Clock } from "../kernel/clock.ts";
import type { Pace } from "../kernel/pace.ts";
import type { JsonObject, JsonValue } from "../kernel/json.ts";
import type { HookSet } from "../hooks/hook-set.ts";
import type { CacheKey, Model } from "../model/model.ts";
import type { RetryPolicy } from "../model/retry.ts";
import type { EventBody } from "../protocol/event.ts";
import type { AgentId, CallId, StepId } from "../protocol/ids.ts";
import type { SpanContent } from "../protocol/span-content.ts";
import type { StopSignal } from "../protocol/stop.ts";
import type { SpawnOutcome, SpawnRefusal, SpawnRequest } from "../protocol/subagent.ts";
import type { Usage } from "../protocol/usage.ts";
import type { SubagentService } from "../tools/tool-context.ts";
import type { NamedGuard } from "../tools/tool-guard.ts";
import type { AgentIdentity, EventPlace } from "./agent-context.ts";
import type { History } from "./effects.ts";
import type { QuestionDesk } from "./approver.ts";
import type { Lease, LeaseAsk, LeaseOutcome } from "./budget-gate.ts";
import type { EffectLog } from "./effect-log.ts";
import type { RefusedSpawn } from "./tool-calls/call-outcome.ts";

/** A place in a queue: `work` runs when there is one, or not at all if `signal` is aborted before. */
export interface Slots {
  model<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T | undefined>;
  tool<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T | undefined>;
}

export interface LocalEffectsOptions {
  readonly identity: AgentIdentity;
  readonly roleName: string;
  readonly model: Model;
  readonly cacheKey: CacheKey;
  readonly metadata: JsonObject;
  readonly hooks: HookSet;
  /** Of the orchestrator, of every agent above, and of its own role. */
  readonly guards: readonly NamedGuard[];
  /** Stands for the run, for what wrappers of tools keep over the whole tree. */
  readonly run: object;
  /** How long a hook, a guard, a stop condition or a processor may take. */
  readonly hookTimeoutMs: number;
  readonly desk: QuestionDesk;
  /** Where effects are kept; undefined: nowhere. */
  readonly log: EffectLog | undefined;
  readonly clock: Clock;
  readonly slots: Slots;
  /** Of the run: how many delegations begin at once. */
  readonly pace: Pace;
  /** Aborted when everything of the agent must end. */
  readonly signal: AbortSignal;
  /** Aborted when nothing further of it may start. */
  readonly startSignal: AbortSignal;
  /** Aborted when a tool call has to end: with `signal`, and when the calls of its reply are ended. */
  readonly callSignal: AbortSignal;
  /** Aborted when the run is to pause: questions are waited for no longer. */
  readonly pauseSignal: AbortSignal;
  readonly graceMs: number;
  readonly retry: RetryPolicy;
  readonly onText: ((piece: string) => void) | undefined;
  reserve(ask: LeaseAsk): Promise<LeaseOutcome>;
  /** Books what an attempt used that has ended, while its call goes on. */
  charge(lease: Lease, usage: Usage): void;
  /** Pays for one more attempt of a call, whose earlier ones are charged; waits for room like `reserve`. Must not reject. */
  payAgain(lease: Lease, signal: AbortSignal): Promise<LeaseOutcome>;
  /** Must not reject. */
  spawn(request: SpawnRequest, call: DelegatedCall): Promise<SpawnOutcome>;
  /** A delegation was denied: it starts nobody (X11). */
  forgo(call: DelegatedCall): void;
  /** Goes on with a paused child. Must not reject. */
  resumeChild(childId: AgentId, place: EventPlace): Promise<SpawnOutcome>;
  /** Ends a child that lives or is paused. Must not reject. */
  dismissChild(childId: AgentId): Promise<void>;
  /** Cancels the children that the calls of a step have started. */
  cancelChildrenOf(stepId: StepId): void;
  /** Waits for children in the background; see `Effects.awaitSubagents`. Must not reject. */
  awaitChildren(childIds: readonly AgentId[], until: "news" | "rest"): Promise<void>;
  /** Leaves a child in the background to the run. */
  detachChild(childId: AgentId): void;
  /**
   * Why `SpawnSubagent` with these arguments starts nothing as things stand; recorded and counted, so that the call is refused before
   * anybody is asked about it (R137). `isAsked`: somebody would be; then those ahead of it in its reply count as started. Undefined: it may
   * start a subagent.
   */
  refuseSpawn(input: JsonValue, call: DelegatedCall, isAsked: boolean): RefusedSpawn | undefined;
  /**
   * Records and counts that a guard, a hook, a rule or a filter forbids what `SpawnSubagent` with these arguments asks for (X14). Undefined: they ask
   * for nothing that can be read.
   */
  forbidSpawn(
    input: JsonValue,
    refusal: SpawnRefusal,
    call: DelegatedCall,
  ): RefusedSpawn | undefined;
  /** How often that may be, before somebody is asked. */
  readonly maxIdenticalDelegations: number | "unlimited";
  /** How often a role was started with this task in the run, calls of the step not counted (X21). */
  delegationsBefore(request: Pick<SpawnRequest, "role" | "task">, stepId: StepId): number;
  /** What a call may do with the agent's subagents. */
  subagentsOf(call: DelegatedCall): SubagentService;
  /** The agent works until the returned function is called: its time passes. */
  working(): () => void;
  /** The agent waits for an answer until the returned function is called: its time stands still. */
  asking(): () => void;
  raise(signal: StopSignal): void;
  /** `contents`: what was said within a span that begins and ends with the event; made only if a trace shows it. */
  record(body: EventBody, place: EventPlace, contents?: () => readonly SpanContent[]): void;
  /** Runs what belongs to a place: `correlation()` gives its ids to all that it begins. */
  at<T>(place: EventPlace, work: () => T): T;
  /** The same for foreign code that has a span: inside that. */
  within<T>(place: EventPlace, work: () => Promise<T>): Promise<T>;
  /** Tells what is said within the span of a place, which must be open; `content` is made only if a trace shows it. */
  tell(place: EventPlace, content: () => SpanContent): void;
}

/** The call behind a delegation, with the history that it was made in; a subtask has no call. */
export interface DelegatedCall extends EventPlace {
  readonly callId?: CallId;
  readonly history: History;
  /** The roles that the delegations of the reply ask for, this one included; empty for a subtask. */
  readonly group: readonly string[];
  /** Which of the delegations of the call it is, from 0, which is the default; of a subtask: its place in the queue. */
  readonly nth?: number;
}
