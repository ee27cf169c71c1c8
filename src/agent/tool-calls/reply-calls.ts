// ReplyCalls: the tool calls of one reply, which end together. Owns the signal that each of them is given: it is aborted when the agent
// must end, when it is to stop, and when one of the calls leaves nothing to do for the others.

import { cancelReasonOf, onAbort } from "../../kernel/cancel.ts";
import type { StepId } from "../../protocol/ids.ts";
import type { LocalEffectsOptions } from "../local-options.ts";

export class ReplyCalls {
  readonly stepId: StepId;
  /** What the calls work with. */
  readonly options: LocalEffectsOptions;
  readonly #agent: LocalEffectsOptions;
  readonly #controller = new AbortController();
  /** Listens to the agent no longer. */
  readonly letGo: () => void;

  /** `agent`: what the effects of the agent work with. */
  constructor(agent: LocalEffectsOptions, stepId: StepId) {
    const { signal } = this.#controller;
    this.stepId = stepId;
    this.#agent = agent;
    this.options = { ...agent, startSignal: signal, callSignal: signal };
    const isOver = agent.startSignal.aborted;
    this.letGo = isOver ? () => undefined : onAbort(agent.startSignal, () => this.end());
    if (isOver) this.end();
  }

  /**
   * Nothing further of them begins, those under way are aborted, and the subagents that they have started are cancelled: where the agent
   * itself must end, that has reached them already.
   */
  end(): void {
    if (this.#controller.signal.aborted) return;
    const { startSignal, identity } = this.#agent;
    const { agentId, agentPath } = identity;
    const cancelled = cancelReasonOf(startSignal);
    const message = `${agentPath} stops.`;
    this.#controller.abort(cancelled ?? { type: "stopped", message, agentId });
    if (cancelled === undefined) this.#agent.cancelChildrenOf(this.stepId);
  }
}
