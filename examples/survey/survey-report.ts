// What the offline planner reports: a surveyor its typed result, the lead a short text. Pure, and from nothing but what is known.

import { describeFile, exportedNames, listed } from "./describe-file.ts";
import type { KnownSearch } from "./survey-knowledge.ts";
import { coverageOf, isBelow, pathIn, questionOf, type Position } from "./survey-plan.ts";
import { partOf, wordsToFind } from "./survey-part.ts";

/** The result of a surveyor, as its `Finish` tool takes it. */
export interface Survey {
  readonly folder: string;
  readonly purpose: string;
  readonly files: readonly SurveyedFile[];
  readonly findings: readonly string[];
}

export interface SurveyedFile {
  readonly path: string;
  readonly purpose: string;
}

const MAX_FILES_PER_FOLDER = 3;
const MAX_FINDINGS = 12;
const MAX_SHOWN_MATCHES = 3;

/** What one agent found out itself, and what was reported to it. */
export function surveyOf(position: Position): Survey {
  const { task, reports } = position.knowledge;
  const { folders, files } = partOf(task);
  return {
    folder: [...folders, ...files].join(", "),
    purpose: purposeOf(position),
    files: [...ownFiles(position), ...reports.flatMap((report) => report.files)],
    findings: [...ownFindings(position), ...reports.flatMap((report) => report.findings)],
  };
}

/** The report of the lead. */
export function leadReport(position: Position): string {
  const { listings, failures, reports } = position.knowledge;
  const root = listings.get(".");
  if (root === undefined) return `The folder could not be listed. ${failures[0]?.why ?? ""}`.trim();
  const entries = root.folders.length + root.files.length + root.links.length;
  if (entries === 0) return "The folder is empty: there is nothing to survey.";
  const files = [...ownFiles(position), ...reports.flatMap((report) => report.files)];
  const findings = [...ownFindings(position), ...reports.flatMap((report) => report.findings)];
  const folders = Map.groupBy(files, ({ path }) => folderOf(path));
  const summary = `${count(files.length, "file")} in ${count(folders.size, "folder")}, surveyed in ${count(reports.length, "part")}.`;
  return [
    "# Survey",
    "",
    `Question: ${questionOf(position).replace(/\s+/g, " ")}`,
    summary,
    ...section("What was found", shortened(answersFirst(findings, position))),
    ...section("The parts", [...folders].toSorted(byFolder).map(folderLine)),
  ].join("\n");
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : ["", `## ${title}`, "", ...lines.map((line) => `- ${line}`)];
}

function byFolder([left]: readonly [string, unknown], [right]: readonly [string, unknown]): number {
  return left < right ? -1 : 1;
}

function folderLine([folder, files]: readonly [string, readonly SurveyedFile[]]): string {
  const shown = files.slice(0, MAX_FILES_PER_FOLDER).map(({ path, purpose }) => `\n  - \`${baseOf(path)}\`: ${purpose}`);
  const rest = files.length - shown.length;
  const more = rest === 0 ? "" : `\n  - and ${rest} more`;
  return `**${folder}/** has ${count(files.length, "file")}${shown.join("")}${more}`;
}

/** What answers the question comes before what went wrong. */
function answersFirst(findings: readonly string[], position: Position): readonly string[] {
  const words = wordsToFind(questionOf(position));
  const answers = (finding: string): boolean => words.some((word) => finding.startsWith(`"${word}"`));
  return [...findings.filter(answers), ...findings.filter((finding) => !answers(finding))];
}

function shortened(findings: readonly string[]): readonly string[] {
  const rest = findings.length - MAX_FINDINGS;
  return rest <= 0 ? findings : [...findings.slice(0, MAX_FINDINGS), `and ${rest} more`];
}

function purposeOf(position: Position): string {
  const { texts, reports } = position.knowledge;
  const readme = [...texts].find(([path]) => /(^|\/)readme(\.\w+)?$/i.test(path));
  const names = [...texts.values()].flatMap(exportedNames);
  const own = count(texts.size, "file");
  const below = reports.length === 0 ? "" : ` and ${count(reports.length, "part")} below`;
  const offers = names.length === 0 ? "" : `; offers ${listed(names)}`;
  const said = readme === undefined ? "" : `${describeFile(...readme)} `;
  return `${said}${own}${below}${offers}.`;
}

function ownFiles(position: Position): readonly SurveyedFile[] {
  const { texts, failures } = position.knowledge;
  return coverageOf(position).files.flatMap((path) => {
    const text = texts.get(path);
    if (text !== undefined) return [{ path, purpose: describeFile(path, text) }];
    const failure = failures.find((candidate) => candidate.path === path);
    return failure === undefined ? [] : [{ path, purpose: "Could not be read." }];
  });
}

function ownFindings(position: Position): readonly string[] {
  const { failures, missing, listings, searches, reports } = position.knowledge;
  const { folders, unreadFiles, unlistedFolders, words } = coverageOf(position);
  const handedOn = [...reports, ...missing].flatMap(({ part }) => part.folders);
  const links = folders.flatMap((folder) => (listings.get(folder)?.links ?? []).map((name) => pathIn(folder, name)));
  return [
    ...words.flatMap((word) => matchFinding(word, [...searches.values()], handedOn)),
    ...missing.map(({ part, why }) => `Missing: ${[...part.folders, ...part.files].join(", ")}. ${why}`),
    ...failures.map(({ path, why }) => `${path}: ${why}`),
    ...(unreadFiles === 0 ? [] : [`${count(unreadFiles, "file")} of this part not read: too many for one surveyor.`]),
    ...(unlistedFolders === 0 ? [] : [`${count(unlistedFolders, "folder")} not surveyed: too many for one surveyor.`]),
    ...(links.length === 0 ? [] : [`Symbolic links, not followed: ${links.join(", ")}`]),
  ];
}

/** Where a word was found. What lies in folders that were handed on is left to those who got them. */
function matchFinding(
  word: string,
  searches: readonly KnownSearch[],
  handedOn: readonly string[],
): readonly string[] {
  const ofWord = searches.filter((search) => search.text === word);
  const matches = ofWord
    .flatMap((search) => search.matches)
    .filter(({ path }) => !handedOn.some((folder) => isBelow(path, folder)));
  if (matches.length === 0) return [];
  const files = new Set(matches.map((match) => match.path));
  const atLeast = ofWord.every((search) => search.isComplete) ? "" : "at least ";
  const shown = matches.slice(0, MAX_SHOWN_MATCHES).map((match) => `\`${match.path}:${match.line}\``);
  return [`"${word}": ${atLeast}${count(matches.length, "line")} in ${count(files.size, "file")}, first ${shown.join(", ")}`];
}

function folderOf(path: string): string {
  const end = path.lastIndexOf("/");
  return end === -1 ? "." : path.slice(0, end);
}

function baseOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function count(amount: number, thing: string): string {
  return `${amount} ${thing}${amount === 1 ? "" : "s"}`;
}
