// Hooks without a run: an input and a patch for every point, bounds with a manual clock, and chains
// of registered hooks.

import { z } from "zod";

import { type HookBounds, runChain, type ChainResult } from "../../src/hooks/run-chain.ts";
import { transform, type Hook } from "../../src/hooks/hook.ts";
import type { TransformOptions } from "../../src/hooks/hook.ts";
import type {
  HookContext,
  PointInput,
  PointPatch,
  TransformPoint,
} from "../../src/hooks/hook-points.ts";
import { compileHooks } from "../../src/hooks/hook-set.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  RunIdSchema,
  createStepId,
} from "../../src/protocol/ids.ts";
import type { Message } from "../../src/protocol/message.ts";
import type { StepRecord } from "../../src/protocol/step-record.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { NO_TIMING } from "../../src/protocol/step-timing.ts";
import { contextOf } from "./step-context.ts";

const EXECUTION_ID = ExecutionIdSchema().parse("exec_1");
const CALL_ID = CallIdSchema().parse("call_1");

export const STEP: StepRecord = {
  stepId: createStepId(EXECUTION_ID, 1),
  number: 1,
  context: contextOf(1),
  io: { messageCount: 2, text: "", finishReason: "tool_calls" },
  tools: { calls: [], executions: [] },
  telemetry: { usage: NO_USAGE, startedAtMs: 0, endedAtMs: 5, elapsedMs: 5, timing: NO_TIMING },
};

export const MESSAGES: readonly Message[] = [
  { role: "user", text: "Find trees.", origin: "task" },
  {
    role: "assistant",
    text: "Looking.",
    toolCalls: [{ callId: CALL_ID, toolName: "search", argumentsText: "{}" }],
  },
  { role: "tool", callId: CALL_ID, toolName: "search", text: "Oak." },
];

const CALL = { toolName: "search", callId: CALL_ID, arguments: { query: "trees", limit: [1, 2] } };
const STOP = { text: "Done.", output: undefined, steps: [STEP], isActive: false, vetoes: 0 };

/** An input for every point. */
export const INPUTS: PointInput = {
  userInput: { role: "lead", task: "Survey.", metadata: { user: { id: 7 } } },
  beforeModel: { instructions: "Work.", messages: MESSAGES, steps: [STEP] },
  beforeTool: CALL,
  afterTool: { ...CALL, outcome: "succeeded", text: "Oak." },
  beforeCompaction: { messages: MESSAGES, inputTokens: 900, maxInputTokens: 800 },
  subagentStart: { role: "researcher", task: "Read.", childDepth: 1 },
  stop: STOP,
  subagentStop: STOP,
};

/**
 * Patches with every field that each point allows; fields that end a chain are in separate patches.
 */
export const PATCHES: { readonly [P in TransformPoint]: readonly PointPatch[P][] } = {
  userInput: [{ task: "Survey it all." }, { refuse: "Not today." }],
  beforeModel: [{ instructions: "Hurry.", messages: MESSAGES.slice(0, 1), temperature: 0.5 }],
  beforeTool: [{ arguments: { query: "oaks" } }, { deny: "Too dear." }],
  afterTool: [{ text: "An oak.", metadata: { tidy: true } }],
  beforeCompaction: [{ keepMessages: 3 }],
  subagentStart: [{ task: "Read it all." }],
  stop: [{ continueWith: "Check once more." }],
  subagentStop: [{ continueWith: "Check once more." }],
};

export const POINTS = [
  "userInput",
  "beforeModel",
  "beforeTool",
  "afterTool",
  "beforeCompaction",
  "subagentStart",
  "stop",
  "subagentStop",
] as const satisfies readonly TransformPoint[];

export interface Fixture {
  readonly clock: ManualClock;
  readonly controller: AbortController;
  readonly bounds: HookBounds;
  /** The stops that hooks requested with `requestStop`. */
  readonly stops: readonly string[];
}

/** Bounds of one second, with a grace period of ten milliseconds. */
export function setUp(): Fixture {
  const clock = new ManualClock();
  const controller = new AbortController();
  const stops: string[] = [];
  const { signal } = controller;
  const contextFor = (hookName: string): HookContext => ({
    runId: RunIdSchema().parse("run_1"),
    agentId: AgentIdSchema().parse("agent_1"),
    agentPath: "lead",
    depth: 0,
    role: "lead",
    executionId: EXECUTION_ID,
    stepNumber: 2,
    hookName,
    metadata: Object.freeze({ tenant: "acme" }),
    context: undefined,
    signal,
    requestStop: (message) => void stops.push(`${hookName}: ${message}`),
  });
  return {
    clock,
    controller,
    stops,
    bounds: { signal, clock, timeoutMs: 1_000, graceMs: 10, createContext: contextFor },
  };
}

const untyped = z.custom<undefined>();

/** A hook that returns any value, as JavaScript would permit. */
export function gives(
  point: TransformPoint,
  patch: unknown,
  options: TransformOptions<TransformPoint> = {},
): Hook {
  return transform(point, () => untyped.parse(patch), { name: "odd", ...options });
}

/** Runs the hooks of a point over its input, as an agent does. */
export function run<P extends TransformPoint>(
  point: P,
  hooks: readonly Hook[],
  { bounds }: Fixture = setUp(),
): Promise<ChainResult<P>> {
  const input = INPUTS[point];
  return runChain(point, compileHooks(hooks).chain(point, "search"), input, bounds);
}
