// Tools that act differently at each call, and short forms of the outcomes of calls, for tests of
// errors.

import { EspalierError } from "../../src/kernel/error.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import { findMessageProblems } from "../../src/testing/check-messages.ts";
import type { ToolExecution } from "../../src/protocol/tool-outcome.ts";
import { ToolRetryError } from "../../src/tools/tool-error.ts";
import type { ToolContext } from "../../src/tools/tool-context.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { Fixture } from "../harness/run-scripted.ts";
import { spyTool } from "../harness/tools.ts";

/** The action of a tool at one call. */
export type Act = (context: ToolContext) => unknown;

/** A call that succeeds. */
export const succeeds: Act = () => "fine";

/** A call that throws. */
export function throws(thrown: unknown): Act {
  return () => {
    throw thrown;
  };
}

/** A call that fails. */
export const fails: Act = throws(new Error("broken"));

/** A call for which the model is asked to correct it. */
export const retries: Act = throws(new ToolRetryError("Say it otherwise."));

/** Returns a tool that takes one act after the other, call by call, and repeats the last one. */
export function acting(
  name: string,
  acts: readonly Act[],
  more: Parameters<typeof spyTool>[2] = {},
): ReturnType<typeof spyTool> {
  let called = 0;
  return spyTool(
    name,
    (context) => {
      const act = acts[Math.min(called, acts.length - 1)];
      called += 1;
      return act?.(context);
    },
    more,
  );
}

/** Returns all calls of an agent in order; those of the root by default. */
export function executions(result: RunResult, agent = 0): readonly ToolExecution[] {
  return result.agents[agent]?.steps.flatMap((step) => step.tools.executions) ?? [];
}

/** Returns the type and error code of each call, in order. */
export function ends(result: RunResult, agent = 0): readonly string[] {
  return executions(result, agent).map(({ type, errorCode }) =>
    errorCode === undefined ? type : `${type} ${errorCode}`,
  );
}

/** Returns the message to the model for each call. */
export function texts(result: RunResult, agent = 0): readonly string[] {
  return executions(result, agent).map(({ text }) => text);
}

/** Returns the status, the reason and its data. */
export function ending(result: RunResult, agent = 0): readonly unknown[] {
  const { status, reason } = result.agents[agent] ?? result;
  return [status, reason.code, reason.data];
}

/** Returns the tool messages in the final history of the root, and its problems. */
export async function historyOf(
  fixture: Fixture,
  run: Run,
): Promise<{ readonly texts: readonly string[]; readonly problems: readonly string[] }> {
  let messages: Parameters<typeof findMessageProblems>[0] = [];
  for await (const { state } of run.iterate()) messages = state.conversation.messages;
  await fixture.outcome(run);
  const told = messages.filter((message) => message.role === "tool");
  return { texts: told.map(({ text }) => text), problems: findMessageProblems(messages) };
}

/** Returns an error of espalier's own whose fields the test may manipulate. */
export function coded(fields: PropertyDescriptorMap): Error {
  const error = new EspalierError({ code: "tool_error", message: "coded" });
  return Object.defineProperties(error, fields);
}
