// Compares the answers of a run's reader with its complete journal.

import { expect } from "vitest";

import { rebuildStepRequest, type RebuiltRequest } from "../../../src/agent/shown-messages.ts";
import { foldJournal } from "../../../src/orchestrator/durability/fold-journal.ts";
import { parseRecord } from "../../../src/orchestrator/durability/journal-record.ts";
import { RecordCodec } from "../../../src/orchestrator/durability/record-codec.ts";
import { RunRecord } from "../../../src/orchestrator/durability/run-record.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import type { RunStore } from "../../../src/store/run-store.ts";

/** Returns each event with its line number, as found by reading every line. */
export async function eventsWithLines(store: RunStore, runId: RunId): Promise<readonly unknown[]> {
  const reader = new RecordCodec();
  const found: unknown[] = [];
  let line = 0;
  for await (const text of store.read(runId)) {
    line += 1;
    for (const record of reader.read(text).map(parseRecord))
      if (record.type === "event") found.push([record.event, line]);
  }
  return found;
}

/**
 * Expects the steps and requests of every agent to be those of the folded journal. Returns the
 * number of requests.
 */
export async function checkRecord(
  store: RunStore,
  runId: RunId,
  record = new RunRecord(store, runId),
): Promise<number> {
  await record.advance();
  const { run } = await foldJournal(runId, store.read(runId));
  let requests = 0;
  for (const { agentId, agentPath, executionId, state } of run.agents) {
    const last = (await record.steps(agentId)).at(-1);
    expect(last?.executionId ?? executionId, agentPath).toBe(executionId);
    expect(last?.steps ?? [], agentPath).toEqual(state.log.steps);
    expect(last?.open?.number, agentPath).toBe(state.step?.number);
    for (const { context } of [
      ...state.log.steps,
      ...(state.step === undefined ? [] : [state.step]),
    ]) {
      const step = { field: "stepNumber", stepNumber: context.number, agentPath };
      const textOf = (hash: string): string | undefined =>
        Object.hasOwn(run.definitions, hash) ? run.definitions[hash] : undefined;
      const request = record.request({ agentId, stepNumber: context.number });
      let expected: RebuiltRequest;
      try {
        expected = rebuildStepRequest(state, step, textOf);
      } catch {
        await expect(request).rejects.toMatchObject({ code: "invalid_paused_run" });
        continue;
      }
      const { inheritedFrom, ...rebuilt } = await request;
      expect(rebuilt, `${agentPath}, step ${context.number}`).toEqual(expected);
      expect(inheritedFrom.length).toBe(rebuilt.request.messages.length);
      requests += 1;
    }
  }
  return requests;
}
