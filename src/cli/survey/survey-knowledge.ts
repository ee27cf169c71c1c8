// What an agent knows so far, read from the conversation that its model was sent: the calls it
// made, and the answers as text.

import type { Message } from "espalier";
import type { ToolCall } from "espalier/extend";
import { z } from "zod";

import { partOf, type SurveyPart } from "./survey-part.ts";

export const LIST = "folder_list";
export const READ = "folder_read";
export const SEARCH = "folder_search";
export const SPAWN_TOOL = "SpawnSubagent";
export const FINISH = "Finish";

export interface Knowledge {
  /** The task of the agent. */
  readonly task: string;
  /** Folders that were listed, by path. */
  readonly listings: ReadonlyMap<string, KnownFolder>;
  /** Beginnings of files that were read, by path. */
  readonly texts: ReadonlyMap<string, string>;
  /** Calls that failed, with what was said of it. */
  readonly failures: readonly KnownFailure[];
  /** Searches that were made, by `searchKey`. */
  readonly searches: ReadonlyMap<string, KnownSearch>;
  readonly hasDelegated: boolean;
  /** Parts that subagents reported. */
  readonly reports: readonly KnownReport[];
  /** Parts whose subagent was not started. */
  readonly refused: readonly SurveyPart[];
  /** Parts whose subagent ended without a report, and why. */
  readonly missing: readonly { readonly part: SurveyPart; readonly why: string }[];
}

const folderSchema = z.object({
  folder: z.string(),
  folders: z.array(z.string()),
  files: z.array(z.object({ name: z.string(), bytes: z.number() })),
  links: z.array(z.string()).default([]),
  notShown: z.number().default(0),
});
export type KnownFolder = Readonly<z.infer<typeof folderSchema>>;

const searchSchema = z.object({
  text: z.string(),
  matches: z.array(z.object({ path: z.string(), line: z.number(), text: z.string() })),
  isComplete: z.boolean(),
});
export type KnownSearch = Readonly<z.infer<typeof searchSchema>>;

const reportSchema = z.object({
  folder: z.string(),
  purpose: z.string(),
  files: z.array(z.object({ path: z.string(), purpose: z.string() })),
  findings: z.array(z.string()),
});
interface KnownReport extends Readonly<z.infer<typeof reportSchema>> {
  readonly part: SurveyPart;
}

interface KnownFailure {
  readonly path: string;
  readonly why: string;
}

const endingSchema = z.object({
  outcome: z.string(),
  explanation: z.string().optional(),
  output: z.unknown().optional(),
});

/** By what a search is remembered. */
export function searchKey(text: string, path: string): string {
  return JSON.stringify([text, path]);
}

/** Reads a conversation. Pure; of text that it cannot make sense of it knows nothing. */
export function knowledgeOf(messages: readonly Message[]): Knowledge {
  const calls = answeredCalls(messages);
  const spawns = calls.filter(({ call }) => call.toolName === SPAWN_TOOL).map(outcomeOf);
  return {
    task: taskOf(messages),
    listings: new Map(calls.flatMap(listingOf)),
    texts: new Map(calls.flatMap(textOf)),
    failures: calls.flatMap(failureOf),
    searches: new Map(calls.flatMap(searchOf)),
    hasDelegated: spawns.length > 0,
    reports: spawns.flatMap((spawn) => (spawn.kind === "reported" ? [spawn.report] : [])),
    refused: spawns.flatMap((spawn) => (spawn.kind === "refused" ? [spawn.part] : [])),
    missing: spawns.flatMap((spawn) =>
      spawn.kind === "missing" ? [{ part: spawn.part, why: spawn.why }] : [],
    ),
  };
}

/** What an agent reads besides its task comes before it. */
function taskOf(messages: readonly Message[]): string {
  const spoken = messages.findIndex(({ role }) => role === "assistant");
  const before = spoken < 0 ? messages : messages.slice(0, spoken);
  return before.findLast(({ role }) => role === "user")?.text ?? "";
}

interface AnsweredCall {
  readonly call: ToolCall;
  readonly answer: string;
}

function answeredCalls(messages: readonly Message[]): readonly AnsweredCall[] {
  const answered: AnsweredCall[] = [];
  let open: readonly ToolCall[] = [];
  for (const message of messages) {
    if (message.role === "assistant") open = message.toolCalls;
    if (message.role !== "tool") continue;
    const call = open.find(({ callId }) => callId === message.callId);
    if (call !== undefined) answered.push({ call, answer: message.text });
  }
  return answered;
}

type SpawnOutcome =
  | { readonly kind: "reported"; readonly report: KnownReport }
  | { readonly kind: "refused"; readonly part: SurveyPart }
  | { readonly kind: "missing"; readonly part: SurveyPart; readonly why: string };

/** A refusal is an instruction in words; what a subagent came to is JSON. */
function outcomeOf({ call, answer }: AnsweredCall): SpawnOutcome {
  const part = partOf(textArgument(call, "task"));
  const ending = endingSchema.safeParse(json(answer));
  if (!ending.success) return { kind: "refused", part };
  const report = reportSchema.safeParse(ending.data.output);
  if (report.success) return { kind: "reported", report: { ...report.data, part } };
  return { kind: "missing", part, why: ending.data.explanation ?? ending.data.outcome };
}

function listingOf({ call, answer }: AnsweredCall): readonly (readonly [string, KnownFolder])[] {
  if (call.toolName !== LIST) return [];
  const folder = folderSchema.safeParse(json(answer));
  return folder.success ? [[textArgument(call, "path"), folder.data]] : [];
}

function searchOf({ call, answer }: AnsweredCall): readonly (readonly [string, KnownSearch])[] {
  if (call.toolName !== SEARCH) return [];
  const search = searchSchema.safeParse(json(answer));
  const key = searchKey(textArgument(call, "text"), textArgument(call, "path"));
  return search.success ? [[key, search.data]] : [];
}

function textOf({ call, answer }: AnsweredCall): readonly (readonly [string, string])[] {
  const path = textArgument(call, "path");
  if (call.toolName !== READ || !isReadWell(path, answer)) return [];
  return [[path, answer.slice(answer.indexOf("\n") + 1)]];
}

/** The first line of what was read names the file. */
function isReadWell(path: string, answer: string): boolean {
  return answer.startsWith(`${path} (`) && answer.includes("\n");
}

function failureOf({ call, answer }: AnsweredCall): readonly KnownFailure[] {
  const path = textArgument(call, "path");
  const hasFailed =
    (call.toolName === LIST && !folderSchema.safeParse(json(answer)).success) ||
    (call.toolName === READ && !isReadWell(path, answer)) ||
    (call.toolName === SEARCH && !searchSchema.safeParse(json(answer)).success);
  return hasFailed ? [{ path, why: answer }] : [];
}

function textArgument(call: ToolCall, name: string): string {
  const fields = z.record(z.string(), z.unknown()).safeParse(json(call.argumentsText));
  const value = fields.success ? fields.data[name] : undefined;
  return typeof value === "string" ? value : "";
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
