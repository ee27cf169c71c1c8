// The pages of the reference: which name stands on which, and what is made of the events, the error codes and the names of telemetry.

import type { Declaration, Source } from "./declarations.ts";
import { code, fieldTable, firstSentence, inline, section, table, type Homes } from "./markdown.ts";
import { OUTLINES, type Outline } from "./outlines.ts";

interface Entry {
  /** How a user imports it. */
  readonly specifier: string;
  readonly file: string;
}

const MADE =
  "<!-- Written by `npm run docs:reference` out of the source. Correct the docstring there. -->";

/** All pages that are made, by their path in `docs/reference/`. */
export function pagesOf(source: Source, entries: readonly Entry[]): ReadonlyMap<string, string> {
  const byEntry = entries.map(({ specifier, file }) => ({
    specifier,
    names: source.exportsOf(specifier, file),
  }));
  const all = new Map(byEntry.flatMap(({ names }) => names.map((one) => [one.name, one])));
  const homes = homesOf(all);
  const pages = new Map<string, string>();
  for (const outline of OUTLINES) pages.set(outline.file, outlined(outline, all, homes));
  for (const { specifier, names } of byEntry) {
    const own = names.filter(({ name }) => homes.get(name)?.startsWith("api/") === true);
    if (own.length > 0) pages.set(pageOf(specifier), apiPage(specifier, own, fromApi(homes)));
  }
  pages.set("events.md", eventsPage(source, all, homes));
  pages.set("errors.md", errorsPage(source, all, homes));
  pages.set("spans.md", spansPage(source));
  pages.set("exports.md", exportsPage(byEntry, homes));
  return pages;
}

/** What stands on no page of its own subject stands on that of its entry. */
function pageOf(specifier: string): string {
  return `api/${specifier.replaceAll("/", "-")}.md`;
}

const EVENT_NAMES = ["EspalierEvent", "EventScope", "TraceIds", "EventBodies", "EventType"];
const CODE_NAMES = ["ErrorCode", "ModelErrorCode", "RunErrorCode"];
const ERROR_NAMES = ["EspalierError", "EspalierErrorOptions", "RunError"];

function homesOf(all: ReadonlyMap<string, Declaration>): Homes {
  const homes = new Map<string, string>();
  const anchors = new Map<string, number>();
  const place = (file: string, names: readonly string[]): void => {
    for (const name of names) {
      if (!all.has(name)) throw new Error(`${file} lists ${name}, which no entry exports.`);
      if (homes.has(name)) throw new Error(`${name} is to stand on two pages.`);
      // Of two names that differ in case alone, the second has a number behind its anchor.
      const home = `${file}#${name.toLowerCase()}`;
      const before = anchors.get(home) ?? 0;
      anchors.set(home, before + 1);
      homes.set(name, before === 0 ? home : `${home}-${before}`);
    }
  };
  for (const { file, parts } of OUTLINES)
    place(
      file,
      parts.flatMap(({ names }) => names),
    );
  place("events.md", EVENT_NAMES);
  place("errors.md", [...CODE_NAMES, ...ERROR_NAMES]);
  for (const { name, specifier } of all.values())
    if (!homes.has(name)) place(pageOf(specifier), [name]);
  return homes;
}

function fromApi(homes: Homes): Homes {
  return new Map(
    [...homes].map(([name, home]) => [
      name,
      home.startsWith("api/") ? home.slice("api/".length) : `../${home}`,
    ]),
  );
}

function page(title: string, parts: readonly string[]): string {
  return `${[`# ${title}`, MADE, ...parts].filter((part) => part !== "").join("\n\n")}\n`;
}

function known(all: ReadonlyMap<string, Declaration>, name: string): Declaration {
  const found = all.get(name);
  if (found === undefined) throw new Error(`Expected ${name} to be exported.`);
  return found;
}

function outlined(outline: Outline, all: ReadonlyMap<string, Declaration>, homes: Homes): string {
  const parts = outline.parts.flatMap(({ title, names }) => [
    `## ${title}`,
    ...names.map((name) => section(known(all, name), homes)),
  ]);
  return page(outline.title, [outline.intro, ...parts]);
}

function apiPage(specifier: string, names: readonly Declaration[], homes: Homes): string {
  const intro = `What ${code(specifier)} exports and no page of a subject has. [All names](../exports.md).`;
  return page(specifier, [intro, ...names.map((one) => section(one, homes))]);
}

const FAMILIES: Readonly<Record<string, string>> = {
  run: "Runs",
  agent: "Agents",
  step: "Steps",
  model: "Model calls",
  tool: "Tool calls",
  result: "Tool calls",
  tools: "Requests and messages",
  reply: "Requests and messages",
  hook: "Requests and messages",
  request: "Requests and messages",
  conversation: "Requests and messages",
  section: "Requests and messages",
  message: "Requests and messages",
  question: "Questions",
  subagent: "Subagents",
  budget: "Budget",
  signal: "What ends an agent",
  continuation: "What ends an agent",
};

function eventsPage(source: Source, all: ReadonlyMap<string, Declaration>, homes: Homes): string {
  const events = source.propertiesOf("src/protocol/event-bodies.ts", "EventBodies");
  const families = Map.groupBy(events, ({ name }) => FAMILIES[name.split(".")[0] ?? ""] ?? name);
  const index = [...families].map(
    ([family, members]) => `- ${family}: ${members.map(({ name }) => code(name)).join(", ")}`,
  );
  const intro = [
    `Everything that happens in a run is an event: ${events.length} types, numbered per run without gaps.`,
    "`run.events()`, `sinks`, `observe` and the store give them ([streaming](../streaming.md), [reading runs](../reading.md)). Match on `type`.",
  ].join(" ");
  const stamp = known(all, "EspalierEvent").fields.filter(({ name }) => name !== "type");
  const parts = [...families].flatMap(([family, members]) => [
    `## ${family}`,
    ...members.flatMap(({ name, text, fields }) => [
      `### ${name}`,
      inline(text),
      fields.length > 0 ? fieldTable(fields, homes) : "No fields besides the stamp.",
    ]),
  ]);
  const types = EVENT_NAMES.map((name) => ({
    ...known(all, name),
    fields: name === "EventBodies" || name === "EspalierEvent" ? [] : known(all, name).fields,
  }));
  return page("Events", [
    intro,
    index.join("\n"),
    "## What every event has",
    fieldTable(stamp, homes),
    ...parts,
    "## Types",
    ...types.map((one) => section(one, homes)),
  ]);
}

function errorsPage(source: Source, all: ReadonlyMap<string, Declaration>, homes: Homes): string {
  const ERRORS = "src/kernel/error.ts";
  const codes = (name: string): string =>
    table(
      ["code", "cause", "cure"],
      source.wordsOf(ERRORS, name).map(({ word, text }) => {
        const cause = firstSentence(text);
        return [code(word), cause, inline(text).slice(cause.length).trim()];
      }),
    );
  return page("Error codes", [
    "What is thrown, or ends an agent, is an `EspalierError` with one of these codes. Match on the code: messages may change. What a tool call may end with, which the model reads, is in [errors](../errors.md).",
    "## Codes",
    `### ErrorCode\n\n${codes("ErrorCode")}`,
    `### ModelErrorCode\n\nOf model calls; what follows from them is in [errors](../errors.md#errors-of-a-model).\n\n${codes("ModelErrorCode")}`,
    `### RunErrorCode\n\nOf the \`RunError\` with which \`run.orThrow()\` rejects.\n\n${codes("RunErrorCode")}`,
    "## Classes",
    ...ERROR_NAMES.map((name) => section(known(all, name), homes)),
  ]);
}

const ATTRIBUTES = "src/telemetry/gen-ai-attributes.ts";

function spansPage(source: Source): string {
  const rows = (name: string): string =>
    table(
      ["name", "what it is"],
      source.constantsOf(ATTRIBUTES, name).map(({ value, text }) => [code(value), inline(text)]),
    );
  return page("Names in traces", [
    "What spans, their attributes, events and links are called. How to set tracing up is in [telemetry](../telemetry.md), what a trace shows in [Jaeger](../jaeger.md), the names of metrics in [metrics](../metrics.md).",
    "## Operations\n\nThe values of `gen_ai.operation.name`, and the first word of the name of a span; a call that delegates is named `spawn` and the subagent.",
    rows("OPERATION"),
    "## Attributes by the GenAI conventions",
    rows("GEN_AI"),
    rows("OPENAI"),
    "## Attributes of espalier",
    `${rows("ESPALIER")}\n| \`espalier.budget.limit.<axis>\` | What an agent could spend at its start, on one axis: \`espalier.budget.limit.total_tokens\`. |`,
    "## What an agent and all below it consumed\n\nOn `invoke_agent`, so that nothing counts `gen_ai.usage.*` twice.",
    rows("SUBTREE"),
    "## Span events",
    rows("SPAN_EVENT"),
    "## Links\n\nThe values of `espalier.link.type`.",
    rows("LINK"),
    "## Other attributes",
    rows("SERVER"),
    rows("RESOURCE"),
    "`error.type` has the code of a failure, `service.name` the name that was given.",
  ]);
}

function exportsPage(
  entries: readonly { readonly specifier: string; readonly names: readonly Declaration[] }[],
  homes: Homes,
): string {
  const shown = (one: Declaration): readonly string[] => [
    `[${code(one.name)}](${homes.get(one.name) ?? ""})`,
    one.kind,
    firstSentence(one.text),
  ];
  const parts = entries.map(
    ({ specifier, names }) =>
      `## ${specifier}\n\n${table(["name", "kind", "what it is for"], names.map(shown))}`,
  );
  const count = entries.reduce((sum, { names }) => sum + names.length, 0);
  return page("All public names", [
    `${count} names in ${entries.length} entries. A name stands in one entry.`,
    ...parts,
  ]);
}
