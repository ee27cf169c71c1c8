// The stage for the tree property: plays a world with models, tools, sinks, tracings and ids that break the rules of their ports,
// moves the clock, and sees to it that whatever hangs is told to end at last.

import { z } from "zod";

import { defineAgent, type AgentRole } from "../../src/agent/agent-role.ts";
import type { JsonValue } from "../../src/kernel/json.ts";
import type { GenerateOptions, Model, ModelReply, ModelRequest } from "../../src/model/model.ts";
import { ModelError } from "../../src/model/model-error.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { localTracing } from "../../src/orchestrator/local-tracing.ts";
import type { Run } from "../../src/orchestrator/run.ts";
import type { RunResult } from "../../src/orchestrator/run-result.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import type { EventSink, Tracing } from "../../src/protocol/event-sink.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../src/testing/recording-sink.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { defineTool, type FunctionTool } from "../../src/tools/tool.ts";
import { settled } from "../harness/run-scripted.ts";
import {
  TOOL_KINDS,
  type Act,
  type Report,
  type World,
  type WorldCall,
  type WorldRole,
} from "./tree-world.ts";

/** A run that was played to its end. */
export interface Played {
  readonly result: RunResult;
  readonly events: readonly EspalierEvent[];
  readonly requests: readonly ModelRequest[];
  readonly clock: ManualClock;
  /** The last event before the run was told to cancel, and before it was asked to stop. */
  readonly cancelledAfter: number | undefined;
  readonly stoppedAfter: number | undefined;
  /** Pieces of text that came after the end. */
  readonly lateText: readonly string[];
}

export const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
const GRACE_MS = 50;
/** Ids that a run takes before the first child: its own, its root's, and the root's execution. */
const IDS_OF_ROOT = 3;

/** Things that no well-behaved code throws. */
const FOREIGN: readonly unknown[] = [
  new Error("foreign"),
  "text",
  undefined,
  null,
  Object.create(null),
  Object.defineProperty(new Error("hidden"), "message", {
    get: () => {
      throw new Error("no message");
    },
  }),
];

/** Plays a world. Throws if the run rejects, or does not end although everything was done for it. */
export async function play(world: World): Promise<Played> {
  const stage = new Stage(world);
  const run = stage.start();
  let over: RunResult | undefined;
  const done = run.result.then((result) => {
    over = result;
  });
  for (const moment of world.moments) {
    await ticks(moment.afterTicks);
    stage.happens(run, moment.act);
  }
  const isOver = (): boolean => over !== undefined;
  await stage.comesToEnd(run, isOver);
  await done;
  if (over === undefined) throw new Error("unreachable: the run is over");
  return await stage.aftermath(over);
}

async function ticks(count: number): Promise<void> {
  for (let tick = 0; tick < count; tick += 1) await settled();
}

class Stage {
  readonly #world: World;
  readonly #clock = new ManualClock();
  readonly #sink = new RecordingSink();
  readonly #requests: ModelRequest[] = [];
  readonly #pieces: string[] = [];
  readonly #late = Promise.withResolvers<undefined>();
  #cancelledAfter: number | undefined;
  #stoppedAfter: number | undefined;

  constructor(world: World) {
    this.#world = world;
  }

  start(): Run {
    const { limits, concurrency, maxAttempts, budget } = this.#world;
    const roles = this.#world.roles.map((role, index) => this.#role(role, index));
    const [root, ...others] = roles;
    if (root === undefined) throw new Error("a world has a root");
    const orchestrator = new Orchestrator({
      clock: this.#clock,
      ids: failingIds(this.#world.failingId),
      sinks: [this.#sink, ...faultySinks(this.#world.sink)],
      tracing: faultyTracing(this.#world.tracing),
      limits,
      concurrency,
      graceMs: GRACE_MS,
      retry: { maxAttempts },
      roles: others,
    });
    const metadata = { shared: { list: [1, 2] } };
    return orchestrator.start(root, "Begin.", {
      budget,
      metadata,
      onText: (piece) => void this.#pieces.push(piece.text),
    });
  }

  happens(run: Run, act: World["moments"][number]["act"]): void {
    switch (act.type) {
      case "advance":
        this.#clock.advance(act.byMs);
        return;
      case "cancel":
        this.#cancelledAfter ??= this.#sink.events.length;
        void run.cancel("The world says so.");
        return;
      case "request stop":
        this.#stoppedAfter ??= this.#sink.events.length;
        run.requestStop("The world asks.");
        return;
      case "cancel agent": {
        const started = this.#sink.of("agent.started");
        const one = started[act.which % Math.max(1, started.length)];
        if (one !== undefined) run.cancelAgent(one.agentId);
      }
    }
  }

  /** Back-offs are waited for; then what still hangs is cancelled, and after the grace period it must be over. */
  async comesToEnd(run: Run, isOver: () => boolean): Promise<void> {
    for (let round = 0; round < 12 && !isOver(); round += 1) {
      await ticks(6);
      this.#clock.advance(20_000);
    }
    if (isOver()) return;
    this.#cancelledAfter ??= this.#sink.events.length;
    void run.cancel("The world is at its end.");
    await ticks(10);
    this.#clock.advance(GRACE_MS);
    await ticks(10);
    if (!isOver())
      throw new Error(`T5: the run goes on after its grace period: ${this.#lastEvents()}`);
  }

  /** Lets everything that was left behind settle at last: nobody may hear of it. */
  async aftermath(result: RunResult): Promise<Played> {
    const written = JSON.stringify([result, this.#sink.events]);
    const heard = this.#pieces.length;
    this.#late.resolve(undefined);
    await ticks(3);
    if (JSON.stringify([result, this.#sink.events]) !== written)
      throw new Error("S3: late results were heard");
    return {
      result,
      events: this.#sink.events,
      requests: this.#requests,
      clock: this.#clock,
      cancelledAfter: this.#cancelledAfter,
      stoppedAfter: this.#stoppedAfter,
      lateText: this.#pieces.slice(heard),
    };
  }

  #lastEvents(): string {
    return this.#sink.events
      .slice(-6)
      .map((event) => `${event.agentPath} ${event.type}`)
      .join(", ");
  }

  #role(role: WorldRole, index: number): AgentRole {
    const { budget, maxOutputTokens, hasOutput, inherits, windowSize } = role;
    const subagents = role.subagents.flatMap((isOne, other) => (isOne ? [nameOf(other)] : []));
    return defineAgent({
      name: nameOf(index),
      purpose: "Acts.",
      instructions: "Act.",
      model: this.#model(role, index),
      tools: TOOL_KINDS.map((kind) => this.#tool(kind)),
      subagents,
      budget,
      maxOutputTokens,
      context: {
        inheritMessages: inherits,
        ...(inherits ? { messageWindowSize: windowSize } : {}),
        inheritMetadata: inherits,
      },
      ...(hasOutput ? { output: z.object({ value: z.number() }) } : {}),
    });
  }

  #model(role: WorldRole, index: number): Model {
    let asked = 0;
    const generate = async (
      request: ModelRequest,
      options: GenerateOptions,
    ): Promise<ModelReply> => {
      this.#requests.push(request);
      const act = role.script[asked];
      asked += 1;
      return await this.#perform(act ?? LAST_WORD, {
        request,
        options,
        callPrefix: `${index}.${asked}`,
      });
    };
    const count = counterOf(role);
    const base = { provider: "stage", id: `model-${index}`, price: PRICE, generate };
    return count === undefined ? base : { ...base, countTokens: count };
  }

  async #perform(act: Act, asked: Asked): Promise<ModelReply> {
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
        return JSON.parse("null");
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
        else await this.#late.promise;
        asked.options.onText?.("Too late.");
        return reply("Too late.", [], { finishReason: "stop", usage: usageOf("exact", asked) });
    }
  }

  #tool(kind: (typeof TOOL_KINDS)[number]): FunctionTool {
    const execute = async (signal: AbortSignal): Promise<JsonValue> => {
      switch (kind) {
        case "quick":
          return { done: true };
        case "slow":
          await ticks(2);
          return "slow";
        case "throws":
          throw new Error("thrown");
        case "unshowable":
          throw FOREIGN[4];
        case "cyclic":
          return cycle();
        case "listens":
          await aborted(signal);
          throw new Error("heeded");
        case "never":
          await this.#late.promise;
          return "too late";
      }
    };
    return defineTool({
      name: kind,
      description: "Acts.",
      input: z.object({}),
      execute: (_input, context) => execute(context.signal),
    });
  }
}

interface Asked {
  readonly request: ModelRequest;
  readonly options: GenerateOptions;
  readonly callPrefix: string;
}

const LAST_WORD: Act = { type: "says", report: "exact", ticks: 0, cutOff: false };
const INPUT_TOKENS = 10;

export function nameOf(role: number): string {
  return `role${role}`;
}

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
        throw FOREIGN[4];
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

function failingIds(failing: number | undefined): ReturnType<typeof sequentialIds> {
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

// Sinks and tracings that fail are the same in every run, so that the warning about them is given once and not two thousand times.
const THROWING: EventSink = {
  take: () => {
    throw FOREIGN[4];
  },
};
const failsLater = (): unknown => settled().then(() => Promise.reject(new Error("later")));
const FAILING_LATER: EventSink = { take: failsLater };

function faultySinks(sink: World["sink"]): readonly EventSink[] {
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
    return fault.local.within(scope, work);
  },
};

function fail(at: string): void {
  if (fault.at !== at) return;
  fault.left -= 1;
  if (fault.left === 0) throw new Error("no tracing");
}

function faultyTracing({ failsAt, call }: World["tracing"]): Tracing {
  fault.at = failsAt;
  fault.left = failsAt === "within" ? 1 + (call % 4) : call;
  fault.local = localTracing();
  return FAULTY_TRACING;
}
