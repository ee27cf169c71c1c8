// Goal: imports run only downwards, type imports too, whatever the linter makes of its patterns; and it is given the same table.
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
const TELEMETRY = ["", "/bounded", "/content", "/delivery", "/metrics", "/spans"].map(
  (folder) => `telemetry${folder}`,
);

/** What each folder may import from besides itself: folders, without those in them, and single files. The first is that of the entries. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  "": [...BELOW_TREE, "model/openai", "orchestrator", ...ORCHESTRATOR, "view"],
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
  view: VOCABULARY,
  viewer: [
    ...VOCABULARY,
    "agent",
    "store",
    "view",
    "orchestrator",
    "orchestrator/durability",
    "orchestrator/run",
  ],
  terminal: ["index.ts", "extend.ts", "view"],
  config: [...VOCABULARY, "model", ...TOOLS, ...AGENT, "store", "orchestrator/tree"],
  // The command imports the package by its name, as a program of a user's does; what draws it shares with the terminal view.
  cli: ["cli/commands", "view", "terminal"],
  "cli/commands": ["cli", "cli/survey", "view", "terminal"],
  "cli/survey": [],
};

/** Files that may import more than their folder, and why. */
const exceptions: Readonly<Record<string, readonly string[]>> = {
  // Checks its options in the words of all other entries; the view itself is written on the public surface.
  "terminal/jaeger-links.ts": ["kernel"],
  // Not public: what it takes for a secret is a guess.
  "cli/tell-error.ts": ["tools/redact-secrets.ts"],
};

/** Files that share their name with another, and why. */
const namesakes: readonly string[] = [
  "index.ts", // of an entry: its package name is that of its folder
];

const sources = globSync("**/*.ts", { cwd: "src" }).toSorted();

function others(folders: readonly string[], folder: string): readonly string[] {
  return folders.filter((other) => other !== folder);
}

/** The folder of a file of the sources, as the table has it. */
function folderOf(file: string): string {
  const folder = dirname(file);
  return folder === "." ? "" : folder;
}

/** The sources that a text imports or exports from: by a statement, for its effect, in a type, or while it runs. */
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

test("every folder has its place in the table, and the table no other", () => {
  const folders = new Set(sources.map(folderOf));
  expect(Object.keys(allowed).toSorted()).toEqual([...folders].toSorted());
  const named = [...Object.values(allowed), ...Object.values(exceptions)].flat();
  expect(named.filter((name) => !folders.has(name) && !sources.includes(name))).toEqual([]);
});

test("imports run only downwards, type imports too", () => {
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
])("an import upwards is seen: %s", (text) => {
  expect(forbiddenImports("policies/b.ts", text)).toEqual(["policies/b.ts imports agent/a.ts"]);
});

test("adapters are not seen with the folder they are in", () => {
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

/** What the linter forbids a folder: all that is not in it, but for these. */
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

test("the linter has the same table", () => {
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
  // The linter passes over a pattern with a lookahead without a word.
  const regexes = restricted.flatMap(({ patterns }) => patterns.map(({ regex = "" }) => regex));
  expect(regexes.filter((regex) => regex.includes("(?"))).toEqual([]);
});

test("no two sources have one name", () => {
  const names = sources.map((file) => file.slice(file.lastIndexOf("/") + 1));
  const twice = names.filter((name, index) => names.indexOf(name) !== index);
  expect(twice.filter((name) => !namesakes.includes(name))).toEqual([]);
});
