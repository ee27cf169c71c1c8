// BackgroundChildren: the subagents of one agent that run in the background. Owns their promises until they settle.
// The end of the agent waits for them here first (T2), so none is forgotten.

import { invariant } from "../kernel/assert.ts";
import type { AgentId } from "../protocol/ids.ts";

export class BackgroundChildren {
  readonly #living = new Map<AgentId, Promise<void>>();

  /** Adds a subagent that runs from now on. `settled` must not reject. */
  start(childId: AgentId, settled: Promise<unknown>): void {
    invariant(!this.#living.has(childId), "a subagent is started once at a time");
    this.#living.set(
      childId,
      settled.then(() => void this.#living.delete(childId)),
    );
  }

  /** True while it has come neither to its end nor to a pause. */
  isLiving(childId: AgentId): boolean {
    return this.#living.has(childId);
  }

  /** Resolves once all of these have settled. */
  async allSettled(childIds: readonly AgentId[]): Promise<void> {
    await Promise.all(childIds.flatMap((childId) => this.#living.get(childId) ?? []));
  }
}
