// `npm run check:sdks`: runs a small tree with the built package in every set-up of OpenTelemetry that we promise, each installed as a
// user would install it, and compares what arrives at an OTLP endpoint. Needs a build. `npm run check:sdks -- v3` runs that one only.

import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";

import { z } from "zod";

import type { SinkSpan } from "../test/support/otlp-schema.ts";
import { OtlpSink, type SinkRequest } from "../test/support/otlp-sink.ts";
import { spanTree } from "../test/support/telemetry/span-tree.ts";

const INSTALL_MS = 240_000;
const RUN_MS = 30_000;
const NPM = process.env["npm_execpath"];
const QUIET = ["--ignore-scripts", "--prefer-offline", "--loglevel=error"];

interface Case {
  readonly contentTypes: readonly string[];
  /** What arrives. */
  readonly isTraced: boolean;
  readonly warnings: readonly RegExp[];
}

const CASES: Readonly<Record<string, Case>> = {
  none: { contentTypes: [], isTraced: false, warnings: [] },
  v2: { contentTypes: ["application/json"], isTraced: true, warnings: [] },
  v3: { contentTypes: ["application/json"], isTraced: true, warnings: [] },
  "app-provider": { contentTypes: ["application/x-protobuf"], isTraced: true, warnings: [] },
  "mixed-api": {
    contentTypes: [],
    isTraced: false,
    warnings: [
      /got two: .* with version 1\.9\.1, .* version 1\.10\.0, .*npm ls @opentelemetry\/api/,
    ],
  },
};

const TREE = `
invoke_workflow lead
  invoke_agent lead
    chat scripted
    spawn reader#1
      invoke_agent reader#1
        chat scripted
        execute_tool search
        chat scripted
    chat scripted
`.trim();

/** What a program prints. */
const FactsSchema = z.object({
  status: z.literal("completed"),
  traceIds: z.tuple([z.string().regex(/^(?!0{32})[0-9a-f]{32}$/)]),
  toolSpanId: z.string().regex(/^(?!0{16})[0-9a-f]{16}$/),
  seenByTool: z.string().nullable(),
});

type Facts = z.infer<typeof FactsSchema>;

const EVENT_SEQ = "espalier.event.seq";

const selected = process.argv.slice(2);
const names = selected.length === 0 ? Object.keys(CASES) : selected;
const place = mkdtempSync(join(tmpdir(), "sdk-matrix-"));
try {
  const tarball = await pack();
  // Two at once: an install waits for the disk, a run for the machine.
  const rest = [...names];
  const lane = async (): Promise<void> => {
    for (let name = rest.shift(); name !== undefined; name = rest.shift())
      await checked(name, tarball);
  };
  await Promise.allSettled([lane(), lane()]);
} finally {
  rmSync(place, { recursive: true, force: true });
}

async function pack(): Promise<string> {
  await npm(["run", "pack", "--", place], process.cwd());
  const file = readdirSync(place).find((name) => name.endsWith(".tgz"));
  if (file === undefined) throw new Error("Expected npm run pack to make a tarball, found none.");
  return join(place, file);
}

/** One that breaks is named, and the others continue. */
async function checked(name: string, tarball: string): Promise<void> {
  try {
    await check(name, tarball);
  } catch (cause) {
    console.log(`FAILED ${name}`);
    console.error({ name, cause });
    process.exitCode = 1;
  }
}

async function check(name: string, tarball: string): Promise<void> {
  const wanted = CASES[name];
  if (wanted === undefined) throw new Error(`Expected one of ${Object.keys(CASES).join(", ")}.`);
  const folder = join(place, name);
  cpSync(join("test/sdk", name), folder, { recursive: true });
  for (const file of ["test/sdk/small-tree.mjs", ".npmrc"]) {
    cpSync(file, join(folder, file.split("/").at(-1) ?? file));
  }
  await npm(["ci"], folder);
  await npm(["install", "--no-save", tarball], folder);
  if (name === "mixed-api") giveOwnApi(folder);

  await using sink = await OtlpSink.open();
  const { code, stdout, stderr } = await bounded(process.execPath, ["program.mjs"], {
    cwd: folder,
    env: { ...plainEnvironment(), OTEL_EXPORTER_OTLP_ENDPOINT: sink.endpoint },
    timeoutMs: RUN_MS,
  });
  const got = { code, ...factsOf(sink, stdout, wanted), ...warningsIn(stderr, wanted) };
  const expected = { code: 0, problems: [], unexpectedOutput: [] };
  const isRight = isDeepStrictEqual(got, expected);
  console.log(`${isRight ? "ok    " : "FAILED"} ${name}`);
  if (isRight) return;
  console.error({ name, ...got, stdout, stderr });
  process.exitCode = 1;
}

/** Without what would set up tracing, or Node, in another way than the case. */
function plainEnvironment(): NodeJS.ProcessEnv {
  const names = Object.keys(process.env).filter(
    (name) => !name.startsWith("OTEL_") && name !== "NODE_OPTIONS",
  );
  return Object.fromEntries(names.map((name) => [name, process.env[name]]));
}

/** As npm does it where the versions that two packages allow have nothing in common. */
function giveOwnApi(folder: string): void {
  const own = join(folder, "node_modules/espalier/node_modules/@opentelemetry");
  mkdirSync(own, { recursive: true });
  renameSync(join(folder, "node_modules/newer-api"), join(own, "api"));
}

function factsOf(
  sink: OtlpSink,
  stdout: string,
  { isTraced, contentTypes }: Case,
): { readonly problems: readonly string[] } {
  const problems: string[] = [];
  const facts: Facts[] = [];
  for (const line of stdout.trim().split("\n")) {
    const read = FactsSchema.safeParse(parsed(line));
    if (read.success) facts.push(read.data);
    else problems.push(`printed ${JSON.stringify(line)}: ${z.prettifyError(read.error)}`);
  }
  const expect = (subject: string, got: unknown, expected: unknown): void => {
    if (!isDeepStrictEqual(got, expected))
      problems.push(`${subject}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(got)}`);
  };
  const types = sink.requests.map(({ contentType }: SinkRequest) => contentType);
  expect("content types", [...new Set(types)], contentTypes);
  const trees = [...sink.traces().values()].map(treeOf);
  expect("trees", trees, isTraced ? [TREE] : []);
  expect(
    "traces",
    [...sink.traces().keys()],
    isTraced ? facts.flatMap((fact) => fact.traceIds) : [],
  );
  for (const { seenByTool, toolSpanId } of facts)
    expect("span seen by the tool", seenByTool, isTraced ? toolSpanId : null);
  return { problems };
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** Names alone, in the order of the event log: two spans may begin within the same millisecond. */
function treeOf(spans: readonly SinkSpan[]): string {
  const inOrder = spans.map((span) => ({ ...span, startMs: Number(span.attributes[EVENT_SEQ]) }));
  return spanTree(inOrder, { originMs: 0, attributes: [] }).replaceAll(/ -?\d+[^\n]*$/gm, "");
}

function warningsIn(
  stderr: string,
  { warnings }: Case,
): { readonly unexpectedOutput: readonly string[] } {
  const lines = stderr
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("(Use `node --trace-warnings"));
  const isAsWanted =
    lines.length === warnings.length && lines.every((line, at) => warnings[at]?.test(line));
  return { unexpectedOutput: isAsWanted ? [] : lines.length === 0 ? ["no warning"] : lines };
}

async function npm(words: readonly string[], cwd: string): Promise<void> {
  const args = [...words, ...QUIET];
  const [command, ...rest] =
    NPM === undefined ? ["npm", ...args] : [process.execPath, NPM, ...args];
  const { code, stderr } = await bounded(command ?? "npm", rest, {
    cwd,
    env: plainEnvironment(),
    timeoutMs: INSTALL_MS,
  });
  if (code !== 0)
    throw new Error(`Expected npm ${words.join(" ")} to succeed, got ${code}:\n${stderr}`);
}

interface Bounds {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  readonly timeoutMs: number;
}

interface Ending {
  /** Null if it was ended because it took too long. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function bounded(
  command: string,
  args: readonly string[],
  { cwd, env, timeoutMs }: Bounds,
): Promise<Ending> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, env, timeout: timeoutMs, killSignal: "SIGKILL" });
    const output = { stdout: "", stderr: "" };
    child.stdout.on("data", (data: Buffer) => (output.stdout += data.toString()));
    child.stderr.on("data", (data: Buffer) => (output.stderr += data.toString()));
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, ...output }));
  });
}
