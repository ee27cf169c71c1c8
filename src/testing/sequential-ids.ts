import type { IdSource } from "../kernel/id-source.ts";

/**
 * Creates an id source that counts up within each kind: `agent_1`, `agent_2`, `run_1`.
 *
 * @example
 * ```ts
 * const orchestrator = new Orchestrator({ ids: sequentialIds() });
 * const { runId } = orchestrator.start(role, "What do pears cost?");
 * console.log(runId); // run_1
 * ```
 */
export function sequentialIds(): IdSource {
  const counts = new Map<string, number>();
  return {
    next: (kind) => {
      const count = (counts.get(kind) ?? 0) + 1;
      counts.set(kind, count);
      return `${kind}_${count}`;
    },
  };
}
