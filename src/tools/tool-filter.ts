// Filters: select the tools of a step by the state of the agent's work (R123).

import { checkCreated, describeReceived, registerCreated } from "../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { Usage } from "../protocol/usage.ts";
import { createToolScope, type ToolScope } from "./tool-scope.ts";

/**
 * Read-only facts about the agent whose step is about to begin.
 *
 * `Context` is the type of the run context that the filter reads.
 */
export interface FilterContext<out Context = unknown> {
  /** Path of the agent in the tree, such as `lead/researcher#2`. */
  readonly agentPath: string;
  /** Depth of the agent. The root is at 0. */
  readonly depth: number;
  /** The step that is about to begin, counted from 1. */
  readonly stepNumber: number;
  /** Completed steps of this execution, oldest first. */
  readonly steps: readonly StepRecord[];
  /** Consumption of the agent itself in this execution, without its subagents. */
  readonly usage: Usage;
  /**
   * The agent's remaining budget by axis, such as `totalTokens`, `costUsd` and `steps`. Axes
   * without a limit are absent.
   */
  readonly remaining: Readonly<Record<string, number>>;
  /** The metadata of the agent. */
  readonly metadata: JsonObject;
  /**
   * The run context: the value passed as `context` to `start`, `resume` or `fork`.
   * `undefined` if none was passed.
   */
  readonly context: Context;
}

/**
 * A filter of the offered tools, created by `toolFilter`. `Context` is the type of the run context
 * that the filter reads.
 */
export interface ToolFilter<in Context = unknown> extends ToolScope {
  /**
   * Returns true if the model is offered the tool in the next step. A tool that one filter hides is
   * hidden.
   *
   * The function must be synchronous and pure. If it throws or does not return a boolean, the agent
   * fails with `tool_filter_failed`.
   */
  readonly check: (toolName: string, facts: FilterContext<Context>) => boolean;
}

/**
 * Creates a filter for `toolFilters` of a role. A hidden tool is not in the request, and a call of
 * it is refused.
 *
 * A filter applies to agents of the role only. Use `toolGuard` to forbid a tool to the agents
 * below, too.
 *
 * @throws EspalierError `invalid_argument` if `check` is not a function, or a name is invalid.
 * @throws EspalierError `invalid_argument` if an option is unknown.
 *
 * @example
 * ```ts
 * const searchAtFirst = toolFilter((_toolName, { stepNumber }) => stepNumber <= 3, {
 *   name: "search-at-first",
 *   tools: ["search"],
 * });
 * const author = defineAgent({
 *   name: "author",
 *   instructions: "Search, then write the article.",
 *   model,
 *   tools: [search],
 *   toolFilters: [searchAtFirst],
 * });
 * ```
 */
export function toolFilter<Context = unknown>(
  check: ToolFilter<Context>["check"],
  options: Partial<ToolScope> = {},
): ToolFilter<Context> {
  return registerCreated("a filter", { ...createToolScope("toolFilter", check, options), check });
}

/** Throws `invalid_argument` unless `filters` is a list of filters. */
export function checkFilters(field: string, filters: unknown): void {
  checkCreated(field, filters, "a filter", "Create it with toolFilter().");
}

/** A hidden tool, and the filter that hides it. */
export interface HiddenTool {
  /** The name of the tool in the role. */
  readonly toolName: string;
  /** The name of the filter, or its position such as `filter#2`. */
  readonly filter: string;
}

/**
 * Returns the tools that filters hide, once for each filter that hides them. Throws
 * `tool_filter_failed` with the name of the filter.
 */
export function findHiddenTools(
  filters: readonly ToolFilter[],
  toolNames: readonly string[],
  facts: FilterContext,
): readonly HiddenTool[] {
  return filters.flatMap((filter, index) => {
    const name = filter.name ?? `filter#${index + 1}`;
    const concerned = toolNames.filter((tool) => filter.tools?.includes(tool) ?? true);
    const hidden = concerned.filter((tool) => !askFilter(name, filter, tool, facts));
    return hidden.map((toolName) => ({ toolName, filter: name }));
  });
}

function askFilter(
  name: string,
  filter: ToolFilter,
  toolName: string,
  facts: FilterContext,
): boolean {
  let answer: unknown;
  try {
    answer = filter.check(toolName, facts);
  } catch (cause) {
    throw createFilterFailedError(name, `it threw: ${getErrorMessage(cause)}`, cause);
  }
  if (typeof answer === "boolean") return answer;
  void Promise.resolve(answer).catch(() => undefined); // Handles a rejection.
  throw createFilterFailedError(name, `it returned ${describeReceived(answer)}`, undefined);
}

function createFilterFailedError(filter: string, problem: string, cause: unknown): EspalierError {
  return new EspalierError({
    code: "tool_filter_failed",
    message: `Expected the tool filter ${filter} to return true or false, but ${problem}. Make it a synchronous pure function.`,
    data: { filter },
    cause,
  });
}
