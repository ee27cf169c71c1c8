// Random runs of trees of agents whose models, tools and hooks log their actions. Each agent has a
// random stream of its own, so that the order of parallel agents changes no choice.

import { AsyncLocalStorage } from "node:async_hooks";

import { z } from "zod";

import { SPAWN_TOOL_NAME, type AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { wrapModelCall, type Hook } from "../../../src/hooks/hook.ts";
import type { GenerateOptions, Model, ModelReply, ModelRequest } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { withFallback } from "../../../src/model/with-fallback.ts";
import { CallIdSchema, type CallId } from "../../../src/protocol/ids.ts";
import { buildReplyMessage } from "../../../src/protocol/reply-message.ts";
import type { ManualClock } from "../../../src/testing/manual-clock.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import type {
  Consumed,
  LoggedAgent,
  LoggedCall,
  LoggedRequest,
  LoggedStep,
  ModelFacts,
  Price,
} from "./figures-log.ts";

/** The token count of every request and the cap of every reply. */
const COUNTED = 40;
const CAP = 60;
const BYTES_PER_TOKEN = 3;

/** A seeded stream of choices (mulberry32). */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** Returns an integer from 0 to below `sides`. */
  roll(sides: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % sides;
  }

  /** Returns true with a probability of one in `sides`. */
  once(times: number): boolean {
    return this.roll(times) === 0;
  }

  pick<Item>(items: readonly [Item, ...Item[]]): Item {
    return items[this.roll(items.length)] ?? items[0];
  }
}

const KNOWN_PRICES: readonly [Price, ...Price[]] = [
  { input: 0, cached: 0, output: 0 },
  { input: 3, cached: 1, output: 15 },
  { input: 0.3, cached: 0.07, output: 1.1 },
];
const PRICES: readonly [undefined, ...Price[]] = [undefined, ...KNOWN_PRICES];

/** Kinds of tool calls: valid ones are charged. */
const TOOLS = ["look", "break", "forbidden", "unknown", "misfit", "ask"] as const;

/** A tree of agents, each with a role of its own. */
export interface World {
  readonly root: AgentRole;
  readonly agents: readonly LoggedAgent[];
  readonly dice: Dice;
}

/** The options of a world. */
export interface WorldOptions {
  readonly clock: ManualClock;
  /** Tools may require approval. */
  readonly hasQuestions: boolean;
  /** Every model has a price. */
  readonly isPriced: boolean;
}

/** Creates the roles of a world. */
export function makeWorld(seed: number, options: WorldOptions): World {
  const dice = new Dice(seed);
  const parts: Part[] = [];
  const count = 1 + dice.roll(6);
  for (let index = 0; index < count; index += 1) {
    const parent = index === 0 ? undefined : parts[dice.roll(index)];
    parts.push(new Part({ ...options, index, seed, parent }));
  }
  // Roles of children are created before those of their parents.
  for (const part of parts.toReversed()) part.make();
  const [root] = parts;
  if (root?.role === undefined) throw new Error("A world has a root.");
  return { root: root.role, agents: parts.map(({ log }) => log), dice };
}

interface PartFacts extends WorldOptions {
  readonly index: number;
  readonly seed: number;
  readonly parent: Part | undefined;
}

/** An agent with its role and its log. */
class Part {
  readonly log: LoggedAgent;
  readonly children: Part[] = [];
  role: AgentRole | undefined;
  readonly #facts: PartFacts;
  readonly #dice: Dice;
  readonly #replies: string[][] = [];
  /** The number of the hook's current call. */
  readonly #underWay = new AsyncLocalStorage<object>();
  readonly #calls = new Map<object, LoggedCall>();
  readonly #stepCount: number;
  readonly #nextCount: number;
  #models: readonly ModelFacts[] = [];

  constructor(facts: PartFacts) {
    const { index, seed, parent } = facts;
    this.#facts = facts;
    this.#dice = new Dice(seed * 31 + index * 7_919 + 1);
    this.log = { role: `r${index}`, parent: parent?.log.role, steps: [] };
    parent?.children.push(this);
    this.#stepCount = 1 + this.#dice.roll(3);
    this.#nextCount = this.#dice.once(3) ? 2 + this.#dice.roll(2) : 1;
  }

  make(): void {
    const dice = this.#dice;
    const { role: name } = this.log;
    const hasSpare = dice.once(4);
    const prices = this.#facts.isPriced ? KNOWN_PRICES : PRICES;
    const main = { id: `${name}-main`, price: dice.pick(prices) };
    const spare = { id: `${name}-spare`, price: dice.pick(prices) };
    this.#models = hasSpare ? [main, spare] : [main];
    const [first, second] = this.#models.map((facts) => this.#model(facts));
    if (first === undefined) throw new Error("An agent has a model.");
    const model = second === undefined ? first : withFallback([first, second], { cooldownMs: 0 });
    this.role = defineAgent({
      name,
      description: `Works as ${name}.`,
      instructions: `You are ${name}.`,
      model,
      maxOutputTokens: CAP,
      delegation: { maxIdenticalDelegations: "unlimited" },
      errorBudget: { maxToolErrors: 100, maxConsecutiveErrors: 100 },
      tools: this.#tools(),
      guards: [
        toolGuard(({ toolName }) =>
          toolName === "forbidden" ? { type: "deny", reason: "No." } : { type: "allow" },
        ),
      ],
      hooks: this.#nextCount > 1 ? [this.#hook()] : [],
      subagents: this.children.flatMap(({ role }) => role ?? []),
    });
  }

  #tools() {
    const input = z.object({ ms: z.number() });
    const { clock } = this.#facts;
    const wait = (ms: number): Promise<void> =>
      ms === 0 ? Promise.resolve() : new Promise((wake) => void clock.setTimer(ms, wake));
    const make = (name: string, execute: (ms: number) => Promise<string>, more: object = {}) =>
      defineTool({
        name,
        description: `Does ${name}.`,
        inputSchema: input,
        maxIdenticalCalls: "unlimited",
        ...more,
        execute: ({ ms }) => execute(ms),
      });
    return [
      make("look", (ms) => wait(ms).then(() => "Seen.")),
      make("break", (ms) =>
        wait(ms).then(() => {
          throw new Error("It broke.");
        }),
      ),
      make("forbidden", () => Promise.resolve("Never.")),
      make("ask", () => Promise.resolve("Asked."), { needsApproval: true }),
    ];
  }

  /**
   * Calls the model several times, one after another or in parallel, and returns one of the
   * replies.
   */
  #hook(): Hook {
    const count = this.#nextCount;
    const isParallel = this.#dice.once(3);
    return wrapModelCall(async (_call, next) => {
      const tries = Array.from({ length: count }, () => () => this.#underWay.run({}, next));
      const ends: PromiseSettledResult<ModelReply>[] = [];
      if (isParallel) ends.push(...(await Promise.allSettled(tries.map((make) => make()))));
      else for (const make of tries) ends.push(...(await Promise.allSettled([make()])));
      const replied = ends.find((end) => end.status === "fulfilled");
      if (replied?.status === "fulfilled") return replied.value;
      throw ends[0]?.status === "rejected" ? ends[0].reason : new Error("No call.");
    });
  }

  #stepAt(number: number): LoggedStep {
    const known = this.log.steps.find((step) => step.number === number);
    if (known !== undefined) return known;
    const step: LoggedStep = { number, calls: [], toolCalls: 0 };
    this.log.steps.push(step);
    return step;
  }

  #model(facts: ModelFacts): Model {
    const { id, price } = facts;
    return {
      provider: "scripted",
      id,
      countTokens: () => COUNTED,
      ...(price === undefined
        ? {}
        : {
            price: {
              inputUsdPerMillion: price.input,
              cachedInputUsdPerMillion: price.cached,
              outputUsdPerMillion: price.output,
            },
          }),
      generate: (request, options) => this.#generate(facts, request, options),
    };
  }

  #callOf(step: LoggedStep, key: object): LoggedCall {
    const known = this.#calls.get(key);
    if (known !== undefined) return known;
    const call: LoggedCall = { payer: this.#models, requests: [] };
    this.#calls.set(key, call);
    step.calls.push(call);
    return call;
  }

  async #generate(
    model: ModelFacts,
    request: ModelRequest,
    options: GenerateOptions,
  ): Promise<ModelReply> {
    const { clock } = this.#facts;
    const dice = this.#dice;
    const number = request.messages.filter(({ role }) => role === "assistant").length + 1;
    const step = this.#stepAt(number);
    const isLast = number >= this.#stepCount;
    const names = (this.#replies[number] ??= isLast ? [] : this.#chooseCalls());
    const call = this.#callOf(step, this.#underWay.getStore() ?? step);
    const logged: LoggedRequest = {
      model,
      fromMs: clock.nowMs(),
      toMs: clock.nowMs(),
      end: "open",
      consumed: undefined,
    };
    call.requests.push(logged);
    const failure = dice.once(4) ? dice.pick(["early", "late", "fatal", "measured"]) : undefined;
    const durationMs = dice.roll(4) * 250;
    if (durationMs > 0) await this.#pass(durationMs, options, logged);
    logged.toMs = clock.nowMs();
    if (failure !== undefined) throw this.#fail(logged, failure);
    logged.end = "replied";
    return this.#reply(logged, step, names);
  }

  #chooseCalls(): string[] {
    const dice = this.#dice;
    const { hasQuestions } = this.#facts;
    const kinds = hasQuestions ? TOOLS : TOOLS.slice(0, 5);
    const tools = Array.from(
      { length: dice.roll(3) },
      () => kinds[dice.roll(kinds.length)] ?? "look",
    );
    const spawned = this.#replies.flat();
    const free = this.children.filter(({ log }) => !spawned.includes(`spawn ${log.role}`));
    const spawns = free.filter(() => !dice.once(4)).map(({ log }) => `spawn ${log.role}`);
    const all = [...tools, ...spawns];
    return all.length === 0 ? ["look"] : all;
  }

  async #pass(ms: number, { signal }: GenerateOptions, logged: LoggedRequest): Promise<void> {
    const { clock } = this.#facts;
    const done = Promise.withResolvers<void>();
    const stop = clock.setTimer(ms, () => done.resolve());
    const leave = (): void => {
      stop();
      logged.end = "cancelled";
      logged.toMs = clock.nowMs();
      logged.consumed = estimated(0);
      done.reject(new Error("aborted"));
    };
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
    try {
      await done.promise;
    } finally {
      signal.removeEventListener("abort", leave);
    }
  }

  /**
   * Fails a request: before its first output, after it, permanently, or with the input reported.
   */
  #fail(logged: LoggedRequest, kind: string): ModelError {
    const dice = this.#dice;
    logged.end = "failed";
    const code = kind === "fatal" ? "model_invalid_request" : "model_unavailable";
    const message = `It is ${kind}.`;
    const retryAfterMs = dice.roll(3) * 500;
    logged.retryAfterMs = retryAfterMs;
    if (kind === "early" || kind === "fatal")
      return new ModelError({ code, message, retryAfterMs });
    const lostOutputTokens = dice.roll(30);
    const lostInput = { inputTokens: 50 + dice.roll(50), cachedInputTokens: dice.roll(50) };
    const isMeasured = kind === "measured";
    logged.consumed = isMeasured
      ? { ...estimated(lostOutputTokens), ...lostInput }
      : estimated(lostOutputTokens);
    const more = isMeasured ? { lostInput } : {};
    return new ModelError({ code, message, retryAfterMs, lostOutputTokens, ...more });
  }

  #reply(logged: LoggedRequest, step: LoggedStep, names: readonly string[]): ModelReply {
    const dice = this.#dice;
    const calls = names.map((name, index) => {
      const callId = CallIdSchema().parse(`${this.log.role}-${step.number}-${index}`);
      const [kind = "", role] = name.split(" ");
      if (role !== undefined)
        return callOf(callId, SPAWN_TOOL_NAME, { role, task: `Work as ${role}.` });
      if (kind === "misfit") return callOf(callId, "look", { ms: "long" });
      return callOf(callId, kind, { ms: dice.roll(3) * 100 });
    });
    step.toolCalls = names.filter((name) => !isUncharged(name)).length;
    const text = "word ".repeat(1 + dice.roll(6));
    const message = buildReplyMessage([{ type: "text", text }, ...calls]);
    const finishReason = calls.length > 0 ? "tool_calls" : "stop";
    const bytes = Buffer.byteLength(
      text + calls.map(({ toolName, argumentsText }) => toolName + argumentsText).join(""),
    );
    if (dice.once(4)) {
      logged.consumed = estimated(Math.ceil(bytes / BYTES_PER_TOKEN));
      return { message, finishReason };
    }
    const inputTokens = 20 + dice.roll(80);
    const outputTokens = 1 + dice.roll(CAP);
    const usage = {
      inputTokens,
      cachedInputTokens: dice.once(2) ? dice.roll(inputTokens) : 0,
      outputTokens,
      reasoningTokens: dice.once(2) ? dice.roll(outputTokens) : 0,
    };
    // A reported cost of zero is believed only for models without a price.
    const isReported = dice.once(6);
    const reportedMicroUsd = 1 + dice.roll(2_000);
    const reportedCostUsd = reportedMicroUsd / 1_000_000;
    logged.consumed = {
      ...usage,
      isEstimated: false,
      ...(isReported ? { reportedMicroUsd } : {}),
    };
    return {
      message,
      finishReason,
      usage: { ...usage, ...(isReported ? { reportedCostUsd } : {}) },
    };
  }
}

function isUncharged(name: string): boolean {
  return name === "unknown" || name === "misfit";
}

function callOf(callId: CallId, toolName: string, input: object) {
  return { type: "call", callId, toolName, argumentsText: JSON.stringify(input) } as const;
}

function estimated(outputTokens: number): Consumed {
  return {
    inputTokens: COUNTED,
    cachedInputTokens: 0,
    outputTokens,
    reasoningTokens: 0,
    isEstimated: true,
  };
}
