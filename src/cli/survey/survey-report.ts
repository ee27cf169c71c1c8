// The reports of the offline planner: the typed result of a surveyor and the text of the lead.
// Files are described by their first line.

import { posix } from "node:path";

import { findUnread } from "./survey-plan.ts";
import { formatPartName, ROOT, type Position } from "./survey-position.ts";
import type { Survey } from "./survey-roles.ts";

const MAX_FINDINGS = 12;
const MAX_LENGTH = 140;

/** Returns the findings of an agent and the reports of its subagents. */
export function reportPart(position: Position): Survey {
  const { part, texts, reports, findings, binaryFiles } = position;
  const name = formatPartName(part);
  const unread = findUnread(position).length;
  const below = reports.length === 0 ? "" : ` and ${count(reports.length, "part")} below`;
  const ownTexts = [...texts].map(([path, text]) => ({ path, purpose: describeText(text) }));
  const why = part.habit === "skims" ? "its budget allows few steps" : "too many for one agent";
  return {
    folder: name,
    purpose: `${count(texts.size, "file")}${below}.`,
    files: [...ownTexts, ...reports.flatMap((report) => report.files)],
    findings: [
      ...findings,
      ...(unread === 0 ? [] : [`${name}: ${count(unread, "path")} left out, ${why}`]),
      ...(binaryFiles === 0 ? [] : [`${name}: ${count(binaryFiles, "binary file")} skipped`]),
      ...reports.flatMap((report) => report.findings),
    ],
  };
}

/** Returns the report of the lead as Markdown. */
export function reportFolder(position: Position): string {
  const { inside, reports, part } = position;
  const { files, findings } = reportPart(position);
  const root = inside.get(ROOT);
  if (root === undefined) return `The folder could not be listed. ${findings[0]?.slice(4) ?? ""}`;
  if (root.length === 0) return "The folder is empty: there is nothing to survey.";
  const folders = Map.groupBy(files, ({ path }) => posix.dirname(path));
  const parts = [...folders].map(([folder, entries]) =>
    describeFolder(folder, entries, folders.size > 6 ? 1 : 3),
  );
  const surveyed = `${count(files.length, "file")} in ${count(folders.size, "folder")}`;
  const summary = `${surveyed}, surveyed in ${count(reports.length, "part")}.`;
  const question = part.question.replace(/\s+/g, " ");
  const sections =
    formatSection("What was found", findings.slice(0, MAX_FINDINGS)) +
    formatSection("The parts", parts.toSorted());
  return `# Survey\n\nQuestion: ${question}\n${summary}${sections}`;
}

function formatSection(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? "" : `\n\n## ${title}\n\n- ${lines.join("\n- ")}`;
}

function describeFolder(folder: string, files: Survey["files"], maxFiles: number): string {
  const shown = files
    .slice(0, maxFiles)
    .map(({ path, purpose }) => `\n  - \`${posix.basename(path)}\`: ${purpose}`);
  return `**${folder}/** (${count(files.length, "file")})${shown.join("")}`;
}

const MARKS = /^(?:\/\/+!?|\/?\*+|#+|--|;+|"""|<!--)\s*|\s*(?:\*\/|"""|-->)$/g;
const UNTELLING_LINE = /^(?:\W*|#!.*|(?:import|package|use|using|from) .*)$/;

/** Returns the first informative line of a text, without comment marks. */
function describeText(text: string): string {
  const lines = text.split("\n").map((line) => line.trim());
  const line = lines.find((each) => !UNTELLING_LINE.test(each)) ?? "Nothing to read.";
  return line.replace(MARKS, "").slice(0, MAX_LENGTH);
}

function count(amount: number, thing: string): string {
  return `${amount} ${thing}${amount === 1 ? "" : "s"}`;
}
