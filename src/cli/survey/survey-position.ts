// Reads the knowledge of an agent in a survey from the request to its model: its part of the
// folder, and the answers to its calls.

import { posix } from "node:path";

import type { JsonObject } from "espalier";
import type { ModelRequest, ToolCall } from "espalier/extend";
import { z } from "zod";

import { SPAWN_TOOL, surveySchema, WHOLE_TOOL, type Survey } from "./survey-roles.ts";

export const READ_TOOL = "folder_read";
export const ROOT = "./";
/** A path that the tools refuse. */
export const WRONG_PATH = "/";
const MAX_NAMES = 3;

const names = z.array(z.string());
const partSchema = z.object({
  /** Paths. Those of folders end with a slash. */
  paths: names,
  question: z.string(),
  /** Makes the agent ask to read a file whole, or read few files per step. */
  habit: z.enum(["asks", "skims"]).optional(),
});
/** The part of an agent in the survey. */
export type SurveyPart = Readonly<z.infer<typeof partSchema>>;

const listingSchema = z.object({ folders: names, files: z.array(z.object({ name: z.string() })) });
const inputSchema = z.object({ path: z.string().default(""), task: z.string().default("") });
const endingSchema = z.object({
  outcome: z.string(),
  explanation: z.string().optional(),
  output: surveySchema.optional().catch(undefined),
});

/** The state of an agent in a survey, as its conversation shows it. */
export type Position = ReturnType<typeof readPosition>;

export function readPosition({ messages, tools }: ModelRequest) {
  const start = messages.findIndex(({ role }) => role === "assistant");
  const before = start === -1 ? messages : messages.slice(0, start);
  const position = {
    /** An agent without `Finish` is the lead. */
    isLead: !tools.some(({ name }) => name === "Finish"),
    /** True if the budget allows no further step. */
    isLastStep: messages.at(-1)?.text.startsWith("This is your last step") === true,
    canDelegate: tools.some(({ name }) => name === SPAWN_TOOL),
    part: parseTask(before.findLast(({ role }) => role === "user")?.text ?? ""),
    /** Answered calls: tool, space, arguments. */
    answered: new Set<string>(),
    /** Paths in a folder, by its path. */
    inside: new Map<string, readonly string[]>(),
    /** Beginnings of files, by path. */
    texts: new Map<string, string>(),
    /** Parts that a subagent took over. */
    delegated: new Array<SurveyPart>(),
    /** Parts whose subagent was refused. */
    refused: new Array<SurveyPart>(),
    reports: new Array<Survey>(),
    findings: new Array<string>(),
    binaryFiles: 0,
  };
  const calls = messages.flatMap((message) =>
    message.role === "assistant" ? message.toolCalls : [],
  );
  for (const message of messages) {
    if (message.role !== "tool") continue;
    const call = calls.find(({ callId }) => callId === message.callId);
    if (call !== undefined) recordCall(position, call, message.text);
  }
  return position;
}

function recordCall(position: Position, { toolName, argumentsText }: ToolCall, answer: string) {
  const { answered, inside, findings } = position;
  answered.add(`${toolName} ${argumentsText}`);
  const { path, task } = inputSchema.parse(tryParse(argumentsText) ?? {});
  const value = tryParse(answer);
  const listing = listingSchema.safeParse(value).data;
  if (toolName === SPAWN_TOOL) readEnding(position, parseTask(task), value);
  else if (listing !== undefined) {
    const folders = listing.folders.map((name) => `${name}/`);
    const names = [...folders, ...listing.files.map(({ name }) => name)];
    const paths = names.map((name) => posix.join(path, name));
    inside.set(path, paths);
  } else if (answer.startsWith(`${path} (`)) readFile(position, path, answer);
  else if (toolName === WHOLE_TOOL) findings.push(`${path}: reading it whole was denied`);
  // A corrected mistake is not a finding.
  else if (path !== WRONG_PATH) findings.push(`${path}: ${answer}`);
}

/**
 * Reads the answer of `folder_read`: a line with name and size, then the text unless the file is
 * binary.
 */
function readFile(position: Position, path: string, answer: string) {
  const end = answer.indexOf("\n");
  if (end === -1) position.binaryFiles += 1;
  else position.texts.set(path, answer.slice(end + 1));
}

/** Reads the answer of a delegation: a refusal is text, and the outcome of a subagent is JSON. */
function readEnding(
  { refused, delegated, reports, findings }: Position,
  part: SurveyPart,
  value: unknown,
) {
  const ending = endingSchema.safeParse(value).data;
  (ending === undefined ? refused : delegated).push(part);
  if (ending?.output !== undefined) reports.push(ending.output);
  else if (ending !== undefined)
    findings.push(`Missing: ${formatPartName(part)}. ${ending.explanation ?? ending.outcome}`);
}

export function hasAnswer({ answered }: Position, toolName: string, input: JsonObject): boolean {
  return answered.has(`${toolName} ${JSON.stringify(input)}`);
}

/**
 * Returns the task for a surveyor. Its last line is the part as JSON, so any names are possible.
 */
export function formatTask(part: SurveyPart): string {
  return `Survey ${formatPartName(part)}\n${JSON.stringify(part)}`;
}

export function formatPartName({ paths }: SurveyPart): string {
  const more = paths.length > MAX_NAMES ? [`${paths.length - MAX_NAMES} more`] : [];
  return [...paths.slice(0, MAX_NAMES), ...more].join(", ");
}

/** Returns the part in a task. The task of the lead is a question about the whole folder. */
function parseTask(task: string): SurveyPart {
  const part = partSchema.safeParse(tryParse(task.slice(task.lastIndexOf("\n") + 1)));
  return part.success ? part.data : { paths: [ROOT], question: task };
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
