// Goal: a recorded tree is replayed without a model and has the same result, interleavings
// included.
// Method: a tree over an in-memory store; the recording is replayed with the same role.

import { expect } from "vitest";

import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { replay } from "../../../src/testing/replay/replay.ts";
import { proves } from "../../harness/proves.ts";
import { world } from "../../support/journal/crash-world.ts";

const limits = { maxDepth: 3, maxBreadthPerParent: 10, maxTotalSubagents: 100 };

function gist({ status, reason, text, agents, usage, accounts }: RunResult): object {
  return {
    status,
    reason,
    text,
    usage,
    agents: agents.map((one) => [one.agentPath, one.status, one.text, one.usage]),
    accounts: accounts.map(({ agentPath: path, own, total }) => [path, own, total]),
  };
}

proves(
  ["R175", "X25"],
  "replays a tree of thirty agents to the same result, without a model or a tool",
  async () => {
    const { role } = world();
    const store = memoryStore();
    const run = new Orchestrator({ limits, store }).start(role, "Go.", {
      budget: { totalTokens: 100_000 },
    });
    const result = await run.result;
    const recording = await loadRecording(store, run.runId);
    const again = world();
    const replayed = await replay(recording, { role: again.role });
    expect(gist(replayed)).toEqual(gist(result));
    expect([again.calls.size, again.modelCalls.size]).toEqual([0, 0]);
  },
);
