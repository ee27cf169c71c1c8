// Foreign code for the tree property: models, tools, sinks, tracings and ids that do what a world
// says, and break the rules of their ports where it says so.

import { z } from "zod";

import type { JsonValue } from "../../src/kernel/json.ts";
import type { IdSource } from "../../src/kernel/id-source.ts";
import type { GenerateOptions, Model, ModelReply, ModelRequest } from "../../src/model/model.ts";
import { ModelError } from "../../src/model/model-error.ts";
import { localTracing } from "../../src/orchestrator/local-tracing.ts";
import type { EventSink, Tracing } from "../../src/protocol/event-sink.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../src/tools/tool.ts";
import { settled } from "../harness/run-scripted.ts";
import {
  nameOf,
  TOOL_KINDS,
  type Act,
  type Report,
  type ToolKind,
  type World,
  type WorldCall,
  type WorldRole,
} from "./tree-world.ts";

export const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
const INPUT_TOKENS = 10;
/** Ids that a run takes before the first child: its own, its root's, and the root's execution. */
const IDS_OF_ROOT = 3;

/** Things that no well-behaved code throws; the last ones cannot even be shown. */
const UNSHOWABLE: unknown = Object.create(null);
const FOREIGN: readonly unknown[] = [
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

/** Waits for so many turns of the event loop. */
export async function ticks(count: number): Promise<void> {
  for (let tick = 0; tick < count; tick += 1) await settled();
}

/**
 * What keeps those waiting that heed no signal; one world is played at a time, and each opens it
 * when it is over.
 */
const backstage = { late: Promise.withResolvers<undefined>() };

/** Lets everything settle that was left behind, and closes the door for the next world. */
export function openBackstage(): void {
  backstage.late.resolve(undefined);
  backstage.late = Promise.withResolvers();
}

/** The model of a role: acts by its script, whichever agent asks, and then says a last word. */
export function modelOf(role: WorldRole, name: string, requests: ModelRequest[]): Model {
  let asked = 0;
  const generate = async (request: ModelRequest, options: GenerateOptions): Promise<ModelReply> => {
    requests.push(request);
    const act = role.script[asked] ?? LAST_WORD;
    asked += 1;
    return await perform(act, { request, options, callPrefix: `${name}.${asked}` });
  };
  const count = counterOf(role);
  const model = { provider: "stage", id: `model of ${name}`, price: PRICE, generate };
  return count === undefined ? model : { ...model, countTokens: count };
}

interface Asked {
  readonly request: ModelRequest;
  readonly options: GenerateOptions;
  readonly callPrefix: string;
}

async function perform(act: Act, asked: Asked): Promise<ModelReply> {
  switch (act.type) {
    case "says":
      await ticks(act.ticks);
      asked.options.onText?.("Said.");
      return reply("Said.", [], {
        finishReason: act.cutOff ? "length" : "stop",
        usage: usageOf(act.report, asked),
      });
    case "calls":
      await ticks(act.ticks);
      return reply("", toolCalls(act.calls, asked.callPrefix), {
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
        code: act.isRetryable ? "model_overloaded" : "model_refused_request",
        message: "No.",
      });
    case "throws":
      throw FOREIGN[act.what % FOREIGN.length];
    case "hangs":
      if (act.heedsSignal) await aborted(asked.options.signal);
      else await backstage.late.promise;
      asked.options.onText?.("Too late.");
      return reply("Too late.", [], { finishReason: "stop", usage: usageOf("exact", asked) });
  }
}

/** The tools of every role, one of each kind. */
export const TOOLS: readonly FunctionTool[] = TOOL_KINDS.map((kind) =>
  defineTool({
    name: kind,
    description: "Acts.",
    input: z.object({}),
    maxIdenticalCalls: "unlimited",
    execute: (_input, { signal }) => act(kind, signal),
  }),
);

async function act(kind: ToolKind, signal: AbortSignal): Promise<JsonValue> {
  switch (kind) {
    case "quick":
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
      await aborted(signal);
      throw new Error("heeded");
    case "never":
      await backstage.late.promise;
      return "too late";
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
  prefix: string,
): ModelReply["message"]["toolCalls"] {
  return calls.map((call, index) => {
    const callId = CallIdSchema.parse(`${prefix}.${index}`);
    switch (call.type) {
      case "spawn":
        return {
          callId,
          toolName: "SpawnSubagent",
          argumentsText: `{"role":"${nameOf(call.role)}","task":"Act."}`,
        };
      case "unknown role":
        return {
          callId,
          toolName: "SpawnSubagent",
          argumentsText: '{"role":"nobody","task":"Act."}',
        };
      case "broken JSON":
        return { callId, toolName: "SpawnSubagent", argumentsText: '{"role":' };
      case "misfit":
        return { callId, toolName: "SpawnSubagent", argumentsText: '{"role":7}' };
      case "unknown tool":
        return { callId, toolName: "nothing", argumentsText: "{}" };
      case "finish":
        return {
          callId,
          toolName: "Finish",
          argumentsText: call.fits ? '{"value":1}' : '{"value":"one"}',
        };
      case "tool":
        return { callId, toolName: call.kind, argumentsText: "" };
    }
  });
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

/** Ids that count up, one of which cannot be minted. */
export function failingIds(failing: number | undefined): IdSource {
  const ids = sequentialIds();
  let minted = 0;
  return {
    next: (kind) => {
      minted += 1;
      if (failing !== undefined && minted === IDS_OF_ROOT + failing)
        throw FOREIGN[failing % FOREIGN.length];
      return ids.next(kind);
    },
  };
}

// Sinks and tracings that fail are the same in every run, so that the warning about them is given
// once and not two thousand times.
const THROWING: EventSink = {
  take: () => {
    throw UNSHOWABLE;
  },
};
const failsLater = (): unknown => settled().then(() => Promise.reject(new Error("later")));
const FAILING_LATER: EventSink = { take: failsLater };

export function faultySinks(sink: World["sink"]): readonly EventSink[] {
  if (sink === "none") return [];
  return [sink === "throws" ? THROWING : FAILING_LATER];
}

const fault = { at: "nothing", left: 0, local: localTracing() };
const FAULTY_TRACING: Tracing = {
  place: (draft) => {
    fail("place");
    return fault.local.place(draft);
  },
  within: (scope, work) => {
    fail("within");
    const begun = fault.local.within(scope, work);
    fail("within, late");
    return begun;
  },
};

function fail(at: string): void {
  if (fault.at !== at) return;
  fault.left -= 1;
  if (fault.left === 0) throw new Error("no tracing");
}

export function faultyTracing({ failsAt, call }: World["tracing"]): Tracing {
  fault.at = failsAt;
  fault.left = failsAt === "place" ? call : 1 + (call % 4);
  fault.local = localTracing();
  return FAULTY_TRACING;
}
