// A single call of a tool, for unit tests of tools.

import { defineAgent } from "../agent/define-agent.ts";
import type { Approver } from "../agent/approver.ts";
import type { Clock } from "../kernel/clock.ts";
import { EspalierError } from "../kernel/error.ts";
import { defined, type JsonObject } from "../kernel/json.ts";
import { Orchestrator } from "../orchestrator/orchestrator.ts";
import { approve } from "../protocol/question.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import type { FunctionTool } from "../tools/tool.ts";
import { asks, says, ScriptedModel } from "./scripted-model.ts";

/** The options of `executeTool`. */
export interface ExecuteToolOptions<Context = unknown> {
  /** The `context.context` of the tool. */
  readonly context?: Context;
  /** The `context.metadata` of the tool. Default: an empty object. */
  readonly metadata?: JsonObject;
  /** Answers the questions of the tool. Default: every call is approved. */
  readonly approver?: Approver;
  /** Default: the clock of the machine. */
  readonly clock?: Clock;
}

/**
 * Calls a tool once, as an agent does: arguments are validated, time limits hold, and an error becomes
 * a result. Returns what the model would read, with the outcome. Does not throw for what the tool throws.
 *
 * @throws EspalierError `invalid_state` if the call does not end, for example if the approver does not answer.
 *
 * @example
 * const { type, text } = await executeTool(lookUp, { thing: "pears" });
 * assert.deepEqual([type, text], ["succeeded", "12 euros"]);
 */
export async function executeTool<Context = unknown>(
  tool: FunctionTool<Context>,
  input: JsonObject,
  ...options: unknown extends Context
    ? [options?: ExecuteToolOptions<Context>]
    : [options: ExecuteToolOptions<Context> & { readonly context: Context }]
): Promise<ToolExecution>;
export async function executeTool(
  tool: FunctionTool,
  input: JsonObject,
  { context, metadata, approver = (question) => approve(question), clock }: ExecuteToolOptions = {},
): Promise<ToolExecution> {
  const model = new ScriptedModel([asks(tool.name, input), says("Done.")]);
  const role = defineAgent({
    name: "tester",
    instructions: "Call the tool.",
    model,
    tools: [tool],
    errorBudget: { maxConsecutiveErrors: 1_000, maxToolErrors: 1_000 },
  });
  const orchestrator = new Orchestrator({ approver, ...defined({ clock }) });
  const run = orchestrator.start(role, "Call the tool.", { context, ...defined({ metadata }) });
  const { agents, reason } = await run.result;
  const execution = agents[0]?.steps[0]?.tools.executions[0];
  if (execution !== undefined) return execution;
  throw new EspalierError({
    code: "invalid_state",
    message: `Cannot return the result of ${tool.name}: the call did not end. ${reason.message}`,
  });
}
