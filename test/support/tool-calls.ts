// Calls of tools without a run: a real context and a real runtime, on a clock that the test moves.

import { expect } from "vitest";
import { z } from "zod";

import type { JsonValue } from "../../src/kernel/json.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  ExecutionIdSchema,
  RunIdSchema,
} from "../../src/protocol/ids.ts";
import type { SpawnRequest } from "../../src/protocol/subagent.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { defineTool, type ToolDefinition } from "../../src/tools/define-tool.ts";
import type {
  AskRequest,
  ToolContext,
  ToolProgress,
  ToolRuntime,
} from "../../src/tools/tool-context.ts";
import type { FunctionTool, FunctionUse } from "../../src/tools/tool.ts";

/** The grace period of these calls. */
export const GRACE_MS = 50;

/** A run in which tests call tools. */
export class CallFixture {
  readonly clock = new ManualClock(1_000);
  /** Aborts the calls that have no signal of their own. */
  readonly controller = new AbortController();
  readonly notes: Parameters<ToolRuntime["noteRetry"]>[0][] = [];
  readonly subtasks: SpawnRequest[] = [];
  readonly progress: ToolProgress[] = [];
  readonly asked: AskRequest[] = [];
  readonly #run = {};

  context(more: Partial<ToolContext> = {}): ToolContext {
    return Object.freeze({
      runId: RunIdSchema().parse("run_1"),
      agentId: AgentIdSchema().parse("agent_1"),
      agentPath: "lead",
      depth: 0,
      executionId: ExecutionIdSchema().parse("execution_1"),
      stepNumber: 1,
      callId: CallIdSchema().parse("call_1"),
      idempotencyKey: "run_1/execution_1.1/call_1",
      retryCount: 0,
      maxRetries: 2,
      messages: Object.freeze([]),
      signal: this.controller.signal,
      metadata: Object.freeze({ tenant: "a" }),
      context: undefined,
      queueSubtask: (request: SpawnRequest) => void this.subtasks.push(request),
      reportProgress: (progress: ToolProgress) => void this.progress.push(progress),
      ask: (request: AskRequest) => {
        this.asked.push(request);
        return Promise.resolve({ type: "unanswered", reason: "Nobody is there." } as const);
      },
      ...more,
    });
  }

  runtime(toolName: string): () => ToolRuntime {
    return () => ({
      toolName,
      clock: this.clock,
      graceMs: GRACE_MS,
      endSignal: this.controller.signal,
      run: this.#run,
      noteRetry: (note: Parameters<ToolRuntime["noteRetry"]>[0]) => void this.notes.push(note),
    });
  }

  /** Calls the tool as a run would, by the name that it has. */
  call(tool: FunctionTool, more: Partial<ToolContext> = {}): Call {
    return watched(async () => await useOf(tool).run(this.context(more), this.runtime(tool.name)));
  }
}

/** A call under way, and how it ended. */
export interface Call {
  readonly ended: Promise<CallEnd>;
  /** Lets everything run that waits for no clock; undefined: the call is still under way. */
  now(): Promise<CallEnd | undefined>;
}

export type CallEnd =
  | { readonly type: "returned"; readonly value: unknown }
  | { readonly type: "threw"; readonly error: unknown };

function watched(work: () => Promise<unknown>): Call {
  let end: CallEnd | undefined;
  const ended = work().then(
    (value): CallEnd => (end = { type: "returned", value }),
    (error: unknown): CallEnd => (end = { type: "threw", error }),
  );
  return {
    ended,
    now: async () => {
      await new Promise((resolve) => setImmediate(resolve));
      return end;
    },
  };
}

/** Actions of a call of the tool, with valid arguments. */
export function useOf(tool: FunctionTool, input: JsonValue = {}): FunctionUse {
  const bound = tool.bind(input);
  if (bound.type === "invalid") expect.unreachable("the arguments fit");
  return bound.use;
}

/** Returns a tool that accepts anything and acts as the test defines. */
export function toolThat(
  name: string,
  execute: (context: ToolContext) => unknown,
  more: Pick<ToolDefinition<z.ZodObject>, "needsApproval" | "sequential" | "timeoutMs"> = {},
): FunctionTool {
  return defineTool({
    name,
    description: `Does ${name}.`,
    inputSchema: z.looseObject({}),
    ...more,
    execute: (_input, context) => execute(context),
  });
}

/** Never settles, whatever its signal says. */
export function never(): Promise<never> {
  return new Promise(() => undefined);
}
