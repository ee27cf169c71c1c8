// Rebuilds the model request of a step from a recording, which is the text of a journal.

import type { RebuiltRequest } from "../../../src/agent/shown-messages.ts";
import { isRecord } from "../../../src/kernel/json.ts";
import { createEmptyJournalError } from "../../../src/orchestrator/durability/journal-errors.ts";
import { RunRecord } from "../../../src/orchestrator/durability/run-record.ts";
import { type AgentId, RunIdSchema } from "../../../src/protocol/ids.ts";

/** Rebuilds the request of a step, by default of the root. */
export async function rebuildRecordedRequest(
  recording: string,
  { stepNumber, agentId }: { readonly stepNumber: number; readonly agentId?: AgentId },
): Promise<RebuiltRequest> {
  const lines = recording.split("\n").filter((line) => line.trim() !== "");
  const store = {
    async *read(_runId: string, from = 1, limit = Infinity): AsyncGenerator<string> {
      yield* lines.slice(from - 1, from - 1 + limit);
    },
  };
  const head: unknown = lines[0]?.startsWith("{") === true ? JSON.parse(lines[0]) : undefined;
  const isHead = isRecord(head) && head["type"] === "run";
  const runId = RunIdSchema().parse(isHead ? head["runId"] : "unknown");
  const record = new RunRecord(store, runId);
  await record.advance();
  const id = agentId ?? record.agentIds[0];
  if (!isHead || id === undefined) throw createEmptyJournalError(runId);
  const { model, request } = await record.request({ agentId: id, stepNumber });
  return { model, request };
}
