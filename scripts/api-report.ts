// `npm run check:api` compares what users can import with the reports in api-reports/; `npm run api` writes them anew.
// A changed line in a report is a decision about the public surface and belongs into CHANGELOG.md.
//
// A report has what its entry exports. A declaration of another entry is imported there, as a user would, and stands in the report of that
// one alone; a declaration that no entry exports must not be reachable from any (a "forgotten export"): its type has no name that a user
// could write down.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";

import { Extractor, ExtractorConfig, ExtractorLogLevel } from "@microsoft/api-extractor";
import { z } from "zod";

const isWriting = process.argv.includes("--write");
const ManifestSchema = z.object({
  name: z.string(),
  exports: z.record(z.string(), z.union([z.string(), z.object({ types: z.string() })])),
});
const manifest = ManifestSchema.parse(JSON.parse(readFileSync("package.json", "utf8")));

interface Entry {
  /** How a user imports it. */
  readonly specifier: string;
  readonly reportName: string;
  readonly types: string;
}

interface Declaration {
  readonly name: string;
  readonly isExported: boolean;
  readonly text: string;
}

interface Surface extends Entry {
  /** Of other packages, as they stand in the report. */
  readonly imports: readonly string[];
  /** All that can be reached from the entry. */
  readonly declarations: readonly Declaration[];
}

/** All declarations that can be reached from an entry, as API Extractor finds them. */
function surfaceOf(entry: Entry): Surface {
  const reportFileName = `${entry.reportName}.api.md`;
  const config = ExtractorConfig.prepare({
    configObject: {
      projectFolder: resolve("."),
      mainEntryPointFilePath: resolve(entry.types),
      compiler: { tsconfigFilePath: resolve("tsconfig.build.json") },
      apiReport: {
        enabled: true,
        includeForgottenExports: true,
        reportFileName,
        reportFolder: resolve("temp/reachable"),
        reportTempFolder: resolve("temp"),
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      newlineKind: "lf",
      messages: {
        compilerMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
        extractorMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
        tsdocMessageReporting: { default: { logLevel: ExtractorLogLevel.None } },
      },
    },
    configObjectFullPath: undefined,
    packageJsonFullPath: resolve("package.json"),
  });
  Extractor.invoke(config, {
    localBuild: true,
    showVerboseMessages: false,
    messageCallback: (message) => {
      message.handled = true;
    },
  });
  const report = readFileSync(`temp/reachable/${reportFileName}`, "utf8");
  const code = report.slice(report.indexOf("```ts\n") + 6, report.lastIndexOf("```"));
  const blocks = code.trim().split(/\n\n+(?=\/\/ |import |export )/);
  return {
    ...entry,
    imports: blocks
      .filter((block) => block.startsWith("import "))
      .flatMap((block) => block.split("\n")),
    declarations: blocks.flatMap((block) => declarationIn(block) ?? []),
  };
}

function declarationIn(text: string): Declaration | undefined {
  const found =
    /^(export )?(?:declare |abstract )*(?:interface|type|const|class|function|namespace) ([\w$]+)/m.exec(
      text,
    );
  const [, exported, name] = found ?? [];
  return name === undefined ? undefined : { name, isExported: exported !== undefined, text };
}

/** The text of a report, and the names in it that no entry exports. */
function reportOf(
  { specifier, imports, declarations }: Surface,
  owners: ReadonlyMap<string, string>,
): { readonly text: string; readonly forgotten: readonly string[] } {
  const isOwn = ({ name }: Declaration): boolean => (owners.get(name) ?? specifier) === specifier;
  const own = declarations.filter(isOwn);
  const words = new Set(own.flatMap(({ text }) => text.match(/[\w$]+/g) ?? []));
  const borrowed = new Map<string, string[]>();
  for (const { name } of declarations) {
    const owner = owners.get(name);
    if (owner === undefined || owner === specifier || !words.has(name)) continue;
    borrowed.set(owner, [...(borrowed.get(owner) ?? []), name]);
  }
  const lines = [
    ...imports.filter((line) => importedIn(line).some((name) => words.has(name))),
    ...[...owners.values()]
      .filter((owner, index, all) => borrowed.has(owner) && all.indexOf(owner) === index)
      .map((owner) => `import { ${(borrowed.get(owner) ?? []).join(", ")} } from '${owner}';`),
  ];
  const blocks = [lines.join("\n"), ...own.map(({ text }) => text)].filter((block) => block !== "");
  return {
    text: `## API Report File for "${specifier}"\n\n> Written by \`npm run api\`. Do not edit it.\n\n\`\`\`ts\n\n${blocks.join("\n\n")}\n\n\`\`\`\n`,
    forgotten: own.flatMap(({ name, isExported }) => (isExported ? [] : name)),
  };
}

/** The names in a line: `import type { a } from 'b'`. */
function importedIn(line: string): readonly string[] {
  return line.replace(/^import (type )?| from .*$/g, "").match(/[\w$]+/g) ?? [];
}

mkdirSync("temp/reachable", { recursive: true });
mkdirSync("api-reports", { recursive: true });
const surfaces = Object.entries(manifest.exports).flatMap(([entry, target]) => {
  if (typeof target === "string") return [];
  const specifier = manifest.name + entry.slice(1);
  return [
    surfaceOf({ specifier, reportName: specifier.replaceAll("/", "-"), types: target.types }),
  ];
});

const problems: string[] = [];
const owners = new Map<string, string>();
for (const { specifier, declarations } of surfaces) {
  for (const name of new Set(
    declarations.flatMap((declaration) => (declaration.isExported ? declaration.name : [])),
  )) {
    const other = owners.get(name);
    if (other !== undefined) problems.push(`${name} is exported from ${other} and ${specifier}.`);
    owners.set(name, specifier);
  }
}
for (const surface of surfaces) {
  const file = `api-reports/${surface.reportName}.api.md`;
  const { text, forgotten } = reportOf(surface, owners);
  if (forgotten.length > 0)
    problems.push(
      `${surface.specifier}: reachable, but exported nowhere: ${forgotten.join(", ")}.`,
    );
  if (isWriting) writeFileSync(file, text);
  else if (!existsSync(file) || readFileSync(file, "utf8") !== text)
    problems.push(
      `${surface.specifier}: the public surface is not the one of ${file}. Run \`npm run api\` and review the change.`,
    );
}
for (const problem of problems) console.error(problem);
if (problems.length > 0) process.exitCode = 1;
