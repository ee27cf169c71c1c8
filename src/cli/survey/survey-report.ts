// The reports of the offline planner: the typed result of a surveyor and the text of the lead.

import { posix } from "node:path";

import { describeFile, exportedNames, listNames } from "./describe-file.ts";
import { findCoverage } from "./survey-plan.ts";
import { namePart, type Position } from "./survey-position.ts";
import type { Survey } from "./survey-roles.ts";

const MAX_FINDINGS = 12;
const MAX_SHOWN_MATCHES = 3;
const TELLING_NAME = /^(readme|index|main|mod|lib|__init__)\b/i;

/** Returns what an agent found out itself, and what was reported to it. */
export function reportPart(position: Position): Survey {
  const { part, texts, reports, searches, problems } = position;
  const name = namePart(part);
  const { files, dropped } = findCoverage(position);
  const names = [...texts.values()].flatMap(exportedNames);
  const below = reports.length === 0 ? "" : ` and ${count(reports.length, "part")} below`;
  const offers = names.length === 0 ? "" : `; offers ${listNames(names)}`;
  const own = files.map((path) => ({ path, purpose: describeFile(path, texts.get(path)) }));
  const excess = dropped === 0 ? [] : [`${name}: ${dropped} left out, too many for one surveyor`];
  return {
    folder: name,
    purpose: `${count(texts.size, "file")}${below}${offers}.`,
    files: [...own, ...reports.flatMap((report) => report.files)],
    findings: [
      ...searches.map(describeSearch),
      ...problems,
      ...excess,
      ...reports.flatMap((report) => report.findings),
    ],
  };
}

/** Returns the report of the lead as Markdown. */
export function reportFolder(position: Position): string {
  const { problems, reports, part } = position;
  const { files, findings } = reportPart(position);
  const root = [position.folders, position.files].flatMap((found) => found.get(".") ?? []);
  if (!position.files.has("."))
    return `The folder could not be listed. ${problems[0]?.slice(3) ?? ""}`;
  if (root.length + problems.length === 0)
    return "The folder is empty: there is nothing to survey.";
  const rest = findings.length - MAX_FINDINGS;
  const shown = [...findings.slice(0, MAX_FINDINGS), ...(rest > 0 ? [`and ${rest} more`] : [])];
  const folders = Map.groupBy(files, ({ path }) => posix.dirname(path));
  const parts = [...folders.keys()]
    .toSorted()
    .map((folder) => describeFolder(folder, folders.get(folder) ?? [], folders.size > 6 ? 2 : 3));
  const surveyed = `${count(files.length, "file")} in ${count(folders.size, "folder")}`;
  const summary = `${surveyed}, surveyed in ${count(reports.length, "part")}.`;
  const question = `Question: ${part.question.replace(/\s+/g, " ")}`;
  const sections = formatSection("What was found", shown) + formatSection("The parts", parts);
  return `# Survey\n\n${question}\n${summary}${sections}`;
}

function formatSection(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? "" : `\n\n## ${title}\n\n- ${lines.join("\n- ")}`;
}

const rank = ({ path }: { readonly path: string }): number =>
  TELLING_NAME.test(posix.basename(path)) ? 0 : 1;

/** Shows files first that usually tell what their folder is about. */
function describeFolder(folder: string, files: Survey["files"], maxFiles: number): string {
  const shown = files
    .toSorted((left, right) => rank(left) - rank(right))
    .slice(0, maxFiles)
    .map(({ path, purpose }) => `\n  - \`${posix.basename(path)}\`: ${purpose}`);
  return `**${folder}/** (${count(files.length, "file")})${shown.join("")}`;
}

function describeSearch({ text, matches, isComplete }: Position["searches"][number]): string {
  if (matches.length === 0) return `"${text}": in none of the files`;
  const files = new Set(matches.map(({ path }) => path));
  const amount = `${count(matches.length, "line")} in ${count(files.size, "file")}`;
  const shown = matches.slice(0, MAX_SHOWN_MATCHES).map(({ path, line }) => `\`${path}:${line}\``);
  return `"${text}": ${isComplete ? "" : "at least "}${amount}, first ${shown.join(", ")}`;
}

function count(amount: number, thing: string): string {
  return `${amount} ${thing}${amount === 1 ? "" : "s"}`;
}
