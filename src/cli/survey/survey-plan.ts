// The rules of the offline planner: from the state of an agent to its next calls. An agent lists
// its folders, delegates subfolders once, reads the rest, and takes over refused parts. The lead
// covers nothing itself while it can delegate. For the story the lead begins with a wrong path, and
// asks for one subagent more than its limit allows.

import type { JsonObject } from "espalier";

import { formatTask, hasAnswer, READ_TOOL, ROOT, WRONG_PATH } from "./survey-position.ts";
import type { Position, SurveyPart } from "./survey-position.ts";
import { MAX_SURVEY_PARTS, SKIMMER, SPAWN_TOOL, SURVEYOR, WHOLE_TOOL } from "./survey-roles.ts";

interface SurveyCall {
  readonly toolName: string;
  readonly input: JsonObject;
}

const MAX_FOLDERS = 40;
const MAX_FILES = 24;
const FILES_PER_STEP = 8;
const FILES_PER_SKIM = 2;

const hasDelegated = ({ delegated, refused }: Position): boolean =>
  delegated.length + refused.length > 0;
const isFolder = (path: string): boolean => path.endsWith("/");

/** Returns the next calls. Without calls, only the report is left. */
export function planCalls(position: Position): readonly SurveyCall[] {
  const { isLead, isLastStep, answered, part, texts } = position;
  const open = (toolName: string, paths: readonly string[]): readonly SurveyCall[] =>
    paths
      .map((path) => ({ toolName, input: { path } }))
      .filter(({ input }) => !hasAnswer(position, toolName, input));
  if (isLastStep) return [];
  if (isLead && answered.size === 0) return open("folder_list", [WRONG_PATH]);
  const covered = findCoverage(position);
  const entered = part.habit === "skims" ? part.paths : covered;
  const folders = entered.filter(isFolder).slice(0, MAX_FOLDERS);
  const looks = open("folder_list", isLead ? [ROOT, ...folders] : folders);
  if (looks.length > 0) return looks;
  const spawns = divideWork(position).map((each) => ({
    toolName: SPAWN_TOOL,
    input: { role: each.habit === "skims" ? SKIMMER : SURVEYOR, task: formatTask(each) },
  }));
  const [longest] = [...texts].toSorted(([, left], [, right]) => right.length - left.length);
  const hasAsked = [...answered].some((call) => call.startsWith(WHOLE_TOOL));
  const isAsking = part.habit === "asks" && !hasAsked && longest !== undefined;
  const files = covered.filter((path) => !isFolder(path)).slice(0, MAX_FILES);
  const perStep = part.habit === "skims" ? FILES_PER_SKIM : FILES_PER_STEP;
  const reads = open(READ_TOOL, files).slice(0, perStep);
  return [...spawns, ...(isAsking ? open(WHOLE_TOOL, [longest[0]]) : []), ...reads];
}

/** Returns the folders and files that the agent covers itself, as far as it knows them. */
function findCoverage(position: Position): readonly string[] {
  const { isLead, canDelegate, part, refused, delegated, inside } = position;
  const parts = isLead && canDelegate ? refused : [part, ...refused];
  const covered = new Set(parts.flatMap(({ paths }) => paths));
  const handedOn = new Set(delegated.flatMap(({ paths }) => paths));
  const isDeep = !canDelegate || hasDelegated(position);
  // Entries that are added during the iteration are visited, too: subfolders of subfolders.
  for (const path of covered)
    for (const below of inside.get(path) ?? [])
      if (!handedOn.has(below) && (isDeep || !isFolder(below))) covered.add(below);
  return [...covered];
}

/** Returns the paths that the agent covers and has not read. */
export function findUnread(position: Position): readonly string[] {
  return findCoverage(position).filter(
    (path) => !hasAnswer(position, isFolder(path) ? "folder_list" : READ_TOOL, { path }),
  );
}

/**
 * Returns the parts that the agent delegates next. A surveyor has one, all of its subfolders. The
 * lead puts neighbours together, so that at most one part exceeds its limit.
 */
function divideWork(position: Position): readonly SurveyPart[] {
  const { isLead, canDelegate, part, inside } = position;
  if (!canDelegate || hasDelegated(position)) return [];
  const entries = part.paths.flatMap((path) => inside.get(path) ?? []);
  const units = isLead ? entries : entries.filter(isFolder);
  const count = Math.min(isLead ? MAX_SURVEY_PARTS + 1 : 1, units.length);
  const skimmed = Math.min(count, MAX_SURVEY_PARTS) - 1;
  return Array.from({ length: count }, (_, index) => {
    const [start, end] = [index, index + 1].map((at) => Math.round((at * units.length) / count));
    const skims = index === skimmed ? "skims" : undefined;
    const habit = index === 0 ? "asks" : skims;
    const paths = units.slice(start, end);
    return { paths, question: part.question, habit: isLead ? habit : undefined };
  });
}
