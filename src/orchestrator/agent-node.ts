// AgentNode: one agent in the tree. Owns its abort controllers, its clock, its inbox and the state in which it rests.
// Cancellation runs from parent to child, never back (R148).

import { invariant } from "../kernel/assert.ts";
import { linkedController, type CancelReason } from "../kernel/cancel.ts";
import type { Clock } from "../kernel/clock.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { AgentIdentity } from "../agent/agent-context.ts";
import type { AgentRole } from "../agent/agent-role.ts";
import type { PausedState, PendingState, RestingState } from "../agent/agent-state.ts";
import type { CallId } from "../protocol/ids.ts";
import type { StopSignal } from "../protocol/stop.ts";
import { AgentClock, type TimeAccounts } from "./agent-clock.ts";
import { AgentInbox } from "./agent-inbox.ts";

export interface AgentNodeOptions {
  readonly identity: AgentIdentity;
  readonly role: AgentRole;
  readonly task: string;
  readonly metadata: JsonObject;
  readonly parent: AgentNode | undefined;
  /** The call in its parent that started it. */
  readonly spawnCallId: CallId | undefined;
  /** The state from which it is to live: its first, or that of a paused run. */
  readonly state: PendingState | RestingState;
  readonly clock: Clock;
  /** Holds the agent's account already. */
  readonly ledger: TimeAccounts;
  /** Of an agent that lived before the run was paused. */
  readonly before?: {
    readonly startedAtMs: number;
    readonly children: number;
    readonly ordinals: Readonly<Record<string, number>>;
  };
  /** Aborted once the tree was asked to pause. */
  readonly pauseSignal: AbortSignal;
}

export class AgentNode {
  readonly identity: AgentIdentity;
  readonly role: AgentRole;
  readonly task: string;
  readonly metadata: JsonObject;
  readonly parent: AgentNode | undefined;
  readonly spawnCallId: CallId | undefined;
  readonly startedAtMs: number;
  readonly inbox: AgentInbox;
  readonly #time: AgentClock;
  readonly #controller: AbortController;
  readonly #start: ReturnType<typeof linkedController>;
  readonly #unlink: () => void;
  readonly #ordinals: Map<string, number>;
  #state: PendingState | RestingState;
  #isLive = false;
  /** Lets its time go on, which stands still while it is paused. */
  #endRest = (): void => undefined;
  #children: number;

  constructor(options: AgentNodeOptions) {
    this.identity = options.identity;
    this.role = options.role;
    this.task = options.task;
    this.metadata = options.metadata;
    this.parent = options.parent;
    this.spawnCallId = options.spawnCallId;
    this.#state = options.state;
    this.startedAtMs = options.before?.startedAtMs ?? options.clock.nowMs();
    this.#children = options.before?.children ?? 0;
    this.#ordinals = new Map(Object.entries(options.before?.ordinals ?? {}));
    if (options.parent === undefined) {
      this.#controller = new AbortController();
      this.#unlink = () => undefined;
    } else {
      const linked = linkedController(options.parent.signal);
      this.#controller = linked.controller;
      this.#unlink = () => linked.unlink();
    }
    this.#start = linkedController(this.signal);
    this.inbox = new AgentInbox(this.signal, options.pauseSignal);
    this.#time = new AgentClock({
      agentId: options.identity.agentId,
      clock: options.clock,
      ledger: options.ledger,
      parent: options.parent === undefined ? undefined : options.parent.#time,
      onDeadline: (deadlineAtMs) => this.#endAt(deadlineAtMs),
    });
    if (this.hasEnded) this.close();
    else if (options.before !== undefined) this.#endIfOverdue(options);
  }

  /** Aborted when the agent, or one above it, must end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Aborted when the agent must not start anything further: with `signal`, and as soon as somebody wishes it to stop. */
  get startSignal(): AbortSignal {
    return this.#start.controller.signal;
  }

  /** Time that does not count against its time limit, since it waited for an answer or was paused. */
  get pausedMs(): number {
    return this.#time.stoodMs;
  }

  /** The state in which it rests; undefined while it has not begun, or runs. */
  get rested(): RestingState | undefined {
    return this.#isLive || this.#state.status === "pending" ? undefined : this.#state;
  }

  get hasEnded(): boolean {
    return this.rested !== undefined && this.rested.status !== "paused";
  }

  /** Subagents that it has started. */
  get breadth(): number {
    return this.#children;
  }

  /** How many subagents of each role were numbered. */
  get ordinals(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#ordinals);
  }

  /** Counts one more child and gives its place in the tree: `lead/researcher#2`. */
  adopt(roleName: string): string {
    this.#children += 1;
    const ordinal = (this.#ordinals.get(roleName) ?? 0) + 1;
    this.#ordinals.set(roleName, ordinal);
    return `${this.identity.agentPath}/${roleName}#${ordinal}`;
  }

  /** Undoes `adopt` for a child that was never set up. Its ordinal stays taken, so that no two agents share a path. */
  disown(): void {
    this.#children -= 1;
  }

  /** An effect of the agent is under way until the result is called. Begin before the ledger is asked. */
  working(): () => void {
    return this.#time.working();
  }

  /** A question of the agent waits for an answer until the result is called. */
  asking(): () => void {
    return this.#time.asking();
  }

  /** Cancels the agent and all below it. */
  cancel(message: string): void {
    const { agentId } = this.identity;
    const reason: CancelReason = { type: "cancelled", message, agentId };
    this.#controller.abort(reason);
  }

  /** Raises a stop signal, which takes effect before the next phase. */
  raise(signal: StopSignal): void {
    this.inbox.raise(signal);
    this.#start.controller.abort(signal);
  }

  /** The agent lives from now on, from the state that this gives: its first, or the one in which it was paused. */
  rise(): PendingState | PausedState {
    const state = this.#state;
    invariant(
      !this.#isLive && (state.status === "pending" || state.status === "paused"),
      `${this.identity.agentPath} is not alive and has not ended`,
    );
    this.#isLive = true;
    this.#endRest();
    this.inbox.reopen();
    return state;
  }

  /** Notes the state in which it rests. One that has ended lets go of timers and of its parent's signal; a paused one still heeds them. */
  rest(state: RestingState): void {
    this.#isLive = false;
    this.#state = state;
    this.inbox.close(state.status);
    if (state.status === "paused") this.#endRest = this.#time.asking();
    else this.close();
  }

  close(): void {
    if (this.rested !== undefined) this.inbox.close(this.rested.status);
    this.#time.close();
    this.#start.unlink();
    this.#unlink();
  }

  /** A deadline that passed during a pause is heeded before anything of the agent goes on (R58). */
  #endIfOverdue({ ledger, clock, identity }: AgentNodeOptions): void {
    const deadlineAtMs = ledger.ownDeadlineAtMs(identity.agentId);
    if (deadlineAtMs !== null && deadlineAtMs <= clock.nowMs()) this.#endAt(deadlineAtMs);
  }

  #endAt(deadlineAtMs: number): void {
    const { agentId, agentPath } = this.identity;
    const message = `The time limit of ${agentPath} is over.`;
    const reason: CancelReason = { type: "deadline", message, deadlineAtMs, agentId };
    this.#controller.abort(reason);
  }
}
