// A worker, or a service that resumes its runs, in its own process. One of its tools ends the
// process.
// Its options are the JSON of its only argument. Sends `serves` over its channel.

import { kill, abort, exit, pid } from "node:process";
import { setTimeout } from "node:timers/promises";

import { z } from "zod";

import type { Engine } from "../../../src/engine/engine.ts";
import { pgBossEngine } from "../../../src/engine/pg-boss/pg-boss-engine.ts";
import { restateEngine } from "../../../src/engine/restate/restate-engine.ts";
import { storeEngine } from "../../../src/engine/store-engine.ts";
import { defineAgent, defineTool, Orchestrator } from "../../../src/index.ts";
import { isRecord, parseJson } from "../../../src/kernel/json.ts";
import { postgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { appendLine } from "../line-log.ts";

/** How a tool ends its process. */
export type Death = "exit" | "memory" | "abort" | "kill";

/** How the process is set up. */
export interface PoisonWorkerOptions {
  readonly store:
    | { readonly path: string }
    | { readonly connectionString: string; readonly schema: string };
  /** `none`: a service that starts or resumes its runs by itself. */
  readonly engine:
    | { readonly name: "none"; readonly starts: readonly string[] }
    | { readonly name: "store" }
    | { readonly name: "pg-boss"; readonly connectionString: string; readonly jobs: string }
    | {
        readonly name: "restate";
        readonly ingressUrl: string;
        readonly adminUrl: string;
        readonly port: number;
      };
  readonly death: Death;
  /** The file that lists the calls of tools. */
  readonly log: string;
}

/** A call of a tool that has begun. */
export interface NotedCall {
  readonly runId: string;
  readonly tool: string;
  readonly pid: number;
}

const OptionsSchema = z.custom<PoisonWorkerOptions>(isRecord);
const options = OptionsSchema.parse(parseJson(process.argv[2] ?? ""));

const DEATHS: Readonly<Record<Death, () => void>> = {
  exit: () => exit(1),
  abort: () => abort(),
  kill: () => void kill(pid, "SIGKILL"),
  memory: () => {
    const kept: unknown[] = [];
    for (;;) kept.push(Array.from({ length: 100_000 }, (_, index) => ({ index })));
  },
};

function toolOf(name: string, execute: () => Promise<string>) {
  return defineTool({
    name,
    description: "Works.",
    inputSchema: z.object({ nth: z.int() }),
    execute: async (_input, { runId }) => {
      const noted: NotedCall = { runId, tool: name, pid };
      appendLine(options.log, noted);
      return await execute();
    },
  });
}

const boom = toolOf("boom", async () => {
  await setTimeout(50);
  DEATHS[options.death]();
  return await new Promise<string>(() => undefined);
});
const work = toolOf("work", async () => {
  await setTimeout(400);
  return "worked";
});

/** Returns a role whose agents call its tool this many times, and then reply that they are done. */
function roleOf(name: string, tool: ReturnType<typeof toolOf>, times: number) {
  const model = new ScriptedModel(({ messages }) => {
    const nth = messages.filter((message) => message.role === "tool").length;
    return nth < times ? asks(tool.name, { nth }) : says(`${name} is done`);
  });
  return defineAgent({ name, instructions: "Work.", model, tools: [tool] });
}

const roles = [roleOf("poison", boom, 1), roleOf("healthy", work, 3)] as const;
const { store: place } = options;
const store = "path" in place ? sqliteStore(place.path) : postgresStore(place);
const orchestrator = new Orchestrator({ roles, store });
if (options.engine.name === "none") await serveAlone(options.engine.starts);
else await orchestrator.startWorker(engineOf(options.engine), { sweepIntervalMs: 500 });
process.send?.("serves");

/** Starts the runs that do not exist yet, and resumes the others. */
async function serveAlone(starts: readonly string[]): Promise<void> {
  const known = new Set((await store.list()).map(({ runId }) => String(runId)));
  for (const role of roles)
    for (const runId of starts.filter((one) => one.startsWith(role.name) && !known.has(one)))
      orchestrator.start(role, "Go.", { runId }).result.catch(() => undefined);
  await orchestrator.resumeLostRuns();
}

function engineOf(
  engine: Exclude<PoisonWorkerOptions["engine"], { readonly name: "none" }>,
): Engine {
  switch (engine.name) {
    case "store":
      return storeEngine();
    case "pg-boss":
      return pgBossEngine({
        connectionString: engine.connectionString,
        schema: engine.jobs,
        pollIntervalMs: 100,
      });
    case "restate": {
      const { ingressUrl, adminUrl, port } = engine;
      return restateEngine({ ingressUrl, adminUrl, port });
    }
  }
}
