// The rules of the offline planner: from the state of an agent to its next calls. An agent lists
// its folders, delegates subfolders once, reads the rest, and takes over what was refused. The lead
// covers nothing itself while it can delegate.

import type { JsonObject } from "espalier";
import { DEFAULT_SUBAGENT_LIMITS } from "espalier/extend";

import { formatTask, SPAWN_TOOL, type Position, type SurveyPart } from "./survey-position.ts";
import { SURVEYOR } from "./survey-roles.ts";

export interface SurveyCall {
  readonly toolName: string;
  readonly input: JsonObject;
}

/** The next calls, with a remark. Without calls, only the report is left. */
export type SurveyPlan = readonly [remark: string, calls: readonly SurveyCall[]];

const MAX_FOLDERS = 40;
const MAX_FILES = 40;
const MAX_WORDS = 3;
const FILES_PER_PART = 4;

export function planSurvey(position: Position): SurveyPlan {
  const { isLead, canDelegate, delegated, refused, part, answered } = position;
  const isOpen = ({ toolName, input }: SurveyCall): boolean =>
    !answered.has(`${toolName} ${JSON.stringify(input)}`);
  const { folders, files } = findCoverage(position);
  const listed = new Set(isLead ? [".", ...folders] : folders);
  const words = isLead ? quotedWords(part.question) : [];
  const looks = [
    ...[...listed].map((path) => ({ toolName: "folder_list", input: { path } })),
    ...words.map((text) => ({ toolName: "folder_search", input: { text, path: "." } })),
  ].filter(isOpen);
  if (looks.length > 0) return ["Listing the folder.", looks];
  const reads = files.map((path) => ({ toolName: "folder_read", input: { path } }));
  const hasDelegated = delegated.length + refused.length > 0;
  const tasks = canDelegate && !hasDelegated ? divideWork(position).map(formatTask) : [];
  const spawns = tasks.map((task) => ({ toolName: SPAWN_TOOL, input: { role: SURVEYOR, task } }));
  const remark = tasks.length === 0 ? "Reading files." : `Delegating ${tasks.length} parts.`;
  return [remark, [...spawns, ...reads.filter(isOpen)]];
}

/** Returns what the agent covers itself, and how many folders and files exceed its share. */
export function findCoverage(position: Position): {
  readonly folders: readonly string[];
  readonly files: readonly string[];
  readonly leftOut: number;
} {
  const { isLead, canDelegate, part, refused, delegated } = position;
  const parts = isLead && canDelegate ? refused : [part, ...refused];
  const folders = new Set(parts.flatMap((each) => each.folders));
  const handedOn = new Set(delegated.flatMap((each) => each.folders));
  // A set grows while it is walked: subfolders of subfolders come up in turn.
  if (!canDelegate || delegated.length + refused.length > 0)
    for (const folder of folders) {
      const below = position.folders.get(folder) ?? [];
      below.filter((path) => !handedOn.has(path)).forEach((path) => folders.add(path));
    }
  const found = [...folders].flatMap((folder) => position.files.get(folder) ?? []);
  const files = [...new Set([...parts.flatMap((each) => each.files), ...found])];
  const leftOut = Math.max(0, folders.size - MAX_FOLDERS) + Math.max(0, files.length - MAX_FILES);
  return { folders: [...folders].slice(0, MAX_FOLDERS), files: files.slice(0, MAX_FILES), leftOut };
}

/**
 * Returns parts of the subfolders, and of the files that the lead found beside them. Neighbours
 * share a part if there are too many. Each part gets an even share of the subagents that are left.
 */
function divideWork({ isLead, part, folders, files }: Position): readonly SurveyPart[] {
  const subfolders = part.folders.flatMap((folder) => folders.get(folder) ?? []);
  const loose = isLead ? (files.get(".") ?? []) : [];
  const isFlat = subfolders.length === 0;
  const grouped = isFlat ? loose.map((file) => [file]) : [loose];
  const units = [...subfolders.map((folder) => [folder]), ...grouped].filter(
    ({ length }) => length > 0,
  );
  const most = isFlat ? Math.ceil(loose.length / FILES_PER_PART) : units.length;
  const count = Math.min(DEFAULT_SUBAGENT_LIMITS.maxBreadthPerParent, part.subagents, most);
  const subagents = Math.floor((part.subagents - count) / count);
  return Array.from({ length: count }, (_, index) => {
    const start = Math.round((index * units.length) / count);
    const paths = units.slice(start, Math.round(((index + 1) * units.length) / count)).flat();
    const inside = paths.filter((path) => subfolders.includes(path));
    return { ...part, folders: inside, files: paths.slice(inside.length), subagents };
  });
}

/** Returns the words in quotation marks: what a question asks to look for. */
function quotedWords(question: string): readonly string[] {
  const quoted = [...question.matchAll(/"([^"\n]+)"|“([^“”\n]+)”|`([^`\n]+)`/g)];
  const words = quoted.map(([, straight, curly, code]) => straight ?? curly ?? code ?? "");
  return [...new Set(words)].slice(0, MAX_WORDS);
}
