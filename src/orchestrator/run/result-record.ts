// The record of the result fields that no other record of a journal contains.

import type { RecordOf } from "../durability/journal-record.ts";
import type { RunResult } from "./run-result.ts";

/** Returns the record of what agents have from their roles, and of what became of the session. */
export function resultRecord({ agents, prices, session }: RunResult, atMs: number) {
  const models = Map.groupBy(agents, ({ model }) => model);
  return {
    type: "result",
    atMs,
    models: [...models].map(([model, of]) => ({ model, agentIds: of.map((one) => one.agentId) })),
    removedTools: agents
      .filter(({ removedTools }) => removedTools.length > 0)
      .map(({ agentId, removedTools: removed }) => ({ agentId, removed })),
    prices,
    ...(session === undefined ? {} : { session }),
  } as const satisfies RecordOf<"result">;
}
