// Runs whose journals the test writes line by line, at intervals or in sizes that no process would
// produce.

import type { RunId } from "../../../src/protocol/ids.ts";
import type { Store } from "../../../src/store/store.ts";
import { allOf } from "../all-of.ts";

/** A journal that grows when the test appends to it. */
export interface WrittenRun {
  append(lines: readonly string[]): Promise<void>;
  /** Releases the run as ended. */
  end(): Promise<void>;
  /** Releases the run although it continues. */
  leave(): Promise<void>;
}

const OWNER = { token: "written", hostname: "elsewhere", processId: 1 };

export async function writtenRun(
  store: Store,
  runId: RunId,
  title = "lead: Survey.",
): Promise<WrittenRun> {
  const ownership = await store.create(runId, title, OWNER);
  let count = 0;
  return {
    append: async (records) => {
      await store.append(ownership, { firstNumber: count + 1, records });
      count += records.length;
    },
    end: () => store.release(ownership, "ended"),
    leave: () => store.release(ownership, "open"),
  };
}

/** Returns the lines of a journal. */
export async function linesOf(store: Store, runId: RunId): Promise<readonly string[]> {
  return await allOf(store.read(runId));
}

const NO_USAGE = { own: {}, descendants: {}, total: {} };

/**
 * Returns the lines of a run with this many agents below its root, in the first version of the
 * format, with their events.
 */
export function crowd(
  runId: RunId,
  agents: number,
  task: string,
): {
  readonly begin: readonly string[];
  readonly touchAll: () => readonly string[];
  readonly end: readonly string[];
} {
  let seq = 0;
  const line = (type: string, index: number, body: object): string => {
    seq += 1;
    const path = index === 0 ? "lead" : `lead/helper#${index}`;
    const scope = {
      runId,
      agentId: `agent_${index}`,
      parentAgentId: index === 0 ? null : "agent_0",
      agentPath: path,
      depth: index === 0 ? 0 : 1,
    };
    const place = {
      executionId: `execution_${index}`,
      stepId: null,
      callId: null,
      traceId: "0".repeat(32),
      spanId: "0".repeat(16),
    };
    return JSON.stringify({
      type: "event",
      event: { seq, atMs: 1_000_000 + seq, ...scope, ...place, type, ...body },
    });
  };
  const all = Array.from({ length: agents + 1 }, (_, index) => index);
  const reason = { code: "completed", message: "Done.", data: {} };
  const head = {
    type: "run",
    version: 1,
    runId,
    limits: { maxDepth: 1, maxBreadthPerParent: agents, maxTotalSubagents: agents },
  };
  return {
    begin: [
      JSON.stringify(head),
      line("run.started", 0, { schemaVersion: 1, role: "lead", task, limits: {}, budget: {} }),
      ...all.map((index) =>
        line("agent.started", index, {
          role: index === 0 ? "lead" : "helper",
          provider: "test",
          model: "test",
          task,
          spawnCallId: null,
          budget: {},
        }),
      ),
    ],
    touchAll: () =>
      all.map((index) =>
        line("step.started", index, { number: seq, promptHash: "", toolsHash: "" }),
      ),
    end: [
      ...all.toReversed().map((index) =>
        line("agent.ended", index, {
          role: "helper",
          status: "completed",
          reason,
          steps: 1,
          text: "",
          usage: usage(),
          signals: [],
          durationMs: 1,
        }),
      ),
      line("run.ended", 0, {
        status: "completed",
        reason,
        signals: [],
        usage: usage(),
        subagentsByDepth: {},
        refusalsByCode: {},
        durationMs: 1,
      }),
    ],
  };
}

function usage(): object {
  const nothing = { totalTokens: 0, costUsd: 0, unpricedCalls: 0 };
  return { ...NO_USAGE, own: nothing, descendants: nothing, total: nothing };
}
