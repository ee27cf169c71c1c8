// What the offline planner reports: a surveyor its typed result, the lead a short text. Pure, and
// from nothing but what is known.

import { describeFile, exportedNames, namesListed } from "./describe-file.ts";
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

interface SurveyedFile {
  readonly path: string;
  readonly purpose: string;
}

/** Files that are shown of each folder, if there are few folders or many. */
const FILES_SHOWN = { few: 3, many: 2 } as const;
const MANY_FOLDERS = 6;
const MAX_FINDINGS = 12;
const MAX_SHOWN_MATCHES = 3;

/** What one agent found out itself, and what was reported to it. */
export function surveyOf(position: Position): Survey {
  const { reports } = position.knowledge;
  return {
    folder: partName(position),
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
  const surveyed = `${count(files.length, "file")} in ${count(folders.size, "folder")}`;
  const summary = `${surveyed}, surveyed in ${count(reports.length, "part")}.`;
  return [
    "# Survey",
    "",
    `Question: ${questionOf(position).replace(/\s+/g, " ")}`,
    summary,
    ...section("What was found", shortened(answersFirst(findings, position))),
    ...section("The parts", partLines(folders)),
  ].join("\n");
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : ["", `## ${title}`, "", ...lines.map((line) => `- ${line}`)];
}

function partLines(folders: ReadonlyMap<string, readonly SurveyedFile[]>): readonly string[] {
  const maxFiles = folders.size > MANY_FOLDERS ? FILES_SHOWN.many : FILES_SHOWN.few;
  return [...folders]
    .toSorted(byFolder)
    .map(([folder, files]) => folderLine(folder, files, maxFiles));
}

function byFolder([left]: readonly [string, unknown], [right]: readonly [string, unknown]): number {
  return left < right ? -1 : 1;
}

function folderLine(folder: string, files: readonly SurveyedFile[], maxFiles: number): string {
  const telling = files.toSorted((left, right) => tellingRank(left.path) - tellingRank(right.path));
  const shown = telling
    .slice(0, maxFiles)
    .map(({ path, purpose }) => `\n  - \`${baseOf(path)}\`: ${purpose}`);
  return `**${folder}/** (${count(files.length, "file")})${shown.join("")}`;
}

/** Files that usually say what their folder is about come first. */
function tellingRank(path: string): number {
  const rank = [/^readme\b/i, /^(index|main|mod|lib|__init__)\./i].findIndex((name) =>
    name.test(baseOf(path)),
  );
  return rank === -1 ? 2 : rank;
}

/** What answers the question comes first, word by word; what went wrong comes after it. */
function answersFirst(findings: readonly string[], position: Position): readonly string[] {
  const words = wordsToFind(questionOf(position));
  const wordOf = (finding: string): string | undefined =>
    words.find((word) => finding.startsWith(`"${word}"`));
  const answers = words.flatMap((word) => {
    const found = findings.filter((finding) => wordOf(finding) === word);
    return found.length === 0 ? [`"${word}": in none of the files`] : found;
  });
  return [...answers, ...findings.filter((finding) => wordOf(finding) === undefined)];
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
  const offers = names.length === 0 ? "" : `; offers ${namesListed(names)}`;
  const said = readme === undefined ? "" : `${describeFile(...readme)} `;
  return `${said}${own}${below}${offers}.`;
}

function partName({ isLead, knowledge }: Position): string {
  const { folders, files } = partOf(knowledge.task);
  return isLead ? "." : [...folders, ...files].join(", ");
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
  const links = folders.flatMap((folder) =>
    (listings.get(folder)?.links ?? []).map((name) => pathIn(folder, name)),
  );
  return [
    ...words.flatMap((word) => matchFinding(word, [...searches.values()], handedOn)),
    ...missing.map(
      ({ part, why }) => `Missing: ${[...part.folders, ...part.files].join(", ")}. ${why}`,
    ),
    ...failures.map(({ path, why }) => `${path}: ${why}`),
    ...leftOut(position, unreadFiles, "file"),
    ...leftOut(position, unlistedFolders, "folder"),
    ...(links.length === 0 ? [] : [`Symbolic links, not followed: ${links.join(", ")}`]),
  ];
}

function leftOut(position: Position, amount: number, thing: string): readonly string[] {
  if (amount === 0) return [];
  return [`${partName(position)}: ${count(amount, thing)} left out, too many for one surveyor.`];
}

/**
 * Where a word was found. What lies in folders that were handed on is left to those who got them.
 */
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
  const amount = `${count(matches.length, "line")} in ${count(files.size, "file")}`;
  const atLeast = ofWord.every((search) => search.isComplete) ? "" : "at least ";
  const shown = matches
    .slice(0, MAX_SHOWN_MATCHES)
    .map((match) => `\`${match.path}:${match.line}\``);
  return [`"${word}": ${atLeast}${amount}, first ${shown.join(", ")}`];
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
