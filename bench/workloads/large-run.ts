// A large run in an SQLite file, for what reads journals: three levels of subagents, about three steps each, tools that fail, agents that fail, and
// refusals. No network, no chance: the same run each time, but for its times and ids.
// `node --conditions=@espalier/source bench/workloads/large-run.ts <file> [agents]`: makes it, and prints its id.

import { rmSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { pathToFileURL } from "node:url";

import { defineAgent, defineTool, Orchestrator, ModelError, type Model } from "espalier";
import type { ModelReply } from "espalier/extend";
import { sqliteStore } from "espalier/store/sqlite";
import { ScriptedModel, type ScriptedCall } from "espalier/testing";
import { z } from "zod";

const MOST_AREAS = 20;
/** In all, where there are fewer areas than that. */
const AGENTS_PER_AREA = 250;
const PARTS_PER_AREA = 11;
/** Each of these pieces fails, asks a tool for what is not there, or is one more than its leader may start. */
const EVERY = { failedAgent: 97, failedCall: 23, refused: 10 };

/** Text as tools give it: some of it the same for many, most of it not. */
function page(name: string): string {
  const lines = Array.from(
    { length: 12 },
    (_, at) => `${name}:${at} export const value${at} = ${at * 7};`,
  );
  return `// The same licence stands at the head of each of these files, and is long enough to be kept once only: ${"all rights reserved. ".repeat(8)}\n${lines.join("\n")}`;
}

const read = defineTool({
  name: "read",
  description: "Reads a file.",
  inputSchema: z.object({ path: z.string() }),
  execute: async ({ path }) => {
    await nextTurn();
    if (path.endsWith("missing")) throw new Error(`ENOENT: no such file, open ${path}`);
    return page(path);
  },
});

const search = defineTool({
  name: "search",
  description: "Searches the files.",
  inputSchema: z.object({ words: z.string() }),
  execute: async ({ words }) => {
    await nextTurn();
    return `${words}: found in 3 files`;
  },
});

/** A model that replies according to its messages, some turns later. */
function model(id: string, reply: (task: string, step: number) => ReplyOf): Model {
  const scripted = new ScriptedModel(
    ({ messages }) => {
      const task = messages.find(({ role }) => role === "user")?.text ?? "";
      const steps = messages.filter(({ role }) => role === "assistant").length;
      return reply(task, steps + 1);
    },
    {
      id,
      price: { inputUsdPerMillion: 1, outputUsdPerMillion: 2 },
      countTokens: ({ messages }) => messages.length * 120,
    },
  );
  let calls = 0;
  return {
    provider: scripted.provider,
    id,
    price: { inputUsdPerMillion: 1, outputUsdPerMillion: 2 },
    countTokens: ({ messages }) => messages.length * 120,
    generate: async (request, options): Promise<ModelReply> => {
      calls += 1;
      for (let turn = (calls * 7) % 11; turn >= 0; turn -= 1) await nextTurn();
      const answer = await scripted.generate(request, options);
      scripted.requests.length = 0; // They are not looked at.
      return answer;
    },
  };
}

type ReplyOf =
  | { readonly text: string }
  | { readonly calls: readonly ScriptedCall[] }
  | { readonly error: Error };

/** The number at the end of a task. */
function numberIn(task: string): number {
  return Number(/\d+$/.exec(task)?.[0] ?? 0);
}

function spawns(role: string, count: number, from: number): readonly ScriptedCall[] {
  return Array.from({ length: count }, (_, at) => ({
    toolName: "SpawnSubagent",
    arguments: { role, task: `Look at ${role} number ${from + at}` },
  }));
}

function rolesFor(areas: number, leavesPerPart: number) {
  const leaf = defineAgent({
    name: "leaf",
    description: "Looks at one file",
    instructions: "You look at one file and say what it is for.",
    tools: [read, search],
    model: model("leaf", (task, step) => {
      const number = numberIn(task);
      if (number % EVERY.failedAgent === 0 && step === 2)
        return {
          error: new ModelError({
            code: "model_invalid_request",
            message: "The provider refused the request.",
          }),
        };
      if (step === 3)
        return {
          text: `File ${number} holds twelve values. ${"They are used elsewhere. ".repeat(number % 9)}`,
        };
      const path =
        number % EVERY.failedCall === 0 && step === 2 ? "missing" : `src/${number}-${step}.ts`;
      return {
        calls: [
          { toolName: "read", arguments: { path } },
          { toolName: "search", arguments: { words: `value${number}` } },
        ],
      };
    }),
  });
  const part = defineAgent({
    name: "part",
    description: "Looks at one folder",
    instructions: "You look at one folder, by subagents.",
    tools: [read],
    subagents: [leaf],
    model: model("part", (task, step) => {
      const number = numberIn(task);
      if (step === 1)
        return { calls: [{ toolName: "read", arguments: { path: `part-${number}` } }] };
      const extra = number % EVERY.refused === 0 ? 1 : 0;
      return step === 2
        ? { calls: spawns("leaf", leavesPerPart + extra, number * leavesPerPart + 1) }
        : { text: `Folder ${number} holds ${leavesPerPart} files.` };
    }),
  });
  const area = defineAgent({
    name: "area",
    description: "Looks at one package",
    instructions: "You look at one package, by subagents.",
    tools: [search],
    subagents: [part],
    model: model("area", (task, step) => {
      const number = numberIn(task);
      if (step === 1)
        return { calls: [{ toolName: "search", arguments: { words: `area${number}` } }] };
      return step === 2
        ? { calls: spawns("part", PARTS_PER_AREA, number * PARTS_PER_AREA) }
        : { text: `Package ${number} holds ${PARTS_PER_AREA} folders.` };
    }),
  });
  return defineAgent({
    name: "lead",
    instructions: "You survey the code, by subagents.",
    subagents: [area],
    model: model("lead", (_task, step) =>
      step === 1
        ? { calls: spawns("area", areas, 0) }
        : { text: `The code holds ${areas} packages.` },
    ),
  });
}

/** Makes a run of about so many agents in a new file. Gives its id. */
export async function makeLargeRun(path: string, agents = 5_000): Promise<string> {
  const areas = Math.min(MOST_AREAS, Math.max(1, Math.round(agents / AGENTS_PER_AREA)));
  const leaves = agents - 1 - areas - areas * PARTS_PER_AREA;
  const leavesPerPart = Math.max(1, Math.round(leaves / (areas * PARTS_PER_AREA)));
  for (const end of ["", "-wal", "-shm"]) rmSync(`${path}${end}`, { force: true });
  const store = sqliteStore(path, { durability: "process" });
  const orchestrator = new Orchestrator({
    store,
    limits: {
      maxDepth: 3,
      maxBreadthPerParent: Math.max(leavesPerPart, MOST_AREAS),
      maxTotalSubagents: agents * 2,
    },
  });
  const run = orchestrator.start(rolesFor(areas, leavesPerPart), "Survey the code.", {
    budget: { totalTokens: 1e9, steps: 1e6, costUsd: 1e4 },
  });
  const { status, reason } = await run.result;
  await store.close();
  if (status !== "completed")
    throw new Error(`Expected a run that completes, got ${status}: ${reason.message}`);
  return run.runId;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const [path, agents] = process.argv.slice(2);
  if (path === undefined) throw new Error("Expected a file to make the run in.");
  console.log(await makeLargeRun(path, agents === undefined ? undefined : Number(agents)));
}
