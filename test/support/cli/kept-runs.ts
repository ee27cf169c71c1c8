// A folder with a store of a few small runs: one that completed, one that failed below its root,
// one that a limit stopped, one that waits.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import {
  defineAgent,
  defineTool,
  Orchestrator,
  type AgentDefinition,
  type AgentRole,
  type RunId,
  ModelError,
} from "espalier";
import type { Store } from "espalier/extend";
import { sqliteStore } from "espalier/store/sqlite";
import {
  asks,
  ManualClock,
  says,
  ScriptedModel,
  sequentialIds,
  type ScriptedReply,
} from "espalier/testing";
import { z } from "zod";

/** Its message contains control characters for terminals. */
const AWAY = {
  error: new ModelError({ code: "model_unauthorized", message: "Wrong \u001b[31mkey.\u202e" }),
};

const STARTED_MS = Date.UTC(2026, 0, 2, 3, 4, 5);

export interface KeptRuns extends AsyncDisposable {
  readonly folder: string;
  readonly path: string;
  readonly store: Store;
  readonly orchestrator: Orchestrator;
}

/** Creates an empty store in a folder of its own. */
export function keptRuns(): KeptRuns {
  const folder = mkdtempSync(join(tmpdir(), "espalier-reading-"));
  const path = join(folder, "runs.db");
  const clock = new ManualClock(STARTED_MS);
  const store = sqliteStore(path);
  const orchestrator = new Orchestrator({ store, clock, ids: sequentialIds() });
  return {
    folder,
    path,
    store,
    orchestrator,
    [Symbol.asyncDispose]: async () => {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Starts the runs, in this order. */
export async function fourRuns({ orchestrator }: KeptRuns): Promise<readonly RunId[]> {
  const runs = [
    orchestrator.start(agent("lead", [says("All is well.")]), "Say hello.\nTwice."),
    orchestrator.start(failing(), "Audit the code."),
    orchestrator.start(agent("lead", [asks("none", {}), says("Never.")]), "Try it.", {
      budget: { steps: 1 },
    }),
    orchestrator.start(asking(), "Order the pears."),
  ];
  const ids: RunId[] = [];
  for (const run of runs) ids.push((await run.result).runId);
  return ids;
}

function failing(): AgentRole {
  const read = defineTool({
    name: "read",
    description: "Reads.",
    inputSchema: z.object({ path: z.string() }),
    execute: () => {
      throw new Error("ENOENT");
    },
  });
  const reader = agent("reader", [asks("read", { path: "a.ts" }), AWAY], { tools: [read] });
  const spawn = asks("SpawnSubagent", { role: "reader", task: "Read the docs." });
  return agent("lead", [spawn, AWAY], { subagents: [reader] });
}

function asking(): AgentRole {
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({ eur: z.number() }),
    needsApproval: () => "It is more than 100 EUR.",
    execute: () => "Paid.",
  });
  return agent("buyer", [asks("pay", { eur: 400 }), says("Ordered.")], { tools: [pay] });
}

export function agent(
  name: string,
  replies: readonly ScriptedReply[],
  more: Partial<AgentDefinition> = {},
): AgentRole {
  const model = new ScriptedModel(replies, { allowUnknownTools: true });
  return defineAgent({ name, description: "Works.", instructions: "Work.", model, ...more });
}
