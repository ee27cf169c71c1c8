// ReplyCalls: the tool calls of one reply, which end together. Owns the signal that each of them is given: it is aborted when the agent
// must end, when it is to stop, and when one of the calls leaves nothing to do for the others.

import { cancelReasonOf, onAbort } from "../../kernel/cancel.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { EffectPosition } from "../agent-identity.ts";
import type { CallPosition } from "./open-call.ts";

export class ReplyCalls {
  /** Where each of them stands. */
  readonly place: CallPosition;
  readonly #agent: AgentRuntime;
  readonly #controller = new AbortController();
  /** Listens to the agent no longer. */
  readonly release: () => void;

  constructor(agent: AgentRuntime, place: EffectPosition) {
    this.place = { ...place, signal: this.signal };
    this.#agent = agent;
    const isOver = agent.startSignal.aborted;
    this.release = isOver ? () => undefined : onAbort(agent.startSignal, () => this.end());
    if (isOver) this.end();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * No further one begins, those under way are aborted, and the subagents that they have started are cancelled: where the agent itself must
   * end, that has reached them already.
   */
  end(): void {
    if (this.signal.aborted) return;
    const { startSignal, identity, run } = this.#agent;
    const { agentId, agentPath } = identity;
    const cancelled = cancelReasonOf(startSignal);
    const message = `${agentPath} stops.`;
    this.#controller.abort(cancelled ?? { type: "stopped", message, agentId });
    if (cancelled === undefined) run.subagents.cancelStartedBy(this.#agent, this.place.stepId);
  }
}
