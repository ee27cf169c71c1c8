// Goal: the public surface is small, has one entry for each name, and exposes no internals (H20).
// Method: read the reports in api-reports/, which `npm run check:api` compares with the built declarations.

import { globSync, readdirSync, readFileSync } from "node:fs";

import { expect } from "vitest";
import { z } from "zod";

import { proves } from "./harness/proves.ts";

interface Declaration {
  readonly name: string;
  readonly isExported: boolean;
  readonly lines: number;
}

const DECLARATION =
  /^(export )?(?:declare |abstract )*(?:interface|type|const|class|function|namespace) ([\w$]+)/m;

function declarationsIn(report: string): readonly Declaration[] {
  return report.split(/\n\n(?=\/\/ @)/).flatMap((block) => {
    const [, exported, name] = DECLARATION.exec(block) ?? [];
    const lines = block.trimEnd().split("\n").length + 1;
    return name === undefined ? [] : [{ name, isExported: exported !== undefined, lines }];
  });
}

const reports = new Map(
  readdirSync("api-reports").map((file) => {
    const report = readFileSync(`api-reports/${file}`, "utf8");
    return [file.replace(".api.md", ""), { report, declarations: declarationsIn(report) }];
  }),
);
const root = reports.get("espalier");

function namesOf(entry: string): ReadonlySet<string> {
  const exported = reports.get(entry)?.declarations.filter(({ isExported }) => isExported) ?? [];
  return new Set(exported.map(({ name }) => name));
}

proves(["H20"], "has a report for every entry of the package", () => {
  const manifest: unknown = JSON.parse(readFileSync("package.json", "utf8"));
  const { exports } = z.object({ exports: z.record(z.string(), z.unknown()) }).parse(manifest);
  const entries = Object.keys(exports).filter((entry) => entry !== "./package.json");
  expect(new Set(reports.keys())).toEqual(
    new Set(entries.map((entry) => `espalier${entry.slice(1).replaceAll("/", "-")}`)),
  );
});

proves(
  ["H20"],
  "exports at most 130 names from the root, in a report of at most 2,500 lines",
  () => {
    expect(namesOf("espalier").size).toBeGreaterThan(100);
    expect(namesOf("espalier").size).toBeLessThanOrEqual(130);
    expect(root?.report.split("\n").length ?? Infinity).toBeLessThanOrEqual(2_500);
  },
);

proves(["H20"], "exports at most 450 names from all entries together", () => {
  const counts = [...reports.keys()].map((entry) => namesOf(entry).size);
  expect(counts.reduce((sum, count) => sum + count)).toBeLessThanOrEqual(450);
});

proves(["H20"], "exports every name from one entry", () => {
  const all = [...reports.keys()].flatMap((entry) => [...namesOf(entry)]);
  expect(all.filter((name, index) => all.indexOf(name) !== index)).toEqual([]);
});

proves(["H20"], "exports every type that is reachable from an entry", () => {
  const forgotten = [...reports].flatMap(([entry, { declarations }]) =>
    declarations.flatMap(({ name, isExported }) => (isExported ? [] : `${entry}: ${name}`)),
  );
  expect(forgotten).toEqual([]);
});

proves(["H20"], "exports from the entries at run time only names in their reports", async () => {
  const loaded = {
    espalier: await import("espalier"),
    "espalier-extend": await import("espalier/extend"),
    "espalier-hooks": await import("espalier/hooks"),
  };
  for (const [entry, values] of Object.entries(loaded)) {
    const names = namesOf(entry);
    expect(
      Object.keys(values).filter((name) => !names.has(name)),
      entry,
    ).toEqual([]);
  }
});

/**
 * Returns the comments of exported declarations and of members, which declaration files contain.
 */
function publicComments(source: string): readonly string[] {
  const comments = source.matchAll(
    /^(\/\*\*(?:(?!\*\/).)*\*\/)\s*export |^ {2,}(\/\*\*(?:(?!\*\/).)*\*\/)\s*readonly /gms,
  );
  return [...comments].map(([, declaration, member]) => declaration ?? member ?? "");
}

proves(["H20"], "cites no requirement number in comments of declaration files", () => {
  const marked = globSync("src/**/*.ts").flatMap((file) =>
    publicComments(readFileSync(file, "utf8")).filter((text) =>
      /\((?:[XRCMH]\d|S\d+\.\d)[^()]*\)/.test(text),
    ),
  );
  expect(marked).toEqual([]);
});
