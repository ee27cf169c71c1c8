// One measurement of the journal in a fresh process: `journal-worker.ts <store> <steps> <delayMs>`. One agent of so many tool steps, with a
// model in the same process that takes so long for each reply. Prints as JSON what a step costs, and what its journal weighs.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";

import { z } from "zod";

import {
  CallIdSchema,
  defineAgent,
  defineTool,
  memoryStore,
  Orchestrator,
  type Model,
  type Store,
} from "espalier";
import { sqliteStore } from "espalier/store/sqlite";

const [kind, stepsText, delayText] = process.argv.slice(2);
const steps = Number(stepsText);
const delayMs = Number(delayText);
const folder = mkdtempSync(join(tmpdir(), "bench-journal-"));

function storeOf(name: string | undefined): Store | undefined {
  switch (name) {
    case "none":
      return undefined;
    case "memory":
      return memoryStore();
    case "SQLite":
      return sqliteStore(join(folder, "runs.db"));
    case "SQLite, kept for the process":
      return sqliteStore(join(folder, "runs.db"), { durability: "process" });
    default:
      throw new Error(`Expected a store, got ${name}.`);
  }
}

const add = defineTool({
  name: "add",
  description: "Adds two numbers.",
  input: z.object({ a: z.number(), b: z.number() }),
  execute: ({ a, b }) => `${a} and ${b} are ${a + b}. ${"That is what they are. ".repeat(20)}`,
});

const model: Model = {
  provider: "bench",
  id: "adder",
  generate: async ({ messages }) => {
    if (delayMs > 0) await pause(delayMs);
    const done = messages.filter(({ role }) => role === "tool").length;
    if (done === steps)
      return { message: { role: "assistant", text: "Done.", toolCalls: [] }, finishReason: "stop" };
    const callId = CallIdSchema.parse(`call_${done}`);
    const argumentsText = JSON.stringify({ a: done, b: 1 });
    const toolCalls = [{ callId, toolName: "add", argumentsText }];
    return { message: { role: "assistant", text: "", toolCalls }, finishReason: "tool_calls" };
  },
};

const role = defineAgent({ name: "adder", instructions: "You add.", model, tools: [add] });
const store = storeOf(kind);
const orchestrator = new Orchestrator(store === undefined ? {} : { store });
const run = async (): Promise<string> => {
  const started = orchestrator.start(role, "Add up.", { budget: { steps: steps + 1 } });
  const { status, reason } = await started.result;
  if (status !== "completed") throw new Error(reason.message);
  return started.runId;
};

// The same number of steps before and during each measurement, so that sizes can be compared.
const STEPS = Number(process.env["STEPS"] ?? 2_000);
const rounds = delayMs > 0 ? 1 : Math.max(1, Math.round(STEPS / steps));
for (let round = 0; round < rounds; round += 1) await run();
const cpuBefore = process.cpuUsage();
const startedAt = performance.now();
let runId = "";
for (let round = 0; round < rounds; round += 1) runId = await run();
const wallMs = performance.now() - startedAt;
const cpu = process.cpuUsage(cpuBefore);
let journalBytes = 0;
const [stored] = (await store?.list()) ?? [];
if (store !== undefined && stored?.runId === runId)
  for await (const record of store.read(stored.runId)) journalBytes += Buffer.byteLength(record);
await store?.close();
rmSync(folder, { recursive: true });
process.stdout.write(
  JSON.stringify({
    cpuUs: (cpu.user + cpu.system) / rounds / steps,
    wallUs: (wallMs * 1_000) / rounds / steps,
    bytes: journalBytes / steps,
  }),
);
