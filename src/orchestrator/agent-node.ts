// AgentNode: one living agent in the tree. Owns its abort controller, its deadline and the signals that come to it from outside.
// Cancellation runs from parent to child, never back (R148).

import { cancelReasonOf, linkedController, type CancelReason } from "../kernel/cancel.ts";
import type { Clock } from "../kernel/clock.ts";
import type { AgentIdentity } from "../agent/agent-context.ts";
import type { EndedState } from "../agent/agent-state.ts";
import type { AgentRole } from "../agent/agent-role.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { StopSignal } from "../protocol/stop.ts";

export interface AgentNodeOptions {
  readonly identity: AgentIdentity;
  readonly role: AgentRole;
  readonly task: string;
  readonly metadata: JsonObject;
  readonly parent: AgentNode | undefined;
  readonly clock: Clock;
}

export class AgentNode {
  readonly identity: AgentIdentity;
  readonly role: AgentRole;
  readonly task: string;
  readonly metadata: JsonObject;
  readonly parent: AgentNode | undefined;
  readonly startedAtMs: number;
  readonly #clock: Clock;
  readonly #controller: AbortController;
  readonly #unlink: () => void;
  readonly #ordinals = new Map<string, number>();
  #signals: readonly StopSignal[] = [];
  #abortHeeded = false;
  #stopTimer: (() => void) | undefined;
  #ended: EndedState | undefined;
  #children = 0;

  constructor(options: AgentNodeOptions) {
    this.identity = options.identity;
    this.role = options.role;
    this.task = options.task;
    this.metadata = options.metadata;
    this.parent = options.parent;
    this.#clock = options.clock;
    this.startedAtMs = options.clock.nowMs();
    if (options.parent === undefined) {
      this.#controller = new AbortController();
      this.#unlink = () => undefined;
    } else {
      const linked = linkedController(options.parent.signal);
      this.#controller = linked.controller;
      this.#unlink = () => linked.unlink();
    }
  }

  /** Aborted when the agent, or one above it, must end. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The state in which it ended; undefined while it lives. */
  get ended(): EndedState | undefined {
    return this.#ended;
  }

  /** Subagents that it has started. */
  get breadth(): number {
    return this.#children;
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

  /** Ends the agent and all below it at its own deadline. */
  endAt(deadlineAtMs: number): void {
    const { agentId, agentPath } = this.identity;
    const message = `The time limit of ${agentPath} is over.`;
    const reason: CancelReason = { type: "deadline", message, deadlineAtMs, agentId };
    this.#stopTimer = this.#clock.setTimer(Math.max(0, deadlineAtMs - this.startedAtMs), () =>
      this.#controller.abort(reason),
    );
  }

  /** Cancels the agent and all below it. */
  cancel(message: string): void {
    const { agentId } = this.identity;
    const reason: CancelReason = { type: "cancelled", message, agentId };
    this.#controller.abort(reason);
  }

  /** Raises a stop signal, which takes effect before the next phase. */
  raise(signal: StopSignal): void {
    this.#signals = [...this.#signals, signal];
  }

  /** Gives the signals that came since the last time. */
  takeSignals(): readonly StopSignal[] {
    const taken = this.#signals;
    if (taken.length > 0) this.#signals = [];
    if (this.#abortHeeded || !this.signal.aborted) return taken;
    this.#abortHeeded = true;
    return [...taken, abortSignal(cancelReasonOf(this.signal))];
  }

  /** Notes the end and lets go of timers and of the parent's signal. */
  end(state: EndedState): void {
    this.#ended = state;
    this.close();
  }

  close(): void {
    this.#stopTimer?.();
    this.#unlink();
  }
}

function abortSignal(reason: CancelReason | undefined): StopSignal {
  if (reason?.type === "deadline") {
    const { message, deadlineAtMs, agentId } = reason;
    return {
      source: "budget",
      reason: { code: "time_limit", message, data: { deadlineAtMs, agentId } },
    };
  }
  const message = reason?.message ?? "The run was cancelled.";
  const data = reason === undefined ? {} : { agentId: reason.agentId };
  return { source: "caller", reason: { code: "cancelled", message, data } };
}
