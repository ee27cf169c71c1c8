// Reads what an agent of a survey knows from the request that its model receives: its part of the
// folder, and the answers to its calls.

import { posix } from "node:path";

import { type ModelRequest, type ToolCall, DEFAULT_SUBAGENT_LIMITS } from "espalier/extend";
import { z } from "zod";

import { surveySchema, type Survey } from "./survey-roles.ts";

const names = z.array(z.string());
const partSchema = z.object({
  folders: names,
  files: names,
  question: z.string(),
  subagents: z.number(),
});
/** Folders and files to survey, the question, and how many subagents may be started for them. */
export type SurveyPart = Readonly<z.infer<typeof partSchema>>;

const listingSchema = z.object({
  folders: names,
  files: z.array(z.object({ name: z.string() })),
  links: names.default([]),
});
const searchSchema = z.object({
  text: z.string(),
  matches: z.array(z.object({ path: z.string(), line: z.number() })),
  isComplete: z.boolean(),
});
const inputSchema = z.object({ path: z.string().default(""), task: z.string().default("") });
const endingSchema = z.object({
  outcome: z.string(),
  explanation: z.string().optional(),
  output: surveySchema.optional().catch(undefined),
});

/** The state of one agent of a survey, as its conversation shows it. */
export class Position {
  /** An agent without `Finish` is the lead. */
  readonly isLead: boolean;
  readonly canDelegate: boolean;
  readonly part: SurveyPart;
  /** Answered calls: tool, space, arguments. */
  readonly answered = new Set<string>();
  /** Paths of subfolders, by folder. */
  readonly folders = new Map<string, readonly string[]>();
  /** Paths of files, by folder. */
  readonly files = new Map<string, readonly string[]>();
  /** Beginnings of files, by path. */
  readonly texts = new Map<string, string>();
  readonly searches: z.infer<typeof searchSchema>[] = [];
  readonly reports: Survey[] = [];
  /** Parts that a subagent took over. */
  readonly delegated: SurveyPart[] = [];
  /** Parts whose subagent was refused. */
  readonly refused: SurveyPart[] = [];
  /** Sentences about the files that could not be read. */
  readonly problems: string[] = [];

  constructor({ messages, tools }: ModelRequest) {
    this.isLead = !tools.some(({ name }) => name === "Finish");
    const start = messages.findIndex(({ role }) => role === "assistant");
    const before = start === -1 ? messages : messages.slice(0, start);
    const task = before.findLast(({ role }) => role === "user")?.text ?? "";
    const { maxTotalSubagents } = DEFAULT_SUBAGENT_LIMITS;
    this.part = this.isLead ? wholeFolder(task, maxTotalSubagents) : parseTask(task);
    this.canDelegate = this.part.subagents > 0 && tools.some(({ name }) => name === SPAWN_TOOL);
    const replies = messages.filter((message) => message.role === "assistant");
    const calls = new Map(
      replies.flatMap(({ toolCalls }) => toolCalls.map((call) => [call.callId, call])),
    );
    for (const message of messages) {
      const call = message.role === "tool" ? calls.get(message.callId) : undefined;
      if (call !== undefined) this.#readAnswer(call, message.text);
    }
  }

  #readAnswer({ toolName, argumentsText }: ToolCall, answer: string): void {
    this.answered.add(`${toolName} ${argumentsText}`);
    const { path, task } = inputSchema.parse(tryParse(argumentsText) ?? {});
    const value = tryParse(answer);
    if (toolName === SPAWN_TOOL) return this.#readEnding(parseTask(task), value);
    const listing = listingSchema.safeParse(value).data;
    const search = searchSchema.safeParse(value).data;
    const inside = (name: string): string => posix.join(path, name);
    if (toolName === "folder_list" && listing !== undefined) {
      this.folders.set(path, listing.folders.map(inside));
      this.files.set(
        path,
        listing.files.map(({ name }) => inside(name)),
      );
      this.problems.push(...listing.links.map((name) => `${inside(name)}: a link, not followed`));
    } else if (toolName === "folder_search" && search !== undefined) this.searches.push(search);
    else if (toolName === "folder_read" && answer.startsWith(`${path} (`))
      this.texts.set(path, answer.slice(answer.indexOf("\n") + 1));
    else this.problems.push(`${path}: ${answer}`);
  }

  /** A refusal is an instruction in words. The outcome of a subagent is JSON. */
  #readEnding(part: SurveyPart, value: unknown): void {
    const ending = endingSchema.safeParse(value).data;
    (ending === undefined ? this.refused : this.delegated).push(part);
    if (ending?.output !== undefined) this.reports.push(ending.output);
    else if (ending !== undefined)
      this.problems.push(`Missing: ${namePart(part)}. ${ending.explanation ?? ending.outcome}`);
  }
}

export const SPAWN_TOOL = "SpawnSubagent";

/** Returns the task for a surveyor. Its last line is the part as JSON, whatever the names are. */
export function formatTask(part: SurveyPart): string {
  return `Survey ${namePart(part)}.\n${JSON.stringify(part)}`;
}

/** Returns the paths of a part in one line. */
export function namePart({ folders, files }: SurveyPart): string {
  return [...folders, ...files].join(", ");
}

function parseTask(task: string): SurveyPart {
  const part = partSchema.safeParse(tryParse(task.slice(task.lastIndexOf("\n") + 1)));
  return part.success ? part.data : wholeFolder(task, 0);
}

function wholeFolder(question: string, subagents: number): SurveyPart {
  return { folders: ["."], files: [], question, subagents };
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
