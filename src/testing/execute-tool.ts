// A single call of a tool, for unit tests of tools.

import { defineAgent } from "../agent/define-agent.ts";
import type { Approver } from "../agent/approver.ts";
import { checkObject } from "../kernel/argument-checks.ts";
import type { Clock } from "../kernel/clock.ts";
import { EspalierError } from "../kernel/error.ts";
import { omitUndefined, type JsonObject } from "../kernel/json.ts";
import { Orchestrator } from "../orchestrator/orchestrator.ts";
import { approve } from "../protocol/question.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import type { FunctionTool } from "../tools/tool.ts";
import { asks, says, ScriptedModel } from "./scripted-model.ts";

/** Options of `executeTool`. */
export interface ExecuteToolOptions<Context = unknown> {
  /**
   * Value of `context.context` in the tool. Required if the tool declares a type for it.
   *
   * @example
   * ```ts
   * type Prices = Readonly<Record<string, number>>;
   * const lookUp = defineTool({
   *   name: "lookUp",
   *   description: "Looks up a price.",
   *   inputSchema: z.object({ thing: z.string() }),
   *   execute: ({ thing }, { context }: ToolContext<Prices>) => `${context[thing] ?? 0} euros`,
   * });
   * const { text } = await executeTool(lookUp, { thing: "pears" }, { context: { pears: 12 } });
   * ```
   */
  readonly context?: Context;
  /**
   * Value of `context.metadata` in the tool.
   *
   * @default {}
   */
  readonly metadata?: JsonObject;
  /**
   * Answers approvals and questions of the tool.
   *
   * @default approves every call
   *
   * @example
   * ```ts
   * const denied = await executeTool(
   *   search,
   *   { query: "pears" },
   *   { approver: (question) => deny(question, "Not today.") },
   * );
   * console.log(denied.type);
   * ```
   */
  readonly approver?: Approver;
  /**
   * Clock of the time limits.
   *
   * @default the clock of the machine
   */
  readonly clock?: Clock;
}

/**
 * Calls a tool once, as an agent does, for unit tests. Arguments are validated and time limits
 * apply. Returns the outcome with the text that the model would read; an error of the tool is an
 * outcome, too.
 *
 * @throws EspalierError `invalid_state` if the call does not end, for example because the approver
 * does not answer.
 *
 * @example
 * ```ts
 * const { type, text } = await executeTool(search, { query: "pears" });
 * console.log(type, text); // succeeded 12 euros
 * ```
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
  checkObject("executeTool tool", tool, "Pass a tool that defineTool created.");
  const model = new ScriptedModel([asks(tool.name, input), says("Done.")]);
  const role = defineAgent({
    name: "tester",
    instructions: "Call the tool.",
    model,
    tools: [tool],
    errorBudget: { maxConsecutiveErrors: 1_000, maxToolErrors: 1_000 },
  });
  const orchestrator = new Orchestrator({ approver, ...omitUndefined({ clock }) });
  const run = orchestrator.start(role, "Call the tool.", {
    context,
    ...omitUndefined({ metadata }),
  });
  const { agents, reason } = await run.result;
  const execution = agents[0]?.steps[0]?.tools.executions[0];
  if (execution !== undefined) return execution;
  throw new EspalierError({
    code: "invalid_state",
    message: `Cannot return the result of ${tool.name}: the call did not end. ${reason.message}`,
  });
}
