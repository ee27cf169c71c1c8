// The rules of the offline planner: from what an agent knows to what it does next. Pure.
//
// An agent covers folders and files. It lists what it covers, hands subfolders to subagents once,
// reads what is left, and takes over what no other would do. One rule for both roles: the lead
// is an agent that covers nothing itself and hands on everything.

import { DEFAULT_SUBAGENT_LIMITS, type JsonObject } from "espalier";

import {
  LIST,
  READ,
  SEARCH,
  searchKey,
  SPAWN_TOOL,
  type Knowledge,
  type KnownFolder,
} from "./survey-knowledge.ts";
import { partOf, taskFor, wordsToFind, type SurveyPart } from "./survey-part.ts";

/** What an agent has to work with. */
export interface Position {
  readonly knowledge: Knowledge;
  /** Whether it leads the survey, or surveys a part. */
  readonly isLead: boolean;
  /** The role that it may spawn; undefined: none, or none any more. */
  readonly subagentRole: string | undefined;
}

export interface SurveyCall {
  readonly toolName: string;
  readonly input: JsonObject;
}

/**
 * The next calls, and the words that go with them; no calls: nothing is left to do but to report.
 */
export interface SurveyPlan {
  readonly remark: string;
  readonly calls: readonly SurveyCall[];
}

/** What an agent covers itself, at the end of a survey. */
export interface Coverage {
  readonly folders: readonly string[];
  readonly files: readonly string[];
  /** Files that were left out because there are too many. */
  readonly unreadFiles: number;
  /** Folders that were left out because there are too many. */
  readonly unlistedFolders: number;
  readonly words: readonly string[];
}

const { maxTotalSubagents: MAX_SUBAGENTS, maxBreadthPerParent: MAX_PARTS } =
  DEFAULT_SUBAGENT_LIMITS;
const MAX_READS = 40;
const MAX_LISTS = 40;
const FILES_PER_PART = 4;

export function nextPlan(position: Position): SurveyPlan {
  const { knowledge, subagentRole, isLead } = position;
  const lists = listCalls(position);
  if (lists.length > 0) return { remark: "I look at what there is.", calls: lists };
  const work = [...readCalls(position), ...searchCalls(position)];
  if (knowledge.hasDelegated || subagentRole === undefined)
    return { remark: "I read.", calls: work };
  const parts = partsToDelegate(position);
  const spawns = parts.map((part) => ({
    toolName: SPAWN_TOOL,
    input: { role: subagentRole, task: taskFor(part) },
  }));
  const remark =
    parts.length === 0 ? "I read." : `I hand on ${parts.length} of ${isLead ? "the" : "my"} parts.`;
  return { remark, calls: [...spawns, ...work] };
}

/** What the agent covers, as far as it knows. */
export function coverageOf(position: Position): Coverage {
  const { knowledge } = position;
  const folders = coveredFolders(position);
  const named = [...ownPart(position).files, ...knowledge.refused.flatMap((part) => part.files)];
  const found = folders.flatMap((folder) => filesIn(knowledge.listings.get(folder), folder));
  const files = [...new Set([...named, ...found])];
  return {
    folders: folders.slice(0, MAX_LISTS),
    files: files.slice(0, MAX_READS),
    unreadFiles: Math.max(0, files.length - MAX_READS),
    unlistedFolders: Math.max(0, folders.length - MAX_LISTS),
    words: wordsToFind(questionOf(position)),
  };
}

/** The path of something in a folder. */
export function pathIn(folder: string, name: string): string {
  return folder === "." ? name : `${folder}/${name}`;
}

export function questionOf(position: Position): string {
  const { task } = position.knowledge;
  return position.isLead ? task : partOf(task).question;
}

const ROOT = ".";

/** What was given to the agent itself. A lead that can delegate keeps nothing for itself. */
function ownPart({ knowledge, isLead, subagentRole }: Position): SurveyPart {
  if (!isLead) return partOf(knowledge.task);
  const folders = subagentRole === undefined ? [ROOT] : [];
  return { folders, files: [], question: knowledge.task, maxSubagents: MAX_SUBAGENTS };
}

/** How many subagents there may be for what the agent covers: the lead knows it of the whole tree, a surveyor from its task. */
export function subagentsAllowed({ knowledge, isLead }: Omit<Position, "subagentRole">): number {
  return isLead ? MAX_SUBAGENTS : partOf(knowledge.task).maxSubagents;
}

function coveredFolders(position: Position): readonly string[] {
  const { knowledge, subagentRole } = position;
  const covered = new Set([
    ...ownPart(position).folders,
    ...knowledge.refused.flatMap((part) => part.folders),
  ]);
  if (subagentRole !== undefined && !knowledge.hasDelegated) return [...covered];
  const handedOn = new Set(
    [...knowledge.reports, ...knowledge.missing].flatMap(({ part }) => part.folders),
  );
  // A set grows while it is walked: subfolders of subfolders come up in turn.
  for (const folder of covered) {
    const below = foldersIn(knowledge.listings.get(folder), folder);
    for (const path of below) if (!handedOn.has(path)) covered.add(path);
  }
  return [...covered];
}

function listCalls(position: Position): readonly SurveyCall[] {
  const { knowledge, isLead } = position;
  const { listings, failures } = knowledge;
  const failed = new Set(failures.map(({ path }) => path));
  const wanted = [...(isLead ? [ROOT] : []), ...coverageOf(position).folders];
  return [...new Set(wanted)]
    .filter((path) => !listings.has(path) && !failed.has(path))
    .map((path) => ({ toolName: LIST, input: { path } }));
}

function readCalls(position: Position): readonly SurveyCall[] {
  const { texts, failures } = position.knowledge;
  const failed = new Set(failures.map(({ path }) => path));
  return coverageOf(position)
    .files.filter((path) => !texts.has(path) && !failed.has(path))
    .map((path) => ({ toolName: READ, input: { path } }));
}

function searchCalls(position: Position): readonly SurveyCall[] {
  const { knowledge } = position;
  const { folders, files, words } = coverageOf(position);
  const { failures, searches } = knowledge;
  const failed = new Set(failures.map(({ path }) => path));
  const alone = files.filter((file) => !folders.some((folder) => isBelow(file, folder)));
  const outermost = folders.filter(
    (path) => !folders.some((other) => other !== path && isBelow(path, other)),
  );
  return words
    .flatMap((text) => [...outermost, ...alone].map((path) => ({ text, path })))
    .filter(({ text, path }) => !searches.has(searchKey(text, path)) && !failed.has(path))
    .map((input) => ({ toolName: SEARCH, input }));
}

/** Whether a path lies in a folder, at any depth. */
export function isBelow(path: string, folder: string): boolean {
  return folder === ROOT || path.startsWith(`${folder}/`);
}

function partsToDelegate(position: Position): readonly SurveyPart[] {
  const { knowledge, isLead } = position;
  const question = questionOf(position);
  const from = isLead ? [ROOT] : ownPart(position).folders;
  const folders = from.flatMap((folder) => foldersIn(knowledge.listings.get(folder), folder));
  const files = isLead ? filesIn(knowledge.listings.get(ROOT), ROOT) : [];
  const allowed = subagentsAllowed(position);
  const parts = divide(folders, files, Math.min(MAX_PARTS, allowed));
  // What is not spent on the parts themselves is for their own parts.
  const maxSubagents = Math.floor((allowed - parts.length) / parts.length);
  return parts.map((part) => ({ ...part, question, maxSubagents }));
}

/**
 * At most so many parts of folders and the files beside them; if there are more, neighbours go
 * together. Files alone are dealt out.
 */
function divide(
  folders: readonly string[],
  files: readonly string[],
  maxParts: number,
): readonly Pick<SurveyPart, "folders" | "files">[] {
  if (folders.length === 0) {
    const count = Math.min(maxParts, Math.ceil(files.length / FILES_PER_PART));
    return chunks(files, count).map((chunk) => ({ folders: [], files: chunk }));
  }
  const units = [
    ...folders.map((folder) => ({ folders: [folder], files: [] })),
    ...(files.length === 0 ? [] : [{ folders: [], files }]),
  ];
  return chunks(units, Math.min(maxParts, units.length)).map((chunk) => ({
    folders: chunk.flatMap((unit) => unit.folders),
    files: chunk.flatMap((unit) => unit.files),
  }));
}

/** Neighbours in `count` groups of nearly one size. */
function chunks<T>(items: readonly T[], count: number): readonly (readonly T[])[] {
  return Array.from({ length: count }, (_, index) =>
    items.slice(
      Math.round((index * items.length) / count),
      Math.round(((index + 1) * items.length) / count),
    ),
  );
}

function foldersIn(listing: KnownFolder | undefined, folder: string): readonly string[] {
  return (listing?.folders ?? []).map((name) => pathIn(folder, name));
}

function filesIn(listing: KnownFolder | undefined, folder: string): readonly string[] {
  return (listing?.files ?? []).map(({ name }) => pathIn(folder, name));
}
