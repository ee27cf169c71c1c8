// AttachedOrchestrators: the orchestrators of this process through which a viewer acts. Owns their list.

import type { AgentRole } from "../agent/agent-role.ts";
import { EspalierError } from "../kernel/error.ts";
import type { Orchestrator } from "../orchestrator/orchestrator.ts";
import type { RunId } from "../protocol/ids.ts";

/** What a viewer asks of an orchestrator: any is one. */
export type ActingOrchestrator = Pick<
  Orchestrator,
  "findActiveRun" | "answer" | "cancel" | "post" | "recover"
>;

/** What goes with an orchestrator. */
export interface AttachOptions {
  /** Gives the context of a run that is to continue here, where its roles ask for one. */
  readonly context?: (runId: RunId) => unknown;
}

/** What became of an attempt to lead a run on. `led`: it is led, here or elsewhere; `over`: it has ended meanwhile. */
export type ContinueOutcome = "led" | "over" | EspalierError;

export class AttachedOrchestrators {
  readonly #attached: { orchestrator: ActingOrchestrator; options: AttachOptions }[] = [];

  add(orchestrator: ActingOrchestrator, options: AttachOptions): void {
    this.#attached.push({ orchestrator, options });
  }

  get isEmpty(): boolean {
    return this.#attached.length === 0;
  }

  /** The one that leads the run now. */
  leading(runId: RunId): ActingOrchestrator | undefined {
    return this.#attached.find(
      ({ orchestrator }) => orchestrator.findActiveRun(runId) !== undefined,
    )?.orchestrator;
  }

  /** Leads a run on with the first that can; undefined: there is none at all. Never rejects with what is wrong with the run. */
  async continueRun(runId: RunId): Promise<ContinueOutcome | undefined> {
    let problem: EspalierError | undefined;
    for (const { orchestrator, options } of this.#attached) {
      try {
        const context = await options.context?.(runId);
        const run = await orchestrator.recover<AgentRole>(runId, { context });
        run.result.catch(() => undefined); // It is shown from the journal.
        return "led";
      } catch (cause) {
        if (!EspalierError.is(cause)) throw cause;
        if (cause.code === "run_alive" || cause.code === "run_ended")
          return cause.code === "run_alive" ? "led" : "over";
        problem ??= cause;
      }
    }
    return problem;
  }
}
