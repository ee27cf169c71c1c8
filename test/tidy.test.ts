// Goal: what the linter cannot say about style holds all the same.
// Method: read the sources as text.

import { globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

const sources = globSync("src/**/*.ts").map((file) => ({ file, text: readFileSync(file, "utf8") }));

test("nothing in the core speaks of OpenTelemetry's packages", () => {
  const outer = ["src/telemetry/", "src/mcp/", "src/cli/"];
  const core = sources.filter(({ file }) => !outer.some((folder) => file.startsWith(folder)));
  expect(
    core.filter(({ text }) => text.includes("@opentelemetry/")).map(({ file }) => file),
  ).toEqual([]);
});

function agentFilesWith(word: RegExp): readonly string[] {
  const agent = sources.filter(({ file }) => file.startsWith("src/agent/"));
  return agent.filter(({ text }) => word.test(text)).map(({ file }) => file);
}

test("L1: stop signals from outside are read in one place, and only the loop asks for it", () => {
  expect(agentFilesWith(/\.takeStopRequests\(/)).toEqual(["src/agent/stop-requests.ts"]);
  expect(agentFilesWith(/\bhandle(Stop)?Requests\(agent, /)).toEqual([
    "src/agent/life-cycle.ts", // what came while its subagents ended
    "src/agent/run-agent.ts",
    "src/agent/stop-requests.ts", // where the signals are handled first, and the request to pause after them
  ]);
});

test("an agent reads its in-flight work in five files, and knows no journal", () => {
  expect(agentFilesWith(/\?\.inFlight\b/)).toEqual([
    "src/agent/agent-runtime.ts",
    "src/agent/model-call.ts",
    "src/agent/tool-calls/delegate.ts",
    "src/agent/phases/admit-calls.ts",
    "src/agent/phases/execute-tools.ts",
  ]);
  expect(
    agentFilesWith(/[cC]atchingUp|hadBegun|journal\b\??\.|[lL]ogged\b|"adopted"|[rR]ecovered\b/),
  ).toEqual(["src/agent/agent-runtime.ts", "src/agent/persistence.ts"]);
});

test("what is made for each call, agent or run has no getters of its own: what they close over stays until a full garbage collection", () => {
  // Members of a class stand two columns in; deeper in is the getter of an object, made anew with each.
  const folders = /^src\/(agent|hooks|kernel|orchestrator|policies|protocol|tools)\//;
  const own = sources.filter(
    ({ file, text }) => folders.test(file) && /^ {3,}get \w+\(/m.test(text),
  );
  expect(own.map(({ file }) => file)).toEqual([]);
});

test("a schema that is checked against an interface is compared with it, in both directions", () => {
  const compared = readFileSync("test/types/schemas.test-d.ts", "utf8");
  const checked = sources.flatMap(({ text }) =>
    [...text.matchAll(/^export const (\w+Schema)\b[^;]*? satisfies (?:\(\) => )?z\./gm)].map(
      ([, name]) => name,
    ),
  );
  expect(checked.length).toBeGreaterThan(35);
  expect(checked.filter((name) => !compared.includes(`typeof ${name}>`))).toEqual([]);
});

test("a file with a class says first what the class owns", () => {
  const stateful = sources.filter(({ text }) => /^export class (?!\w*Error\b)/m.test(text));
  const silent = stateful.filter(
    ({ text }) => !/^\/\/ |^export class .*\n|^\/\*\*/m.test(text.split("export class")[0] ?? ""),
  );
  expect(silent.map(({ file }) => file)).toEqual([]);
});

test("no file is named after nothing, and nothing is left open", () => {
  expect(
    sources.filter(({ file }) => /\/(utils?|helpers?|common|types|misc)\.ts$/.test(file)),
  ).toEqual([]);
  expect(
    sources.filter(({ text }) => /\b(TODO|FIXME|XXX)\b/.test(text)).map(({ file }) => file),
  ).toEqual([]);
});

test("hooks of tests are registered by test files: a module that they share would register its own for the first of them only", () => {
  const shared = globSync("test/**/*.ts", { exclude: ["test/**/*.test.ts"] });
  const registering = shared.filter((file) =>
    /^(before|after)(Each|All)\(/m.test(readFileSync(file, "utf8")),
  );
  expect(registering).toEqual(["test/harness/set-up.ts"]);
});

test("every function, class and type that users can import is documented", () => {
  for (const report of globSync("etc/*.api.md")) {
    const text = readFileSync(report, "utf8");
    const exported = [
      ...text.matchAll(/^\/\/ @public(.*)\nexport (?:declare )?(?:abstract )?\w+ (\w+)/gm),
    ];
    const documented = new Set(exported.flatMap(([, note, name]) => (note === "" ? [name] : [])));
    const bare = exported.flatMap(([, , name]) => (documented.has(name) ? [] : [name]));
    expect([report, bare]).toEqual([report, []]);
  }
});

test("one source file says the version, and it is that of the manifest", () => {
  const [, version = ""] = /"version": "([^"]+)"/.exec(readFileSync("package.json", "utf8")) ?? [];
  const saying = sources.filter(({ text }) => text.includes(`"${version}"`));
  expect(saying.map(({ file }) => file)).toEqual(["src/kernel/own-package.ts"]);
});

/** Adapters of one port have parts of the same names: no file imports from two of them. */
const PARALLEL_FOLDERS = [
  ["src/store/sqlite/", "src/store/postgres/"],
  ["src/model/openai/", "src/model/ai-sdk/"],
] as const;

/** Files that have each a part of one name, by which they are all used. */
const COMMANDS = "src/cli/commands/";

/** True if each file is in another one of parallel folders, or is the file of a command. */
function areParallel(files: readonly string[]): boolean {
  if (files.every((file) => file.startsWith(COMMANDS))) return true;
  return PARALLEL_FOLDERS.some((folders) => {
    const used = files.map((file) => folders.findIndex((folder) => file.startsWith(folder)));
    return !used.includes(-1) && new Set(used).size === files.length;
  });
}

/** The keys that more than one file has, but for parallel adapters. */
function sharedKeys(keysOf: (source: (typeof sources)[number]) => readonly string[]) {
  const filesByKey = new Map<string, string[]>();
  for (const source of sources)
    for (const key of keysOf(source))
      filesByKey.set(key, [...(filesByKey.get(key) ?? []), source.file]);
  return [...filesByKey].filter(([, files]) => files.length > 1 && !areParallel(files));
}

test("no two source files have one name, and no name is exported from two", () => {
  // Entries of the package are imported by the name of the package.
  expect(
    sharedKeys(({ file }) => (file.endsWith("/index.ts") ? [] : [file.replace(/^.*\//, "")])),
  ).toEqual([]);
  const declared =
    /^export (?:abstract )?(?:async )?(?:function\*?|const|class|interface|type) (\w+)/gm;
  expect(
    sharedKeys(({ text }) => [
      ...new Set([...text.matchAll(declared)].map(([, name = ""]) => name)),
    ]),
  ).toEqual([]);
});
