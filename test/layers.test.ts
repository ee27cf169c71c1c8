// Goal: imports, type imports included, run only downwards, whatever the linter makes of its
// patterns, and the linter has the same table.
// Method: read the imports of all sources as text.

import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path/posix";

import { expect, test } from "vitest";
import { z } from "zod";

const VOCABULARY = ["kernel", "protocol"];
const AGENT = ["agent", "agent/phases", "agent/tool-calls"];
const TOOLS = ["tools", "tools/arguments", "tools/wrappers"];
const BELOW_AGENT = [
  ...VOCABULARY,
  "policies",
  "model",
  "budget",
  ...TOOLS,
  "hooks",
  "run-services",
];
const BELOW_TREE = [...BELOW_AGENT, ...AGENT, "store", "engine"];
const ORCHESTRATOR = ["sessions", "durability", "tree", "run"].map(
  (folder) => `orchestrator/${folder}`,
);
const TELEMETRY = ["", "/delivery", "/metrics", "/spans"].map((folder) => `telemetry${folder}`);

/**
 * The permitted imports of each folder besides itself: folders without their subfolders, and single
 * files. The first row is that of the entries.
 */
const allowed: Readonly<Record<string, readonly string[]>> = {
  "": [...BELOW_TREE, "model/openai", "orchestrator", ...ORCHESTRATOR, "read-model"],
  kernel: [],
  protocol: ["kernel"],
  policies: VOCABULARY,
  model: VOCABULARY,
  budget: [...VOCABULARY, "policies", "model"],
  "model/openai": [...VOCABULARY, "model"],
  "model/ai-sdk": [...VOCABULARY, "model"],
  "model/genai-prices": [...VOCABULARY, "model"],
  "tools/arguments": VOCABULARY,
  tools: [...VOCABULARY, "model", "tools/arguments"],
  "tools/wrappers": [...VOCABULARY, "tools", "tools/arguments"],
  hooks: [...VOCABULARY, "model"],
  "run-services": [...VOCABULARY, "model"],
  store: VOCABULARY,
  engine: [...VOCABULARY, "store"],
  "engine/restate": [...VOCABULARY, "engine"],
  "engine/pg-boss": [...VOCABULARY, "engine"],
  "store/sqlite": [...VOCABULARY, "store"],
  "store/postgres": [...VOCABULARY, "store"],
  ...Object.fromEntries(
    AGENT.map((folder) => [folder, [...BELOW_AGENT, ...others(AGENT, folder)]]),
  ),
  ...Object.fromEntries(
    ORCHESTRATOR.map((folder, level) => [folder, [...BELOW_TREE, ...ORCHESTRATOR.slice(0, level)]]),
  ),
  orchestrator: [...BELOW_TREE, ...ORCHESTRATOR],
  ...Object.fromEntries(
    TELEMETRY.map((folder) => [folder, [...VOCABULARY, ...others(TELEMETRY, folder)]]),
  ),
  roles: [...VOCABULARY, "policies", "model", ...TOOLS, ...AGENT],
  mcp: [...VOCABULARY, ...TOOLS],
  tokens: [...VOCABULARY, "model"],
  testing: [...BELOW_TREE, "orchestrator", "orchestrator/run", "testing/replay"],
  "testing/replay": [...BELOW_TREE, "orchestrator", ...ORCHESTRATOR, "testing"],
  "read-model": VOCABULARY,
  "viewer-server": [
    ...VOCABULARY,
    "agent",
    "store",
    "read-model",
    "orchestrator",
    "orchestrator/durability",
    "orchestrator/run",
  ],
  terminal: ["index.ts", "extend.ts", "read-model"],
  config: [...VOCABULARY, "model", ...TOOLS, ...AGENT, "store", "orchestrator/tree"],
  // The command imports the package by its name, like a user's program; it shares drawing code with
  // the terminal view.
  cli: ["cli/commands", "read-model", "terminal"],
  "cli/commands": ["cli", "cli/survey", "read-model", "terminal"],
  "cli/survey": [],
};

/** Files that may import more than their folder, and why. */
const exceptions: Readonly<Record<string, readonly string[]>> = {
  // Reports option errors like all other entries; the view itself uses the public surface.
  "terminal/jaeger-links.ts": ["kernel"],
  // Not public: its recognition of secrets is a guess.
  "cli/print-error.ts": ["tools/redact-secrets.ts"],
};

/** Files that share their name with another, and why. */
const namesakes: readonly string[] = [
  "index.ts", // An entry whose package name is that of its folder.
];

const sources = globSync("**/*.ts", { cwd: "src" }).toSorted();

function others(folders: readonly string[], folder: string): readonly string[] {
  return folders.filter((other) => other !== folder);
}

/** Returns the folder of a source file, as in the table. */
function folderOf(file: string): string {
  const folder = dirname(file);
  return folder === "." ? "" : folder;
}

/**
 * Returns the sources that a text imports or exports from: by a statement, for its effect, in a
 * type, or dynamically.
 */
function importsOf(file: string, text: string): readonly string[] {
  const found = text.matchAll(/\b(?:from\s*|import\s*\(?\s*)["'](\.[^"']*)["']/g);
  return [...found].map(([, path = ""]) => join(dirname(file), path));
}

function forbiddenImports(file: string, text: string): readonly string[] {
  const folder = folderOf(file);
  const seen = [folder, ...(allowed[folder] ?? []), ...(exceptions[file] ?? [])];
  return importsOf(file, text)
    .filter((imported) => !seen.includes(folderOf(imported)) && !seen.includes(imported))
    .map((imported) => `${file} imports ${imported}`);
}

test("lists exactly the existing folders in the table", () => {
  const folders = new Set(sources.map(folderOf));
  expect(Object.keys(allowed).toSorted()).toEqual([...folders].toSorted());
  const named = [...Object.values(allowed), ...Object.values(exceptions)].flat();
  expect(named.filter((name) => !folders.has(name) && !sources.includes(name))).toEqual([]);
});

test("permits only downward imports, type imports included", () => {
  const found = sources.flatMap((file) =>
    forbiddenImports(file, readFileSync(join("src", file), "utf8")),
  );
  expect(found).toEqual([]);
});

test.for([
  'import { a } from "../agent/a.ts";',
  'import type { A } from "../agent/a.ts";',
  'import {\n  a,\n} from "../agent/a.ts";',
  'import "../agent/a.ts";',
  'export * from "../agent/a.ts";',
  'export type { A } from "../agent/a.ts";',
  'type A = import("../agent/a.ts").A;',
  'const a = await import("../agent/a.ts");',
])("detects an upward import: %s", (text) => {
  expect(forbiddenImports("policies/b.ts", text)).toEqual(["policies/b.ts imports agent/a.ts"]);
});

test("distinguishes adapters from the folder that contains them", () => {
  const text = 'import { a } from "../model/openai/a.ts";';
  expect(forbiddenImports("agent/b.ts", text)).toEqual(["agent/b.ts imports model/openai/a.ts"]);
});

const Linter = z.object({
  overrides: z.array(
    z.object({
      files: z.array(z.string()),
      rules: z.object({
        "no-restricted-imports": z
          .tuple([
            z.literal("error"),
            z.object({
              patterns: z.array(
                z.object({ group: z.array(z.string()).optional(), regex: z.string().optional() }),
              ),
            }),
          ])
          .optional(),
      }),
    }),
  ),
});

/**
 * Returns the imports that the linter forbids in a folder: everything outside of it except these.
 */
function groupOf(folder: string, seen: readonly string[]): readonly string[] {
  const paths = seen.map((name) => {
    const path = relative(join("/", folder), join("/", name));
    const here = path.startsWith(".") ? path : `./${path}`;
    return name.endsWith(".ts") ? here : `${here}/*`;
  });
  const starts = Map.groupBy(paths, (path) => /^(?:\.\.?\/)+/.exec(path)?.[0] ?? "");
  const exempt = [...starts].map(([start, under]) => {
    const rests = under.map((path) => path.slice(start.length));
    return `!${start}${rests.length === 1 ? rests.join("") : `{${rests.join(",")}}`}`;
  });
  return ["../**", "./*/**", ...exempt];
}

test("gives the linter the same table", () => {
  const { overrides } = Linter.parse(JSON.parse(readFileSync(".oxlintrc.json", "utf8")));
  const restricted = overrides.flatMap(({ files, rules }) =>
    files.map((file) => ({ file, patterns: rules["no-restricted-imports"]?.[1].patterns ?? [] })),
  );
  const groups = restricted.flatMap(({ file, patterns }) =>
    patterns.flatMap(({ group }) => (group === undefined ? [] : [[file, group]])),
  );
  const expected = [
    ...Object.entries(allowed).map(([folder, seen]) => [
      join("src", folder, "*.ts"),
      groupOf(folder, seen),
    ]),
    ...Object.entries(exceptions).map(([file, more]) => {
      const folder = folderOf(file);
      const seen = [...(allowed[folder] ?? []), ...more];
      return [join("src", file), groupOf(folder, seen)];
    }),
  ];
  expect(Object.fromEntries(groups)).toEqual(Object.fromEntries(expected));
  // The linter silently ignores a pattern with a lookahead.
  const regexes = restricted.flatMap(({ patterns }) => patterns.map(({ regex = "" }) => regex));
  expect(regexes.filter((regex) => regex.includes("(?"))).toEqual([]);
});

test("gives every source file a unique name", () => {
  const names = sources.map((file) => file.slice(file.lastIndexOf("/") + 1));
  const twice = names.filter((name, index) => names.indexOf(name) !== index);
  expect(twice.filter((name) => !namesakes.includes(name))).toEqual([]);
});
