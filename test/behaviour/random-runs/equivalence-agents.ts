// The agents of the equivalence property: roles, models, tools and hooks that act as a world
// prescribes. They are created again for every process; only the outside world, which is the record
// of requests to tools and models, continues from one process to the next.

import { z } from "zod";

import { SPAWN_TOOL_NAME, type AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { FINISH_TOOL_NAME } from "../../../src/protocol/tool-rule.ts";
import type { Model, ModelRequest } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { allOf, hasFinishReason, hasToolCall } from "../../../src/policies/stop-conditions.ts";
import type { StopCondition } from "../../../src/policies/stop-conditions.ts";
import { JsonObjectSchema } from "../../../src/protocol/json-value.ts";
import { approve, deny, provideResult, provideError } from "../../../src/protocol/question.ts";
import type { Answer, Question } from "../../../src/protocol/question.ts";
import {
  ScriptedModel,
  type ScriptedCall,
  type ScriptedReply,
} from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import type { ExternalTool, FunctionTool } from "../../../src/tools/tool.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { hookOf } from "./equivalence-hooks.ts";
import type { Act, Call, ConditionName, Plan, RolePlan, World } from "./equivalence-world.ts";

/** The world outside of the processes that run it. */
export class Outside {
  readonly #plans = new Map<string, Plan>();
  readonly #asked = new Map<string, ModelRequest[]>();
  /** Every tool body that began. */
  readonly toolRuns: string[] = [];

  constructor(world: World) {
    this.#learn(world.root);
  }

  /** The requests to the models of each agent, in order. */
  get requests(): Readonly<Record<string, readonly ModelRequest[]>> {
    return Object.fromEntries(this.#asked);
  }

  /** Returns the next reply to an agent, which the request names. */
  reply(request: ModelRequest, hasOutput: boolean): ScriptedReply {
    const task = request.messages.findLast((one) => one.role === "user" && one.origin === "task");
    const key = keyOf(task?.text ?? "");
    const before = this.#asked.get(key) ?? [];
    this.#asked.set(key, [...before, request]);
    const act = this.#plans.get(key)?.acts[before.length];
    const last = hasOutput ? GIVES_RESULT : ANSWERS;
    return performed(act ?? last, `${key}:${before.length}`, request);
  }

  #learn(plan: Plan): void {
    this.#plans.set(plan.key, plan);
    for (const call of plan.acts.flatMap((act) => (act.type === "calls" ? act.calls : []))) {
      if (call.type === "spawn") this.#learn(call.plan);
      if (call.type === "queue") call.plans.forEach((one) => this.#learn(one));
    }
  }
}

const ANSWERS: Act = { type: "says", ending: "stop" };
const GIVES_RESULT: Act = {
  type: "calls",
  calls: [{ type: "finish", fits: true }],
  hasTwins: false,
  isMeasured: true,
};

/** Returns the root's role with all roles below it. */
export function rootRole(world: World, outside: Outside): AgentRole {
  const tools = toolsOf(outside);
  const below = world.roles.reduceRight<readonly AgentRole[]>(
    (subagents, plans, depth) =>
      plans.map((plan, index) =>
        roleOf(plan, { name: nameOf(depth, index), outside, tools, subagents }),
      ),
    [],
  );
  const [root] = below;
  if (root === undefined) throw new Error("A world has a root.");
  return root;
}

function nameOf(depth: number, index: number): string {
  return `d${depth}r${index}`;
}

interface RoleParts {
  readonly name: string;
  readonly outside: Outside;
  readonly tools: readonly (FunctionTool | ExternalTool)[];
  readonly subagents: readonly AgentRole[];
}

function roleOf(plan: RolePlan, { name, outside, tools, subagents }: RoleParts): AgentRole {
  const { inherits, window } = plan;
  return defineAgent({
    name,
    description: `Works as ${name}.`,
    instructions: `You are ${name}.`,
    model: modelOf(plan, name, outside),
    tools,
    subagents,
    budget: plan.budget,
    hooks: plan.hooks.map((hook) => hookOf(hook)),
    stopWhen: plan.conditions.map((condition) => CONDITIONS[condition]),
    wrapUp: plan.wrapsUp,
    maxOutputTokens: plan.maxOutputTokens,
    contextPolicy: inherits
      ? {
          inheritMessages: true,
          messageWindowSize: 3,
          metadataKeys: ["color"],
          injectedTexts: ["Note."],
        }
      : {},
    ...(window === undefined ? {} : { compaction: { maxInputTokens: window, keepMessages: 3 } }),
    ...(plan.hasOutput ? { output: z.object({ value: z.number() }) } : {}),
  });
}

const CONDITIONS: Readonly<Record<ConditionName, StopCondition>> = {
  noted: hasToolCall("note"),
  cutOff: hasFinishReason("length", "unknown"),
  thirdStep: ({ steps, usage }) => {
    const reason = { code: "third", message: "Three are enough.", data: { ...usage } };
    return Promise.resolve(steps.length >= 3 ? reason : undefined);
  },
  bothTools: allOf(hasToolCall("pay"), hasToolCall("fetch")),
};

function modelOf({ hasOutput, canCount }: RolePlan, name: string, outside: Outside): Model {
  return new ScriptedModel((request) => outside.reply(request, hasOutput), {
    allowUnknownTools: true,
    id: `${name}-model`,
    price: { inputUsdPerMillion: 1, outputUsdPerMillion: 2 },
    countTokens: canCount ? ({ messages }) => messages.length * 4 : null,
  });
}

function performed(act: Act, place: string, { messages }: ModelRequest): ScriptedReply {
  const usage = {
    inputTokens: messages.length * 4,
    cachedInputTokens: messages.length,
    outputTokens: 5,
    reasoningTokens: 1,
  };
  switch (act.type) {
    case "says":
      return { text: `Said at ${place}.`, finishReason: act.ending, usage };
    case "declines":
      return { refusal: "Rather not.", usage };
    case "empty":
      return { usage };
    case "fails":
      return { error: FAILURES[act.how]() };
    case "calls":
      return {
        text: act.calls.length > 2 ? `Calls at ${place}.` : "",
        calls: act.calls.map((call, index) => ({
          ...callOf(call, `${place}.${index}`),
          callId: act.hasTwins ? `${place}.twin` : `${place}.${index}`,
        })),
        usage: act.isMeasured ? usage : null,
      };
  }
}

const FAILURES: Readonly<Record<Extract<Act, { type: "fails" }>["how"], () => Error>> = {
  overloaded: () => new ModelError({ code: "model_overloaded", message: "Busy.", retryAfterMs: 0 }),
  lost: () =>
    new ModelError({
      code: "model_timeout",
      message: "Lost.",
      retryAfterMs: 0,
      lostOutputTokens: 2,
    }),
  "too long": () => new ModelError({ code: "model_context_overflow", message: "Too long." }),
  refused: () => new ModelError({ code: "model_invalid_request", message: "No." }),
  foreign: () => new Error("foreign"),
};

function callOf(call: Call, place: string): ScriptedCall {
  switch (call.type) {
    case "note":
      return { toolName: "note", arguments: { place, mode: call.mode } };
    case "pay":
      return { toolName: "pay", arguments: { place, mode: call.mode, verdict: call.verdict } };
    case "fetch":
      return { toolName: "fetch", arguments: { place, verdict: call.verdict } };
    case "finish":
      return { toolName: FINISH_TOOL_NAME, arguments: { value: call.fits ? 1 : "one" } };
    case "unknown tool":
      return { toolName: "nothing", arguments: {} };
    case "broken JSON":
      return { toolName: "pay", arguments: '{"place":' };
    case "misfit":
      return { toolName: "pay", arguments: { place: 7 } };
    case "unknown role":
      return { toolName: SPAWN_TOOL_NAME, arguments: { role: "nobody", task: "Nothing." } };
    case "spawn":
      return { toolName: SPAWN_TOOL_NAME, arguments: request(call.role, call.plan) };
    case "queue":
      return {
        toolName: "queue",
        arguments: { place, requests: call.plans.map((one) => request(call.role, one)) },
      };
  }
}

function request(role: number, { key }: Plan): { readonly role: string; readonly task: string } {
  const depth = key.split(".").length - 1;
  return { role: nameOf(depth, role), task: taskOf(key) };
}

export function taskOf(key: string): string {
  return `Do #${key}# well.`;
}

/** Returns the agent that a task is for. */
function keyOf(task: string): string {
  return /#(\S+)#/.exec(task)?.[1] ?? "nobody";
}

function toolsOf({ toolRuns }: Outside): readonly (FunctionTool | ExternalTool)[] {
  const place = z.string();
  const begin = (
    name: string,
    context: { readonly agentPath: string; readonly stepNumber: number; readonly callId: string },
    input: object,
  ): void => {
    const { agentPath, stepNumber, callId } = context;
    toolRuns.push(
      JSON.stringify([agentPath, stepNumber, callId.replace(/^execution_\d+/, ""), name, input]),
    );
  };
  const described = { description: "Works." };
  return [
    defineTool({
      ...described,
      name: "note",
      inputSchema: z.looseObject({ place, mode: z.string() }),
      execute: (input, context) => {
        begin("note", context, input);
        return noted(input.mode, context.metadata);
      },
    }),
    defineTool({
      ...described,
      name: "pay",
      inputSchema: z.looseObject({ place, mode: z.string(), verdict: z.string() }),
      needsApproval: ({ mode }) => isNeeded(mode),
      execute: (input, context) => {
        begin("pay", context, input);
        return `Paid ${input.place}.`;
      },
    }),
    defineTool({
      ...described,
      name: "fetch",
      inputSchema: z.looseObject({ place, verdict: z.string() }),
    }),
    defineTool({
      ...described,
      name: "queue",
      inputSchema: z.object({
        place,
        requests: z.array(z.object({ role: z.string(), task: z.string() })),
      }),
      execute: ({ requests, ...input }, context) => {
        begin("queue", context, input);
        for (const one of requests) context.queueSubtask(one);
        return "Queued.";
      },
    }),
  ];
}

async function noted(mode: string, metadata: object): Promise<unknown> {
  if (mode === "throws") throw new Error("No paper.");
  if (mode === "slow") await flushEventLoop();
  if (mode === "nothing") return undefined;
  return mode === "json" ? { noted: true, metadata } : "Noted.";
}

function isNeeded(mode: string): boolean | string | Promise<boolean | string> {
  if (mode === "throws") throw new Error("Who knows.");
  if (mode === "later") return flushEventLoop().then(() => "It was looked at.");
  return mode === "reason" ? "It is dear." : mode === "always";
}

/** Returns the same answer to the same question, whoever answers. */
export function answerTo(question: Question): Answer {
  const given = z.looseObject({ verdict: z.string() }).parse(question.arguments);
  switch (given.verdict) {
    case "approve":
      return approve(question);
    case "change":
      return approve(question, {
        arguments: JsonObjectSchema().parse({ ...given, isChanged: true }),
      });
    case "result":
      return provideResult(question, { fetched: true });
    case "failure":
      return provideError(question, "Not to be had.");
    default:
      return deny(question, "Too dear.");
  }
}
