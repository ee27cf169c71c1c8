// `npm run path`: what one run passes through, as V8 counts it.
//
// Three programs: `cold` is the first run of the process (a lead starts one subagent, which calls one tool;
// both answer), `warm` the same once more, and `single` one agent that answers without a tool. They run
// without store, hooks, OpenTelemetry and session; with `--observed` they are traced by OpenTelemetry and
// stored in memory. `frames` are the stack frames between the loop (`runAgent`) and the model, the tool,
// and the first check of the spawn limits. `coldOnly` are files that only the cold run enters.
// With `--functions` every function of the warm run is listed.

import { readFileSync } from "node:fs";
import { Session, type Profiler } from "node:inspector/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

import {
  InMemorySpanExporter,
  NodeTracerProvider,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-node";

import type { AgentRole } from "espalier";
import type { GenerateOptions, ModelReply, ModelRequest } from "espalier/extend";

const root = path.resolve(import.meta.dirname, "..");
const isObserved = process.argv.includes("--observed");
const NO_RANGE = { count: 0, startOffset: 0, endOffset: 0 };

// Time stands still: on a busy machine more figures of a journal would differ from those before them.
const nowMs = Date.now();
Date.now = () => nowMs;
performance.now = () => 0;

const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

const { z } = await import("zod");
const { defineAgent, defineTool, memoryStore, Orchestrator } = await import("espalier");
const { openTelemetry } = await import("espalier/otel");
const { ScriptedModel, asks, says } = await import("espalier/testing");
const { checkSubagentLimits } = await import("../src/policies/subagent-limits.ts");

/** Deep enough for any stack of a run: the default of ten frames hides the loop. */
Error.stackTraceLimit = 200;
const frames: { model?: number; tool?: number; limits?: number } = {};

class SeenModel extends ScriptedModel {
  override async generate(request: ModelRequest, options: GenerateOptions): Promise<ModelReply> {
    frames.model ??= framesFromLoop();
    return await super.generate(request, options);
  }
}

const look = defineTool({
  name: "look",
  description: "Looks.",
  inputSchema: z.object({ at: z.string() }),
  execute: ({ at }) => {
    frames.tool ??= framesFromLoop();
    return `seen ${at}`;
  },
});

await session.post("Debugger.enable");
await session.post("Runtime.enable");
Object.assign(globalThis, {
  checkSubagentLimits,
  noteLimits: () => {
    frames.limits ??= framesFromLoop() - 1; // Without the check itself.
    return false; // The condition of the breakpoint is never true: nothing pauses.
  },
});
const { result: checked } = await session.post("Runtime.evaluate", {
  expression: "checkSubagentLimits",
});
if (checked.objectId === undefined)
  throw new Error("Expected checkSubagentLimits to be a function.");
await session.post("Debugger.setBreakpointOnFunctionCall", {
  objectId: checked.objectId,
  condition: "noteLimits()",
});

const runTree = treeProgram();
const runSingle = singleProgram();
await takeCoverage(); // What importing and defining took is not the run's.
await runTree();
const cold = readCoverage(await takeCoverage());
await runTree();
const warm = readCoverage(await takeCoverage());
await runSingle();
await takeCoverage();
await runSingle();
const single = readCoverage(await takeCoverage());

console.log(
  JSON.stringify({
    cold: figuresOf(cold),
    warm: figuresOf(warm),
    single: figuresOf(single),
    frames,
    coldOnly: [...cold.keys()].filter((file) => !warm.has(file)).toSorted(),
  }),
);
const folders = Map.groupBy([...warm.keys()].toSorted(), (file) => path.dirname(file));
for (const [folder, files] of folders)
  console.log(folder, files.length, files.map((file) => path.basename(file)).join(" "));
if (process.argv.includes("--functions"))
  for (const [file, { entered }] of warm)
    for (const { name, start, end, calls } of entered)
      console.log(calls, `${file}:${start}-${end}`, name);

function treeProgram(): () => Promise<void> {
  const worker = defineAgent({
    name: "worker",
    description: "Looks at one thing",
    instructions: "Look.",
    model: new SeenModel(twice([asks("look", { at: "a" }), says("done")])),
    tools: [look],
  });
  const spawnCall = asks("SpawnSubagent", { role: "worker", task: "Look at a." });
  const lead = defineAgent({
    name: "lead",
    instructions: "Delegate.",
    model: new SeenModel(twice([spawnCall, says("all done")])),
    subagents: [worker],
  });
  return runnerOf(lead);
}

function singleProgram(): () => Promise<void> {
  return runnerOf(
    defineAgent({
      name: "single",
      instructions: "Answer.",
      model: new ScriptedModel(twice([says("all done")])),
    }),
  );
}

function runnerOf(role: AgentRole): () => Promise<void> {
  const orchestrator = new Orchestrator(isObserved ? observers() : {});
  return async () => {
    const budget = { totalTokens: 100_000 };
    const result = await orchestrator.start(role, "Find out.", { budget }).result;
    if (result.status !== "completed")
      throw new Error(`The run did not complete: ${JSON.stringify(result.reason)}`);
  };
}

function observers() {
  const spanProcessors = [new SimpleSpanProcessor(new InMemorySpanExporter())];
  const tracer = new NodeTracerProvider({ spanProcessors }).getTracer("run-path");
  return { store: memoryStore(), tracing: openTelemetry({ tracer }) };
}

function twice<Item>(items: readonly Item[]): Item[] {
  return [...items, ...items];
}

/** Returns how many frames of the library lie between the loop and the caller. */
function framesFromLoop(): number {
  const lines = (new Error("stack").stack ?? "").split("\n").slice(2);
  const loop = lines.findIndex((line) => line.includes(" runAgent "));
  if (loop === -1) throw new Error("Expected the loop (runAgent) in the stack. Keep its name.");
  const isOurs = (line: string): boolean =>
    /[\\/](?:src|dist)[\\/]/u.test(line) && !/[\\/]testing[\\/]|eval at/u.test(line);
  return lines.slice(0, loop).filter(isOurs).length;
}

interface FunctionRange {
  readonly name: string;
  readonly start: number;
  readonly end: number;
  readonly calls: number;
}

/** The functions of one file. */
interface FileCoverage {
  readonly entered: FunctionRange[];
  readonly idle: FunctionRange[];
}

async function takeCoverage(): Promise<readonly Profiler.ScriptCoverage[]> {
  return (await session.post("Profiler.takePreciseCoverage")).result;
}

/** Returns the functions of each file of the library that was entered; the scripted model is not of it. */
function readCoverage(
  scripts: readonly Profiler.ScriptCoverage[],
): ReadonlyMap<string, FileCoverage> {
  const files = new Map<string, FileCoverage>();
  for (const { url, functions } of scripts) {
    if (!url.startsWith("file:")) continue;
    const file = path.relative(root, fileURLToPath(url)).replaceAll("\\", "/");
    if (!/^(?:src|dist)\//u.test(file) || file.includes("/testing/")) continue;
    const coverage: FileCoverage = { entered: [], idle: [] };
    for (const { functionName: name, ranges } of functions) {
      const [{ count: calls, startOffset: start, endOffset: end } = NO_RANGE] = ranges;
      const isModule = name === "" && start === 0;
      if (!isModule)
        (calls > 0 ? coverage.entered : coverage.idle).push({ name, start, end, calls });
    }
    if (coverage.entered.length > 0) files.set(file, coverage);
  }
  return files;
}

function figuresOf(files: ReadonlyMap<string, FileCoverage>) {
  const figures = { files: files.size, functions: 0, namedOverThreeLines: 0, calls: 0, lines: 0 };
  for (const [file, coverage] of files) {
    const text = readFileSync(path.join(root, file), "utf8");
    const { entered } = coverage;
    figures.functions += entered.length;
    figures.calls += entered.reduce((sum, { calls }) => sum + calls, 0);
    figures.namedOverThreeLines += entered.filter((call) => isNamedAndLong(text, call)).length;
    figures.lines += enteredLines(text, coverage);
  }
  return figures;
}

function isNamedAndLong(text: string, { name, start, end }: FunctionRange): boolean {
  return name !== "" && !name.startsWith("<") && text.slice(start, end).split("\n").length > 3;
}

/** Returns how many lines of code lie within entered functions, without nested ones that were not entered. */
function enteredLines(text: string, { entered, idle }: FileCoverage): number {
  const isCode = codeLines(text);
  const lines = new Set<number>();
  for (const { start, end } of entered)
    for (let line = lineAt(text, start); line <= lineAt(text, end - 1); line += 1)
      if (isCode[line] === true) lines.add(line);
  for (const { start, end } of idle) {
    if (!entered.some((outer) => outer.start < start && end <= outer.end)) continue;
    for (let line = lineAt(text, start) + 1; line < lineAt(text, end - 1); line += 1)
      lines.delete(line);
  }
  return lines.size;
}

function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length - 1;
}

/** Returns for each line whether it holds more than a comment. */
function codeLines(text: string): readonly boolean[] {
  let isComment = false;
  return text.split("\n").map((line) => {
    const trimmed = line.trim();
    const begins = !isComment && trimmed.startsWith("/*");
    const wasComment = isComment || begins;
    if (wasComment) isComment = !trimmed.includes("*/");
    return !wasComment && trimmed !== "" && !trimmed.startsWith("//");
  });
}
