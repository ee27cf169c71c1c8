// `npm run path`: what one run passes through, as V8 counted it: files, their lines of code, functions and calls.
//
// The run: a lead starts one subagent, which calls one tool; both answer. No store, no hooks, no OpenTelemetry, no session. `start` is what
// `Orchestrator.start()` takes until the first model request is made, `run` the whole run, start included, and `before` what importing and
// defining took. Lines are lines of code, without comments and blanks. With `--functions` every function of the run is listed with its calls.

import { readFileSync } from "node:fs";
import { Session, type Profiler } from "node:inspector/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

import type { GenerateOptions, ModelReply, ModelRequest } from "espalier/extend";

type Scripts = readonly Profiler.ScriptCoverage[];

const root = path.resolve(import.meta.dirname, "..");
const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

const { z } = await import("zod");
const { defineAgent, defineTool, Orchestrator } = await import("espalier");
const { ScriptedModel, asks, says } = await import("espalier/testing");

let first: Scripts | undefined;

/** A scripted model whose first request ends the path of the start. */
class MarkedModel extends ScriptedModel {
  override async generate(request: ModelRequest, options: GenerateOptions): Promise<ModelReply> {
    first ??= await taken();
    return await super.generate(request, options);
  }
}

const look = defineTool({
  name: "look",
  description: "Looks.",
  input: z.object({ at: z.string() }),
  execute: ({ at }) => `seen ${at}`,
});
const worker = defineAgent({
  name: "worker",
  purpose: "Looks at one thing",
  instructions: "Look.",
  model: new MarkedModel([asks("look", { at: "a" }), says("done")]),
  tools: [look],
});
const lead = defineAgent({
  name: "lead",
  instructions: "Delegate.",
  model: new MarkedModel([
    asks("SpawnSubagent", { role: "worker", task: "Look at a." }),
    says("all done"),
  ]),
  subagents: [worker],
});
const before = await taken(); // What defining and importing took is not the run's.
const budget = { totalTokens: 100_000 };
const result = await new Orchestrator().start(lead, "Find out.", { budget }).result;
const rest = await taken();
if (result.status !== "completed" || first === undefined)
  throw new Error(`The run did not complete: ${JSON.stringify(result.reason)}`);

const whole = counted([...first, ...rest]);
console.log(
  JSON.stringify({
    start: figuresOf(counted(first)),
    run: figuresOf(whole),
    before: figuresOf(counted(before)),
  }),
);
const folders = Map.groupBy([...whole.files].toSorted(), (file) => path.dirname(file));
for (const [folder, files] of folders)
  console.log(folder, files.length, files.map((file) => path.basename(file)).join(" "));
if (process.argv.includes("--functions"))
  for (const [name, calls] of [...whole.functions].toSorted(([, left], [, right]) => right - left))
    console.log(calls, name);

async function taken(): Promise<Scripts> {
  return (await session.post("Profiler.takePreciseCoverage")).result;
}

interface Counted {
  readonly files: ReadonlySet<string>;
  /** Calls of each function, by its file, its place and its name. */
  readonly functions: ReadonlyMap<string, number>;
}

/** What of the library was called; the scripted model is not of it. */
function counted(scripts: Scripts): Counted {
  const files = new Set<string>();
  const functions = new Map<string, number>();
  for (const { url, functions: found } of scripts) {
    if (!url.startsWith("file:")) continue;
    const file = path.relative(root, fileURLToPath(url));
    if (!/^(src|dist)[\\/]/u.test(file) || /[\\/]testing[\\/]/u.test(file)) continue;
    for (const { functionName, ranges } of found) {
      const { count, startOffset } = ranges[0] ?? { count: 0, startOffset: 0 };
      const isModule = functionName === "" && startOffset === 0;
      if (count === 0 || isModule) continue;
      files.add(file);
      const name = `${file}:${startOffset} ${functionName}`;
      functions.set(name, (functions.get(name) ?? 0) + count);
    }
  }
  return { files, functions };
}

function figuresOf({ files, functions }: Counted): object {
  const lines = [...files].map((file) => codeLines(readFileSync(path.join(root, file), "utf8")));
  return {
    files: files.size,
    lines: lines.reduce((sum, count) => sum + count, 0),
    functions: functions.size,
    calls: [...functions.values()].reduce((sum, count) => sum + count, 0),
  };
}

/** Lines that hold more than a comment; a comment begins a line in this house. */
function codeLines(text: string): number {
  let isComment = false;
  return text.split("\n").filter((line) => {
    const trimmed = line.trim();
    const begins = !isComment && trimmed.startsWith("/*");
    const wasComment = isComment || begins;
    if (wasComment) isComment = !trimmed.includes("*/");
    return !wasComment && trimmed !== "" && !trimmed.startsWith("//");
  }).length;
}
