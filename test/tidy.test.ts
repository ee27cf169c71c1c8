// Goal: style rules that the linter cannot express hold.
// Method: read the sources as text.

import { existsSync, globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

const sources = globSync("src/**/*.ts").map((file) => ({ file, text: readFileSync(file, "utf8") }));

test("imports no OpenTelemetry package in the core", () => {
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

test("L1: reads external stop signals in one place, which only the loop calls", () => {
  expect(agentFilesWith(/\.takeStopRequests\(/)).toEqual(["src/agent/stop-requests.ts"]);
  expect(agentFilesWith(/\bhandle(Stop)?Requests\(agent, /)).toEqual([
    "src/agent/life-cycle.ts", // Signals that arrived while its subagents ended.
    "src/agent/run-agent.ts",
    "src/agent/stop-requests.ts", // Handles the signals first, and the request to pause afterwards.
  ]);
});

const invariants = readFileSync("docs/invariants.md", "utf8");
/** The rules with a label, by the label, such as "L3": a sentence, then the files that keep the rule. */
const rules = new Map(
  [...invariants.matchAll(/^- \*\*([A-Z]\d)\*\* ((?:.+\n| {2}.+\n)+?)(?=- |\n|$)/gm)].map(
    ([, label = "", text = ""]) => [label, text],
  ),
);

test("cites no label of a rule in a comment or message that docs/invariants.md does not define", () => {
  const words = new Set(["C0", "V8"]); // A segment of JPEG files, and the engine.
  const cited = sources.flatMap(({ file, text }) => {
    const comments = text.match(/^\s*(?:\/\/|\/?\*).*|\s\/\/ .*|["`][A-Z]\d: /gm) ?? [];
    const labels = comments.join("\n").match(/\b[A-Z]\d{1,2}\b/g) ?? [];
    return labels.filter((label) => !words.has(label)).map((label) => ({ file, label }));
  });
  expect(cited.length).toBeGreaterThan(50);
  expect(cited.filter(({ label }) => !rules.has(label))).toEqual([]);
});

test("names existing files for every rule in docs/invariants.md, and labels only rules that others cite", () => {
  expect(rules.size).toBeGreaterThan(25);
  const texts = globSync(["src/**/*.ts", "test/**/*.ts", "docs/*.md"], {
    exclude: ["docs/invariants.md", "test/requirements.ts"],
  }).map((file) => ({ file, text: readFileSync(file, "utf8") }));
  for (const [label, rule] of rules) {
    const named = [...rule.matchAll(/`([\w/.-]+\.ts)`/g)].map(([, path = ""]) =>
      path.startsWith("test/") ? path : `src/${path}`,
    );
    expect([label, named.length > 0, named.filter((path) => !existsSync(path))]).toEqual([
      label,
      true,
      [],
    ]);
    const cites = new RegExp(`\\b${label}\\b(?![.?]["\`)])`);
    const isDefinition = new RegExp(`^// ${label}\\. `, "m");
    const citing = texts.filter(({ text }) => cites.test(text) && !isDefinition.test(text));
    expect([label, citing.length > 0]).toEqual([label, true]);
  }
});

test("reads in-flight work in five files of the agent, without access to the journal", () => {
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

test("creates no object with getters per call, agent or run, since their closures stay until a full collection", () => {
  // Members of a class are indented by two columns; a deeper getter belongs to an object literal,
  // created again each time.
  const folders = /^src\/(agent|hooks|kernel|orchestrator|policies|protocol|tools)\//;
  const own = sources.filter(
    ({ file, text }) => folders.test(file) && /^ {3,}get \w+\(/m.test(text),
  );
  expect(own.map(({ file }) => file)).toEqual([]);
});

test("compares every schema with its interface in both directions", () => {
  const compared = readFileSync("test/types/schemas.test-d.ts", "utf8");
  const checked = sources.flatMap(({ text }) =>
    [...text.matchAll(/^export const (\w+Schema)\b[^;]*? satisfies (?:\(\) => )?z\./gm)].map(
      ([, name]) => name,
    ),
  );
  expect(checked.length).toBeGreaterThan(35);
  expect(checked.filter((name) => !compared.includes(`typeof ${name}>`))).toEqual([]);
});

test("begins every file with a class by describing the class", () => {
  const stateful = sources.filter(({ text }) => /^export class (?!\w*Error\b)/m.test(text));
  const silent = stateful.filter(
    ({ text }) => !/^\/\/ |^export class .*\n|^\/\*\*/m.test(text.split("export class")[0] ?? ""),
  );
  expect(silent.map(({ file }) => file)).toEqual([]);
});

test("assigns a default in a statement of its own, not inside an expression", () => {
  // The linter has rules for other assignments in expressions, but none for `(map ??= new Map()).set(…)`.
  const inExpression = /^(?! *(?:\*|\/)).*[(,=:?] ?[\w.#]+ (?:\?\?|\|\||&&)= /m;
  const files = sources.filter(({ text }) => inExpression.test(text)).map(({ file }) => file);
  expect(files).toEqual([]);
});

test("has no file with a vague name and no TODO", () => {
  expect(
    sources.filter(({ file }) => /\/(utils?|helpers?|common|types|misc)\.ts$/.test(file)),
  ).toEqual([]);
  expect(
    sources.filter(({ text }) => /\b(TODO|FIXME|XXX)\b/.test(text)).map(({ file }) => file),
  ).toEqual([]);
});

test("registers test hooks in no shared module, where they would apply to the first test file only", () => {
  const shared = globSync("test/**/*.ts", { exclude: ["test/**/*.test.ts"] });
  const registering = shared.filter((file) =>
    /^(before|after)(Each|All)\(/m.test(readFileSync(file, "utf8")),
  );
  expect(registering).toEqual(["test/harness/set-up.ts"]);
});

test("documents every public function, class and type", () => {
  const reports = globSync("api-reports/*.api.md");
  expect(reports.length).toBeGreaterThan(10);
  for (const report of reports) {
    const text = readFileSync(report, "utf8");
    const exported = [
      ...text.matchAll(/^\/\/ @public(.*)\nexport (?:declare )?(?:abstract )?\w+ (\w+)/gm),
    ];
    const documented = new Set(exported.flatMap(([, note, name]) => (note === "" ? [name] : [])));
    const bare = exported.flatMap(([, , name]) => (documented.has(name) ? [] : [name]));
    expect([report, bare]).toEqual([report, []]);
  }
});

test("states the version in one source file, equal to the manifest", () => {
  const [, version = ""] = /"version": "([^"]+)"/.exec(readFileSync("package.json", "utf8")) ?? [];
  const saying = sources.filter(({ text }) => text.includes(`"${version}"`));
  expect(saying.map(({ file }) => file)).toEqual(["src/kernel/own-package.ts"]);
});

/** Adapters of one port have parts with the same names: no file imports from two of them. */
const PARALLEL_FOLDERS = [
  ["src/store/sqlite/", "src/store/postgres/"],
  ["src/model/openai/", "src/model/ai-sdk/"],
] as const;

/** Files that each have a part of one name, by which they are all used. */
const COMMANDS = "src/cli/commands/";

/** True if each file is in another one of parallel folders, or is the file of a command. */
function areParallel(files: readonly string[]): boolean {
  if (files.every((file) => file.startsWith(COMMANDS))) return true;
  return PARALLEL_FOLDERS.some((folders) => {
    const used = files.map((file) => folders.findIndex((folder) => file.startsWith(folder)));
    return !used.includes(-1) && new Set(used).size === files.length;
  });
}

/** Returns the keys that more than one file has, except for parallel adapters. */
function sharedKeys(keysOf: (source: (typeof sources)[number]) => readonly string[]) {
  const filesByKey = new Map<string, string[]>();
  for (const source of sources)
    for (const key of keysOf(source))
      filesByKey.set(key, [...(filesByKey.get(key) ?? []), source.file]);
  return [...filesByKey].filter(([, files]) => files.length > 1 && !areParallel(files));
}

test("gives every source file and every export a unique name", () => {
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

/** Folders of tests that belong to no single source file; test/README.md describes them. */
const SUITES =
  /^test\/(behaviour|bundles|docs|examples|harness|package|page|stress|support|types)\//;

/** Returns the sources that a unit test may belong to: `a-b.test.ts` tests `a-b.ts` or `a.ts`. */
function possibleSources(file: string): readonly string[] {
  const words = file.replace(/^test\//, "src/").replace(/(\.property)?\.test\.ts$/, "");
  const [, folder = "", name = ""] = /^(.*\/)(.*)$/.exec(words) ?? [];
  const parts = name.split("-");
  return parts.map((_part, at) => `${folder}${parts.slice(0, at + 1).join("-")}.ts`);
}

test("finds the source file of every unit test at the same path", () => {
  const units = globSync("test/*/**/*.test.ts").filter((file) => !SUITES.test(file));
  expect(units.length).toBeGreaterThan(200);
  expect(units.filter((file) => !possibleSources(file).some(existsSync))).toEqual([]);
});

test("finds every behaviour suite in the folder of a topic", () => {
  const suites = globSync("test/behaviour/**/*.test.ts");
  expect(suites.length).toBeGreaterThan(200);
  expect(suites.filter((file) => !/^test\/behaviour\/[^/]+\/[^/]+$/.test(file))).toEqual([]);
});

test("finds a test file for every pattern in the lists of vitest.config.ts", () => {
  const patterns = [
    ...readFileSync("vitest.config.ts", "utf8").matchAll(/^ {2}"(test\/.+)",$/gm),
  ].map(([, pattern = ""]) => pattern);
  expect(patterns.length).toBeGreaterThan(50);
  expect(patterns.filter((pattern) => globSync(pattern).length === 0)).toEqual([]);
});

test("keeps the demo within 500 code lines", () => {
  const demo = sources.filter(({ file }) =>
    /cli\/(?:survey\/|demo-story|commands\/demo-)/.test(file),
  );
  const lines = demo.flatMap(({ text }) => text.split("\n"));
  const code = lines.filter((line) => !/^\s*(?:\/\/|\*|\/\*|$)/.test(line));
  expect(code.length).toBeGreaterThan(400);
  expect(code.length).toBeLessThanOrEqual(500);
});
