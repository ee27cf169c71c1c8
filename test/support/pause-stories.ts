// Parts for tests of pauses: tools that ask, the questions of a paused run, and the errors of a
// resumption.

import { expect } from "vitest";
import { z } from "zod";

import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import { EspalierError } from "../../src/kernel/error.ts";
import { approve, type Answer, type Question } from "../../src/protocol/question.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import type { ExternalTool, FunctionTool } from "../../src/tools/tool.ts";

/** A tool that pays amounts, each of which needs approval. `paid` lists the executed amounts. */
export function payTool(
  needsApproval: boolean | ((input: { amount: number }) => unknown) = true,
): FunctionTool & { readonly paid: readonly number[] } {
  const paid: number[] = [];
  const asked: unknown = needsApproval;
  const tool = defineTool({
    name: "pay",
    description: "Pays an amount.",
    inputSchema: z.object({ amount: z.number() }),
    needsApproval: isPredicate(asked) ? asked : asked === true,
    execute: ({ amount }) => {
      paid.push(amount);
      return `paid ${amount}`;
    },
  });
  return Object.freeze({ ...tool, paid });
}

function isPredicate(value: unknown): value is (input: { amount: number }) => boolean {
  return typeof value === "function";
}

/** A tool that is executed elsewhere. */
export function externalTool(name: string): ExternalTool {
  return defineTool({
    name,
    description: `Does ${name} elsewhere.`,
    inputSchema: z.looseObject({}),
  });
}

/** The question at a place in the list. */
export function questionOf(result: RunResult, index = 0): Question {
  return result.questions[index] ?? expect.fail(`no question ${index}`);
}

/** An approval of everything that is asked. */
export function approveAll(result: RunResult): readonly Answer[] {
  return result.questions.map((question) => approve(question));
}

/** Returns the path of the agent and the tool of every question. */
export function asked(result: RunResult): readonly (readonly [string, string])[] {
  return result.questions.map(({ agentPath, toolName }) => [agentPath, toolName]);
}

/** The status and the code of the reason. */
export function ending(result: RunResult): readonly [string, string] {
  return [result.status, result.reason.code];
}

/** The code of the error that is thrown, and the problem that it names. */
export function refusalOf(resumption: () => unknown): readonly [string, unknown] {
  try {
    resumption();
  } catch (error) {
    if (EspalierError.is(error)) return [error.code, error.data["problem"]];
    throw error;
  }
  return expect.fail("nothing was thrown");
}

/** Returns the text of each call of the root's steps, in call order. */
export function texts(result: RunResult): readonly string[] {
  return result.steps.flatMap((step) => step.tools.executions.map(({ text }) => text));
}

/** An approver that answers nothing: each question pauses the run. */
export function leaveOpen(): undefined {
  return undefined;
}
