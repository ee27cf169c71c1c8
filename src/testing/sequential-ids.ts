import type { IdSource } from "../kernel/id-source.ts";

/** Ids that count up within their kind: `agent_1`, `agent_2`, `run_1`. */
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
