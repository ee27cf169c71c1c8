// Trees of thousands of agents, with models that answer from the request alone, and counters for
// the run's use of its environment.

import { SPAWN_TOOL_NAME, type AgentRole } from "../../src/agent/agent-role.ts";
import { defineAgent } from "../../src/agent/define-agent.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { Budget } from "../../src/policies/budget.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import type { Model, ModelReply } from "../../src/model/model.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../src/testing/recording-sink.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";
import { checkBigTree } from "./big-tree-laws.ts";

/** The usage of every reply; a lease of these models holds exactly that. */
export const TOKENS_PER_REPLY = 15;
const usage = { inputTokens: 10, cachedInputTokens: 0, outputTokens: 5, reasoningTokens: 0 };
const MOST_OUTPUT = 5;

function reply(text: string, toolCalls: ModelReply["message"]["toolCalls"] = []): ModelReply {
  const finishReason = toolCalls.length === 0 ? "stop" : "tool_calls";
  return { message: { role: "assistant", text, toolCalls }, finishReason, usage };
}

function model(id: string, generate: Model["generate"]): Model {
  return { provider: "scripted", id, countTokens: () => usage.inputTokens, generate };
}

/** No two tasks of a run are equal, since repeated delegations would be refused. */
let tasks = 0;

/** Delegates `total` tasks to `below`, `perReply` at once, then answers. */
export function lead(name: string, below: AgentRole, total: number, perReply = total): AgentRole {
  const delegations = (count: number): ModelReply["message"]["toolCalls"] =>
    Array.from({ length: count }, () => {
      tasks += 1;
      const argumentsText = JSON.stringify({ role: below.name, task: `Part ${tasks}` });
      const callId = CallIdSchema().parse(`call_${tasks}`);
      return { callId, toolName: SPAWN_TOOL_NAME, argumentsText };
    });
  return defineAgent({
    name,
    description: "Leads.",
    instructions: "You delegate.",
    maxOutputTokens: MOST_OUTPUT,
    subagents: [below],
    model: model(`${name}-model`, ({ messages }) => {
      const done = messages.filter(({ role }) => role === "tool").length;
      const left = Math.min(perReply, total - done);
      return Promise.resolve(left > 0 ? reply("", delegations(left)) : reply("All is done."));
    }),
  });
}

/** Answers when `opened` resolves; by default at once. */
export function worker(opened?: Promise<void>, budget: Budget = {}): AgentRole {
  return defineAgent({
    name: "worker",
    description: "Works.",
    instructions: "You work.",
    maxOutputTokens: MOST_OUTPUT,
    budget,
    model: model("worker-model", async (_request, { signal }) => {
      if (opened !== undefined) await Promise.race([opened, aborted(signal)]);
      return reply("Done.");
    }),
  });
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
  });
}

/** Counts how often a run read the time, created an id and emitted an event. */
export interface Work {
  readonly clockReadings: number;
  readonly ids: number;
  readonly events: number;
}

export interface Played {
  readonly result: RunResult;
  readonly sink: RecordingSink;
  readonly work: Work;
}

const MANY = 1_000_000;
const NO_LIMITS = { maxDepth: 10, maxBreadthPerParent: MANY, maxTotalSubagents: MANY };

export interface Bounds {
  readonly budget?: Budget;
  readonly maxTotalSubagents?: number;
}

/** Plays a tree to its end and checks all laws. `meanwhile` is called once the run has begun. */
export async function playBigTree(
  root: AgentRole,
  { budget = {}, maxTotalSubagents = MANY }: Bounds = {},
  meanwhile: (run: Run, sink: RecordingSink) => void | Promise<void> = () => undefined,
): Promise<Played> {
  const clock = new ManualClock();
  const sink = new RecordingSink();
  const source = sequentialIds();
  let clockReadings = 0;
  let ids = 0;
  const orchestrator = new Orchestrator({
    limits: { ...NO_LIMITS, maxTotalSubagents },
    sinks: [sink],
    clock: {
      nowMs: () => clock.nowMs(),
      monotonicMs: () => {
        clockReadings += 1;
        return clock.monotonicMs();
      },
      setTimer: (delayMs, wake) => clock.setTimer(delayMs, wake),
    },
    ids: {
      next: (kind) => {
        ids += 1;
        return source.next(kind);
      },
    },
  });
  const run = orchestrator.start(root, "Begin.", { budget });
  await meanwhile(run, sink);
  const result = await run.result;
  await flushEventLoop();
  checkBigTree(result, sink.events);
  if (clock.pendingTimers > 0) throw new Error(`${clock.pendingTimers} timers are left behind.`);
  return { result, sink, work: { clockReadings, ids, events: sink.events.length } };
}
