// Goal: the reference describes everything that a program can import, match on, set or read (D21 to
// D26).
// Method: compare the reports in api-reports/, the schemas and the sources with the pages. `npm run
// check:reference` compares the pages with the docstrings.

import { existsSync, globSync, readFileSync } from "node:fs";
import { posix } from "node:path";

import { expect, test } from "vitest";

import { EVENT_SCHEMAS } from "../../src/protocol/event-schemas.ts";
import { EVENT_TYPES, StampSchema } from "../../src/protocol/event.ts";
import { PAUSE_CODES, STOP_CODES } from "../../src/protocol/stop.ts";
import * as telemetryNames from "../../src/telemetry/gen-ai-attributes.ts";
import { slugOf } from "../../site/slug.ts";
import { proves } from "../harness/proves.ts";

const FOLDER = "docs/reference/";
const pages = new Map(
  globSync(`${FOLDER}**/*.md`).map((file) => [
    file.slice(FOLDER.length),
    readFileSync(file, "utf8"),
  ]),
);

/** The text under each heading of the third level; names on two pages have both texts. */
const sections = new Map<string, readonly string[]>();
for (const [file, page] of pages)
  for (const [, heading = "", text = ""] of page.matchAll(
    /^### (.+)\n([\s\S]*?)(?=^#{1,3} |(?![\s\S]))/gm,
  )) {
    const key = file === "environment.md" ? "" : heading;
    sections.set(key, [...(sections.get(key) ?? []), text]);
  }

function sectionOf(heading: string): string {
  const [text = "", ...others] = sections.get(heading) ?? [];
  return others.length > 0 ? "" : text;
}

/** Returns the rows of the tables of a text, cell by cell. */
function rowsOf(text: string): readonly (readonly string[])[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith("| `"))
    .map((line) =>
      line
        .split(/(?<!\\)\|/)
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

/** Returns the fields of a section, without nested ones. */
function fieldsOf(text: string): ReadonlySet<string> {
  const rows = rowsOf(text).map(([cell = ""]) => cell.replace(/`|\?$|\?(?=`)/g, ""));
  const methods = [...text.matchAll(/^```typescript\n(\w+)\??[(<]/gm)].map(([, name = ""]) => name);
  return new Set([...rows, ...methods].filter((name) => !/[.[]/.test(name)));
}

interface Exported {
  readonly name: string;
  readonly specifier: string;
  readonly block: string;
}

const exportedNames: readonly Exported[] = globSync("api-reports/*.api.md").flatMap((file) => {
  const report = readFileSync(file, "utf8");
  const [, specifier = ""] = /^## API Report File for "(.+)"/.exec(report) ?? [];
  return report.split(/\n\n(?=\/\/ @)/).flatMap((block) => {
    const [, name] =
      /^export (?:declare |abstract )*(?:interface|type|const|class|function) ([\w$]+)/m.exec(
        block,
      ) ?? [];
    return name === undefined ? [] : [{ name, specifier, block }];
  });
});

proves(["D21"], "describes every public name in a section with its import", () => {
  expect(exportedNames.length).toBeGreaterThan(400);
  const missing = exportedNames.filter(({ name, specifier }) => {
    const text = sectionOf(name);
    const isImported = text.includes(`{ ${name} } from "${specifier}"`);
    const words = text.split("\n\n")[1] ?? "";
    return !isImported || words === "" || /^[`|]{3}|^\|/.test(words);
  });
  expect(missing.map(({ name, specifier }) => `${specifier}: ${name}`)).toEqual([]);
});

proves(["D21"], "lists every public name under its entry", () => {
  const list = pages.get("exports.md") ?? "";
  const listed = list.split("\n## ").flatMap((part) => {
    const [specifier = ""] = part.split("\n");
    return rowsOf(part.replaceAll(/^\| \[/gm, "| ")).map(([cell = ""]) => {
      const [, name = ""] = /^`([\w$]+)`/.exec(cell) ?? [];
      return `${specifier}: ${name}`;
    });
  });
  expect(new Set(listed)).toEqual(
    new Set(exportedNames.map(({ name, specifier }) => `${specifier}: ${name}`)),
  );
});

proves(["D24"], "describes every member of a public interface in the interface's section", () => {
  const missing = exportedNames.flatMap(({ name, block }) => {
    if (!/^export interface /m.test(block) || name === "EventBodies") return [];
    const known = fieldsOf(sectionOf(name));
    const members = [...block.matchAll(/^ {4}(?:readonly )?(\w+)\??[:(<]/gm)];
    return members.flatMap(([, member = ""]) => (known.has(member) ? [] : [`${name}.${member}`]));
  });
  expect(missing).toEqual([]);
});

const SUBJECTS = ["agent.md", "tool.md", "orchestrator.md", "start.md", "results.md", "events.md"];

proves(
  ["D22", "D24"],
  "describes every option and every field of events, results, steps and messages",
  () => {
    const silent = [...pages].flatMap(([file, page]) =>
      rowsOf(page).flatMap((cells) => (cells.at(-1) === "" ? [`${file}: ${cells[0] ?? ""}`] : [])),
    );
    expect(silent).toEqual([]);
    const counts = SUBJECTS.map((file) => rowsOf(pages.get(file) ?? "").length);
    expect(counts.filter((count) => count < 20)).toEqual([]);
  },
);

proves(
  ["D22"],
  "describes every event in a section with its fields and the time of its emission",
  () => {
    const documented = EVENT_TYPES.map((type) => {
      const text = sectionOf(type);
      const [words = ""] = text.trim().split("\n\n");
      return { type, isSaid: /^\w.+\.$/.test(words), fields: fieldsOf(text) };
    });
    expect(documented).toEqual(
      EVENT_TYPES.map((type) => ({
        type,
        isSaid: true,
        fields: new Set(Object.keys(EVENT_SCHEMAS[type]())),
      })),
    );
  },
);

proves(["D22"], "lists the fields of every event, and exactly the existing events", () => {
  const page = pages.get("events.md") ?? "";
  const [, stamp = ""] = page.split("\n## Fields of every event\n");
  expect(fieldsOf(stamp.split("\n## ")[0] ?? "")).toEqual(
    new Set(Object.keys(StampSchema().shape)),
  );
  const headings = [...page.matchAll(/^### ([a-z_]+\.[a-z_]+)$/gm)].map(([, type]) => type);
  expect(new Set(headings)).toEqual(new Set(EVENT_TYPES));
});

proves(["D23"], "documents cause and remedy of every error code", () => {
  const unions = exportedNames.filter(({ name }) => /^(Model|Run)?ErrorCode$/.test(name));
  const codes = unions.flatMap(({ block }) =>
    [...block.matchAll(/"([a-z_]+)"/g)].map(([, code = ""]) => code),
  );
  expect(codes.length).toBeGreaterThan(60);
  const page = pages.get("errors.md") ?? "";
  const rows = rowsOf(page).filter(
    (cells) => cells.length === 3 && /^`[a-z_]+`$/.test(cells[0] ?? ""),
  );
  const said = rows.filter(([, cause, cure]) => cause !== "" && cure !== "");
  expect(new Set(said.map(([code = ""]) => code.replaceAll("`", "")))).toEqual(
    new Set([...codes, ...optionsAmong(rows)]),
  );
});

/** Fields of the classes on the page, whose rows also have three cells. */
function optionsAmong(rows: readonly (readonly string[])[]): readonly string[] {
  return rows.flatMap(([name = "", type = ""]) =>
    type.startsWith("`") ? name.replaceAll("`", "") : [],
  );
}

proves(["D24"], "names every reason for an end or a pause beside its type", () => {
  const named = ["StopCode", "PauseCode"].map((name) =>
    [...(/^type \w+ =[\s\S]*?^```/m.exec(sectionOf(name))?.[0] ?? "").matchAll(/"([a-z_]+)"/g)].map(
      ([, code = ""]) => code,
    ),
  );
  expect(named).toEqual([[...STOP_CODES], [...PAUSE_CODES]]);
});

/** Capitalised words in files that read an environment, which are not variables. */
const NO_VARIABLES =
  /^(ERR_|MODULE_NOT_FOUND|NO_CONTENT|SPAN_ONLY|EVENT_ONLY|SPAN_AND_EVENT|ESPALIER_OTEL_|ESPALIER_FLUSH_)/;

/**
 * Returns the variables that a source reads as members of an environment: by a dot, in brackets, or
 * by destructuring.
 */
function membersRead(source: string): readonly string[] {
  const members = source.matchAll(/\benv(?:ironment)?(?:\?\.)?(?:\.|\[["'`]|(?<=\?\.))(\w+)\b/g);
  const apart = source.matchAll(
    /\{([^{}]*)\}(?:: [^=;{}]+)? = (?:[\w.]+\.)?env(?:ironment)?\b(?![\w.[(?])/g,
  );
  const taken = [...apart].flatMap(([, names = ""]) =>
    names.split(",").map((name) => /^\s*["'`]?(\w+)/.exec(name)?.[1] ?? ""),
  );
  return [...[...members].map(([, name = ""]) => name), ...taken].filter((name) => name !== "");
}

/**
 * Returns the variables that the sources read; those of the OTLP exporter are named by their ends.
 */
function variablesRead(): ReadonlySet<string> {
  const found = new Set<string>();
  for (const file of globSync("src/**/*.ts")) {
    const source = readFileSync(file, "utf8").replaceAll(/^\s*(\/\/|\*|\/\*).*$/gm, "");
    if (!/\benv\b|\benvironment\b|VariableReader/i.test(source)) continue;
    for (const [, end = ""] of source.matchAll(/\.(?:readOtlp|readPemFile)\("(\w+)"/g))
      for (const start of ["OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"])
        found.add(start + end);
    for (const word of membersRead(source)) found.add(word);
    const words = source.matchAll(
      /(?<!(?:readOtlp|readPemFile)\()"([A-Z][A-Z\d]*(?:_[A-Z\d]+)+)"/g,
    );
    const asked = source.matchAll(/isSet\("(\w+)"\)/g);
    for (const [, word = ""] of [...words, ...asked]) if (!NO_VARIABLES.test(word)) found.add(word);
  }
  return found;
}

test("finds a variable in every form in which a source reads it", () => {
  const source = `const { ONE, TWO_B: two = "x", "three_c": three } = process.env;
env.FOUR; env["five_e"]; env[\`SIX\`]; environment?.["SEVEN"]; env?.EIGHT; env['NINE'];
const { command, env: shellEnv } = shell;`;
  const read = "FOUR five_e SIX SEVEN EIGHT NINE ONE TWO_B three_c";
  expect(membersRead(source)).toEqual(read.split(" "));
});

/** Variables that an SDK or an exporter reads. */
const READ_ELSEWHERE = [
  "OTEL_SERVICE_NAME",
  "OTEL_RESOURCE_ATTRIBUTES",
  "OTEL_ATTRIBUTE_COUNT_LIMIT",
  "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
  "OTEL_SPAN_ATTRIBUTE_PER_EVENT_COUNT_LIMIT",
  "OTEL_SPAN_ATTRIBUTE_PER_LINK_COUNT_LIMIT",
  "OTEL_SPAN_EVENT_COUNT_LIMIT",
  "OTEL_SPAN_LINK_COUNT_LIMIT",
  "OTEL_TRACES_SAMPLER",
  "OTEL_TRACES_SAMPLER_ARG",
  "OTEL_EXPORTER_OTLP_HEADERS",
  "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
];

proves(["D25"], "lists exactly the environment variables that are read", () => {
  const page = pages.get("environment.md") ?? "";
  // In the first cell of a row a name may be in lower case.
  const cells = rowsOf(page).map(([cell = ""]) => cell);
  const names = [...page.matchAll(/`([A-Z][A-Z\d_]+)`/g), ...cells.join().matchAll(/`(\w+)`/g)];
  const listed = names.map(([, name = ""]) => name);
  expect(new Set(listed)).toEqual(new Set([...variablesRead(), ...READ_ELSEWHERE]));
});

/** Exports that are values of attributes instead of names. */
const VALUES: ReadonlySet<string> = new Set(
  "FAILURE SHOWN_AS OUTCOME RUN_STATE UNKNOWN_TOOL".split(" "),
);

proves(["D26"], "lists every name that is passed to OpenTelemetry", () => {
  const page = pages.get("spans.md") ?? "";
  const rows = new Set(rowsOf(page).map(([name = ""]) => name.replaceAll("`", "")));
  const missing = Object.entries(telemetryNames).flatMap(([group, names]) => {
    if (typeof names === "function" || VALUES.has(group)) return [];
    if (typeof names === "string") return page.includes(`\`${names}\``) ? [] : [names];
    return Object.values(names).filter((name) => !rows.has(name));
  });
  expect(missing).toEqual([]);
});

proves(["D21"], "contains only working links between the pages", () => {
  const anchors = new Map([...pages].map(([file, page]) => [file, anchorsOf(page)]));
  const broken = [...pages].flatMap(([file, page]) =>
    [...page.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = ""]) => {
      const [path = "", anchor] = target.split("#");
      const place = path === "" ? file : posix.join(posix.dirname(file), path);
      const known = anchors.get(place);
      const isThere = known === undefined ? existsSync(FOLDER + place) : true;
      const isHeld = anchor === undefined || known === undefined || known.has(anchor);
      return isThere && isHeld ? [] : [`${file}: ${target}`];
    }),
  );
  expect(broken).toEqual([]);
});

/** Returns the anchors of the headings of a page, as GitHub and VitePress create them. */
function anchorsOf(page: string): ReadonlySet<string> {
  const found = new Set<string>();
  for (const [, heading = ""] of page.matchAll(/^#{1,4} (.+)$/gm)) {
    const base = slugOf(heading);
    let [anchor, count] = [base, 0];
    while (found.has(anchor)) anchor = `${base}-${(count += 1)}`;
    found.add(anchor);
  }
  return found;
}
