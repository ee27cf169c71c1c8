// Roles for runs that workers in separate processes execute, with a deterministic model: its output
// depends only on its input, so a run has one text whatever happens to its workers. Each effect is
// a line in a file at its beginning and at its end.

import { setTimeout } from "node:timers/promises";

import { z } from "zod";

import { defineAgent, defineTool, type Model } from "../../src/index.ts";
import type { AgentRole } from "../../src/index.ts";
import { toCallId, type ModelRequest } from "../../src/extend.ts";
import { isRecord } from "../../src/kernel/json.ts";
import { buildReplyMessage, type ReplyPiece } from "../../src/protocol/reply-message.ts";
import { appendLine } from "./line-log.ts";

/** How large a run is, and how long its effects take. */
export interface SurveyOptions {
  /** Where effects are noted. */
  readonly log: string;
  readonly modelMs: number;
  readonly toolMs: number;
}

/** Room for a survey. */
export const SURVEY_LIMITS = { maxDepth: 3, maxBreadthPerParent: 20, maxTotalSubagents: 200 };

/** The tasks of the survey: `<run>|<sections>|<leaves of each>|<asks?>`. */
export function surveyTask(
  name: string,
  {
    sections = 4,
    leaves = 5,
    asks = false,
  }: { sections?: number; leaves?: number; asks?: boolean } = {},
): string {
  return [name, sections, leaves, asks ? "asks" : "free"].join("|");
}

/** The text of an uninterrupted survey. */
export function surveyText(task: string): string {
  const [name = "", sections = "", leaves = "", asks] = task.split("|");
  const parts = Array.from({ length: Number(sections) }, (_, section) => {
    const path = `${name}/${section}`;
    if (leaves === "0") return `${path}=seen ${path}`;
    const below = Array.from(
      { length: Number(leaves) },
      (_none, leaf) => `${path}/${leaf}=seen ${path}/${leaf}`,
    );
    return `${path}[${below.join(" ")}]`;
  });
  return `${name}{${parts.join(" ")}}${asks === "asks" ? ` paid ${name}` : ""}`;
}

/**
 * Roles `lead`, `section`, `leaf`, and `broke`, which cannot run with a cost limit. If its task
 * asks for it, the lead pays at the end, after an approval.
 */
export function surveyRoles(options: SurveyOptions): readonly AgentRole[] {
  const effect = async <T>(
    key: string,
    delayMs: number,
    signal: AbortSignal,
    result: T,
  ): Promise<T> => {
    note(options.log, "begin", key);
    await setTimeout(delayMs, undefined, { signal });
    note(options.log, "end", key);
    return result;
  };
  const look = defineTool({
    name: "look",
    description: "Looks at a place.",
    inputSchema: z.object({ path: z.string() }),
    execute: ({ path }, { signal }) =>
      effect(`look ${path}`, options.toolMs, signal, `seen ${path}`),
  });
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({ name: z.string() }),
    needsApproval: true,
    retryAfterCrash: false,
    execute: ({ name }, { signal }) =>
      effect(`pay ${name}`, options.toolMs, signal, `paid ${name}`),
  });
  const modelFor = (
    role: string,
    say: (task: string, results: readonly string[]) => readonly ReplyPiece[],
  ): Model => ({
    provider: "local",
    id: role,
    price: { inputUsdPerMillion: 1, outputUsdPerMillion: 1 },
    generate: async (request, { signal }) => {
      const task = taskIn(request);
      const results = resultsIn(request);
      const key = `model ${role} ${task} ${results.length}`;
      const message = await effect(
        key,
        options.modelMs,
        signal,
        buildReplyMessage(say(task, results)),
      );
      const finishReason = message.toolCalls.length > 0 ? "tool_calls" : "stop";
      // Its key is kept with the outcome of the call.
      return { message, finishReason, responseId: key };
    },
  });
  const leaf = defineAgent({
    name: "leaf",
    description: "Looks at one place.",
    instructions: "Look.",
    model: modelFor("leaf", (path, [seen]) =>
      seen === undefined ? [call("look", "1", { path })] : [text(`${path}=${seen}`)],
    ),
    tools: [look],
  });
  const section = defineAgent({
    name: "section",
    description: "Looks at many places.",
    instructions: "Delegate.",
    model: modelFor("section", (task, results) => {
      const [path = "", leaves = ""] = task.split("|");
      return results.length === 0
        ? spawns(
            "leaf",
            Array.from({ length: Number(leaves) }, (_, index) => `${path}/${index}`),
          )
        : [text(`${path}[${results.join(" ")}]`)];
    }),
    subagents: [leaf],
  });
  const lead = defineAgent({
    name: "lead",
    description: "Leads.",
    instructions: "Delegate.",
    model: modelFor("lead", (task, results) => {
      const [name = "", sections = "", leaves = "", asks] = task.split("|");
      const count = Number(sections);
      const paths = Array.from({ length: count }, (_, index) => `${name}/${index}`);
      if (results.length === 0)
        return leaves === "0"
          ? spawns("leaf", paths)
          : spawns(
              "section",
              paths.map((path) => `${path}|${leaves}`),
            );
      if (asks === "asks" && results.length === count) return [call("pay", "p", { name })];
      const paid = results[count];
      const said = `${name}{${results.slice(0, count).join(" ")}}`;
      return [text(paid === undefined ? said : `${said} ${paid}`)];
    }),
    tools: [pay],
    subagents: [section, leaf],
  });
  const { price: _unknown, ...unpriced } = modelFor("broke", () => [text("Done.")]);
  const broke = defineAgent({
    name: "broke",
    description: "Has a model of which nobody knows the price.",
    instructions: "Go.",
    model: unpriced,
  });
  return [lead, section, leaf, broke];
}

function note(log: string, what: "begin" | "end", key: string): void {
  appendLine(log, { what, key, pid: process.pid, atMs: Date.now() });
}

function text(said: string): ReplyPiece {
  return { type: "text", text: said };
}

function call(toolName: string, callId: string, input: object): ReplyPiece {
  return { type: "call", callId: toCallId(callId), toolName, argumentsText: JSON.stringify(input) };
}

function spawns(role: string, tasks: readonly string[]): readonly ReplyPiece[] {
  return tasks.map((task, index) => call("SpawnSubagent", `s${index}`, { role, task }));
}

function taskIn({ messages }: ModelRequest): string {
  const first = messages.find(({ role }) => role === "user");
  return first?.role === "user" && typeof first.text === "string" ? first.text : "";
}

/** Returns the results of tools and subagents in call order. */
function resultsIn({ messages }: ModelRequest): readonly string[] {
  return messages.flatMap((message) => (message.role === "tool" ? [plain(message.text)] : []));
}

/** The text of a subagent, as its result has it; anything else as it is. */
function plain(result: string): string {
  if (!result.startsWith("{")) return result;
  const parsed: unknown = JSON.parse(result);
  return isRecord(parsed) && typeof parsed["text"] === "string" ? parsed["text"] : result;
}
