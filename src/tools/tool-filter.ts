// Filters: which of its tools an agent is offered in a step, by the state of its work (R123).

import { checkMade, shown } from "../kernel/check.ts";
import { EspalierError, messageOf } from "../kernel/error.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { StepRecord } from "../protocol/step-record.ts";
import type { Usage } from "../protocol/usage.ts";
import { toolScope, type ToolScope } from "./tool-scope.ts";

/** What a filter may look at. Read-only. `Context`: what the filter asks of the run's context; default: nothing. */
export interface FilterContext<out Context = unknown> {
  /** Place of the agent in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** 0 for the root. */
  readonly depth: number;
  /** Of the step that is about to begin, from 1. */
  readonly stepNumber: number;
  /** The completed steps of this execution, oldest first. */
  readonly steps: readonly StepRecord[];
  /** What the agent itself has consumed in this execution. */
  readonly usage: Usage;
  /** What the agent may still spend, by axis (`totalTokens`, `costUsd`, `steps`, …); axes without a limit are absent. */
  readonly remaining: Readonly<Record<string, number>>;
  /** The metadata of the agent. */
  readonly metadata: JsonObject;
  /** The context of the run: the very value that was given with it; undefined: none was. */
  readonly context: Context;
}

/** Made by {@link toolFilter}. `Context`: what it asks of the context of a run. */
export interface ToolFilter<in Context = unknown> extends ToolScope {
  /**
   * Called before each step for every tool that the filter is for. Returns whether the model is offered the tool in this step. Must be pure,
   * and answers at once; if it throws or returns no boolean, its agent fails. A tool that one filter takes away is away.
   */
  readonly check: (toolName: string, facts: FilterContext<Context>) => boolean;
}

const made = new WeakSet<object>();

/**
 * A filter for the `toolFilters` of an agent. What it takes away cannot be called either. It holds for agents of the role alone:
 * to forbid something to those below, too, use a guard.
 *
 * @throws EspalierError `invalid_definition` or `invalid_option`.
 */
export function toolFilter<Context = unknown>(
  check: ToolFilter<Context>["check"],
  options: Partial<ToolScope> = {},
): ToolFilter<Context> {
  const watch = toolScope("toolFilter", check, options);
  const filter: ToolFilter<Context> = Object.freeze({ ...watch, check });
  made.add(filter);
  return filter;
}

/** Throws `invalid_definition` unless `filters` is a list of filters. */
export function checkFilters(field: string, filters: unknown): void {
  checkMade(field, filters, { made, what: "a filter", advice: "Create it with toolFilter()." });
}

/** A tool that is not offered, and the filter that took it away. */
export interface HiddenTool {
  /** Of the role. */
  readonly toolName: string;
  /** The name of the filter, or `filter#2` by its place if it has none. */
  readonly filter: string;
}

/** The tools that filters take away: each filter that does so is named. What a filter throws comes out with its name. */
export function hiddenTools(
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
    throw filterFailed(name, `it threw: ${messageOf(cause)}`, cause);
  }
  if (typeof answer === "boolean") return answer;
  void Promise.resolve(answer).catch(() => undefined); // A promise that is not waited for must not be rejected without an owner.
  throw filterFailed(name, `it returned ${shown(answer)}`, undefined);
}

function filterFailed(filter: string, what: string, cause: unknown): EspalierError {
  return new EspalierError({
    code: "tool_filter_failed",
    message: `Expected the tool filter ${filter} to return true or false, but ${what}. Make it a synchronous pure function.`,
    data: { filter },
    cause,
  });
}
