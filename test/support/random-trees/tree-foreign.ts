// Foreign code for the tree property: models, tools, hooks, guards and approvers that act as a
// world prescribes, and break the rules of their ports where it requires that. The record of their
// requests outlives the processes that run a world.

import { AsyncLocalStorage } from "node:async_hooks";

import { z } from "zod";

import { SPAWN_TOOL_NAME } from "../../../src/agent/agent-role.ts";
import type { Approver } from "../../../src/agent/approver.ts";
import type { JsonValue } from "../../../src/kernel/json.ts";
import type { GenerateOptions, Model, ModelReply, ModelRequest } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { EventScope } from "../../../src/protocol/event.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import { approve, deny } from "../../../src/protocol/question.ts";
import { defineDelegation, defineTool } from "../../../src/tools/define-tool.ts";
import type { DelegationTool, ExternalTool, FunctionTool } from "../../../src/tools/tool.ts";
import type { ToolContext } from "../../../src/tools/tool-context.ts";
import { toolGuard, type ToolGuard } from "../../../src/tools/tool-guard.ts";
import {
  nameOf,
  TOOL_KINDS,
  type Act,
  type Report,
  type ToolKind,
  type Which,
  type World,
  type WorldCall,
  type WorldGuard,
  type WorldRole,
} from "./tree-world.ts";

export const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
const INPUT_TOKENS = 10;

/** Values that no well-behaved code throws; the last ones cannot even be shown. */
const UNSHOWABLE: unknown = Object.create(null);
export const FOREIGN: readonly unknown[] = [
  new Error("foreign"),
  "text",
  undefined,
  null,
  UNSHOWABLE,
  Object.defineProperty(new Error("hidden"), "message", {
    get: () => {
      throw new Error("no message");
    },
  }),
];

/** Runs everything that waits neither for a gate nor for the clock, for this many turns. */
export async function ticks(count: number): Promise<void> {
  for (let tick = 0; tick < count; tick += 1)
    await new Promise<void>((resolve) => void setImmediate(resolve));
}

/** A request and its sender; null if the tracing failed. */
export interface Sent {
  readonly by: EventScope | null;
  readonly request: ModelRequest;
  /** The number of events before it. */
  readonly after: number;
}

/** A tool body that ran. */
export interface Body {
  readonly agentPath: string;
  readonly callId: string;
  readonly tool: string;
}

/** The world outside of the processes that run it. */
export class Outside {
  readonly sent: Sent[] = [];
  readonly bodies: Body[] = [];
  /** The agent that is working. */
  readonly scope = new AsyncLocalStorage<EventScope>();
  /** Foreign code that waits for something that does not come by itself. */
  waiting = 0;
  /** The number of events so far. */
  events = 0;
  readonly #counts = new Map<string, number>();
  readonly #late = Promise.withResolvers<undefined>();

  /** How often this was requested, this time included. */
  count(key: string): number {
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    return count;
  }

  /** Waits for the end of the world, or for the signal. */
  async waits(signal?: AbortSignal): Promise<void> {
    this.waiting += 1;
    await (signal === undefined ? this.#late.promise : aborted(signal));
    this.waiting -= 1;
  }

  /** Lets all abandoned work settle. */
  end(): void {
    this.#late.resolve(undefined);
  }
}

/** The model of a role: follows its script, whichever agent calls it, and then answers. */
export function modelOf(role: WorldRole, name: string, outside: Outside): Model {
  const generate = async (request: ModelRequest, options: GenerateOptions): Promise<ModelReply> => {
    outside.sent.push({ by: outside.scope.getStore() ?? null, request, after: outside.events });
    if (isSummary(request))
      return reply("In short.", [], { finishReason: "stop", usage: undefined });
    const asked = outside.count(`model ${name}`);
    const act = role.script[asked - 1] ?? LAST_WORD;
    return await perform(act, { request, options, callPrefix: `${name}.${asked}`, outside });
  };
  const count = counterOf(role);
  const model = { provider: "fixture", id: `model of ${name}`, price: PRICE, generate };
  return count === undefined ? model : { ...model, countTokens: count };
}

function isSummary({ messages }: ModelRequest): boolean {
  return messages[0]?.text.startsWith("Shorten a tool result") === true;
}

interface Asked {
  readonly request: ModelRequest;
  readonly options: GenerateOptions;
  readonly callPrefix: string;
  readonly outside: Outside;
}

async function perform(act: Act, asked: Asked): Promise<ModelReply> {
  switch (act.type) {
    case "says":
      await ticks(act.ticks);
      asked.options.onDelta?.({ type: "text", text: "Said." });
      return reply("Said.", [], {
        finishReason: act.cutOff ? "length" : "stop",
        usage: usageOf(act.report, asked),
      });
    case "calls":
      await ticks(act.ticks);
      return reply("", toolCalls(act.calls, asked), {
        finishReason: "tool_calls",
        usage: usageOf(act.report, asked),
      });
    case "empty":
      return reply("", [], { finishReason: "unknown", usage: usageOf("exact", asked) });
    case "no reply":
      return z.custom<ModelReply>().parse(null);
    case "fails":
      await ticks(act.ticks);
      throw new ModelError({
        code: act.isRetryable ? "model_overloaded" : "model_invalid_request",
        message: "No.",
        ...(act.lost === undefined ? {} : { lostOutputTokens: act.lost }),
      });
    case "throws":
      throw FOREIGN[act.what % FOREIGN.length];
    case "hangs":
      await asked.outside.waits(act.obeysSignal ? asked.options.signal : undefined);
      asked.options.onDelta?.({ type: "text", text: "Too late." });
      return reply("Too late.", [], { finishReason: "stop", usage: usageOf("exact", asked) });
  }
}

/**
 * Worlds are played one after the other; all of them share the tools, which are costly to define.
 */
const fixture = { outside: new Outside() };

/** From now on tools act in this world. */
export function enter(outside: Outside): void {
  fixture.outside = outside;
}

const EXTERNAL = defineTool({ name: "external", description: "Acts.", inputSchema: z.object({}) });

const PAIR = defineDelegation({
  name: "pair",
  description: "Starts two.",
  inputSchema: z.object({ role: z.string(), task: z.string(), denied: z.string().optional() }),
  execute: async ({ role, task, denied }, context) => {
    const deniedTools = denied === undefined ? {} : { deniedTools: [denied] };
    const second = context.spawn({ role, task: `${task} Second.`, ...deniedTools });
    const first = await context.spawn({ role, task: `${task} First.`, ...deniedTools });
    await second;
    return first;
  },
});

/** The tools of every role, one of each kind. */
export const TOOLS: readonly (FunctionTool | ExternalTool | DelegationTool)[] = [
  ...TOOL_KINDS.map((kind) =>
    defineTool({
      name: kind,
      description: "Acts.",
      inputSchema: z.object({}),
      maxIdenticalCalls: "unlimited",
      needsApproval: kind === "asks",
      ...(kind === "long" ? { maxResultCharacters: 40, longResultPolicy: "summarize" } : {}),
      execute: (_input, context) => {
        const { agentPath, callId } = context;
        const { outside } = fixture;
        outside.bodies.push({ agentPath, callId, tool: kind });
        return act(kind, context, outside);
      },
    }),
  ),
  EXTERNAL,
  PAIR,
];

async function act(kind: ToolKind, context: ToolContext, outside: Outside): Promise<JsonValue> {
  switch (kind) {
    case "quick":
    case "asks":
      return { done: true };
    case "slow":
      await ticks(2);
      return "slow";
    case "throws":
      throw new Error("thrown");
    case "unshowable":
      throw UNSHOWABLE;
    case "cyclic":
      return cycle();
    case "listens":
      await outside.waits(context.signal);
      throw new Error("obeyed");
    case "never":
      await outside.waits();
      return "too late";
    case "long":
      return "x".repeat(200);
    case "queues":
      context.queueSubtask({ role: nameOf(1), task: `Queued by ${context.callId}.` });
      return "queued";
  }
}

const LAST_WORD: Act = { type: "says", report: "exact", ticks: 0, cutOff: false };

function counterOf(role: WorldRole): (() => number) | undefined {
  switch (role.counting) {
    case "counts":
      return () => INPUT_TOKENS;
    case "cannot count":
      return undefined;
    case "nonsense":
      return () => Number.NaN;
    case "throws":
      return () => {
        throw UNSHOWABLE;
      };
  }
}

function usageOf(report: Report, { request }: Asked): ModelReply["usage"] {
  switch (report) {
    case "exact":
      return {
        inputTokens: INPUT_TOKENS,
        cachedInputTokens: 4,
        outputTokens: Math.min(5, request.maxOutputTokens),
        reasoningTokens: 1,
      };
    case "none":
      return undefined;
    case "too much":
      return {
        inputTokens: 60,
        cachedInputTokens: 0,
        outputTokens: request.maxOutputTokens + 30,
        reasoningTokens: 0,
      };
    case "nonsense":
      return {
        inputTokens: -1_000,
        cachedInputTokens: Number.NaN,
        outputTokens: 0.5,
        reasoningTokens: 7,
      };
  }
}

function reply(
  text: string,
  calls: ModelReply["message"]["toolCalls"],
  rest: { readonly finishReason: ModelReply["finishReason"]; readonly usage: ModelReply["usage"] },
): ModelReply {
  const { finishReason, usage } = rest;
  const message = { role: "assistant" as const, text, toolCalls: calls };
  return usage === undefined ? { message, finishReason } : { message, finishReason, usage };
}

function toolCalls(
  calls: readonly WorldCall[],
  { callPrefix, request }: Asked,
): ModelReply["message"]["toolCalls"] {
  return calls.map((call, index) => {
    const place = `${callPrefix}.${index}`;
    const [toolName, input] = written(call, place, (which) => childOf(which, request));
    const argumentsText = typeof input === "string" ? input : JSON.stringify(input);
    return { callId: CallIdSchema().parse(place), toolName, argumentsText };
  });
}

function written(
  call: WorldCall,
  place: string,
  childOf: (which: Which) => string,
): readonly [string, object | string] {
  const task = `Act for ${place}.`;
  switch (call.type) {
    case "spawn":
      return [
        SPAWN_TOOL_NAME,
        {
          role: nameOf(call.role),
          task: call.isSame ? "Act." : task,
          background: call.isBackground,
          ...(call.includeResultsFrom === undefined
            ? {}
            : { includeResultsFrom: [childOf(call.includeResultsFrom)] }),
        },
      ];
    case "pair":
      return ["pair", { role: nameOf(call.role), task, denied: call.denied }];
    case "continue": {
      const child = { role: nameOf(0), continue: childOf(call.child) };
      return [SPAWN_TOOL_NAME, { ...child, task, background: call.isBackground }];
    }
    case "list":
      return ["ListSubagents", {}];
    case "wait": {
      const { child, timeoutSeconds } = call;
      const some = child === undefined ? {} : { subagents: [childOf(child)] };
      return ["WaitForSubagents", { ...some, timeoutSeconds }];
    }
    case "message":
      return ["MessageSubagent", { subagent: childOf(call.child), message: "Hurry." }];
    case "cancel":
      return ["CancelSubagent", { subagent: childOf(call.child) }];
    case "draft": {
      const newRole = { instructions: "Act.", steps: call.steps };
      return [SPAWN_TOOL_NAME, { role: `draft${place.replaceAll(".", "-")}`, task, newRole }];
    }
    case "unknown role":
      return [SPAWN_TOOL_NAME, { role: "nobody", task }];
    case "broken JSON":
      return [SPAWN_TOOL_NAME, '{"role":'];
    case "misfit":
      return [SPAWN_TOOL_NAME, { role: 7 }];
    case "unknown tool":
      return ["nothing", {}];
    case "finish":
      return ["Finish", { value: call.fits ? 1 : "one" }];
    case "external":
      return ["external", {}];
    case "tool":
      return [call.kind, ""];
  }
}

/** Receipts, results, reports and lists name subagents. */
function childOf(which: Which, { messages }: ModelRequest): string {
  const texts = messages.filter(({ role }) => role === "tool" || role === "user");
  const names = texts.flatMap(({ text }) =>
    [...text.matchAll(/"subagent":"([^"]+)"/g)].map(([, name = ""]) => name),
  );
  const known = [...new Set(names.toReversed())];
  return known[which % Math.max(1, known.length)] ?? `${nameOf(0)}#1`;
}

function cycle(): JsonValue {
  const list: JsonValue[] = [];
  list.push(list);
  return list;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

export function guardOf({ tool, says }: WorldGuard): ToolGuard {
  return toolGuard(
    () => {
      if (says === "throws") throw UNSHOWABLE;
      return { type: says, reason: "The world says so." };
    },
    { tools: [tool] },
  );
}

/** `undefined` if no approver can be called while the run continues. */
export function approverOf({ approver: { type } }: World, outside: Outside): Approver | undefined {
  switch (type) {
    case "nobody":
      return undefined;
    case "throws":
      return () => {
        throw UNSHOWABLE;
      };
    case "never":
      return async (_question, { signal }) => {
        await outside.waits(signal);
        return undefined;
      };
    case "slow":
      return async (question) => {
        await ticks(2);
        return question.kind === "approval" ? approve(question) : undefined;
      };
    case "approves":
      return (question) => (question.kind === "approval" ? approve(question) : undefined);
    case "denies":
      return (question) => (question.kind === "approval" ? deny(question) : undefined);
  }
}
