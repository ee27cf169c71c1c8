// Guards with one answer, guards that record their calls, and the outcomes of calls, for tests of
// guards.

import { z } from "zod";

import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { ScriptedCall } from "../../src/testing/scripted-model.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import type { FunctionTool } from "../../src/tools/tool.ts";
import {
  toolGuard,
  type GuardDecision,
  type GuardContext,
  type GuardedCall,
  type ToolGuard,
} from "../../src/tools/tool-guard.ts";
import type { ToolScope } from "../../src/tools/tool-scope.ts";
import type { Fixture } from "../harness/run-scripted.ts";

export const ALLOW: GuardDecision = { type: "allow" };

/** Allows every call, under the name `allow`. */
export function allows(name = "allow"): ToolGuard {
  return toolGuard(() => ALLOW, { name });
}

/** Denies every call, under the name `deny`. */
export function denies(reason = "Not here.", options: Partial<ToolScope> = {}): ToolGuard {
  return toolGuard(() => ({ type: "deny", reason }), { name: "deny", ...options });
}

/** Asks about every call, under the name `ask`. */
export function asksAbout(
  reason = "Look at it first.",
  options: Partial<ToolScope> = {},
): ToolGuard {
  return toolGuard(() => ({ type: "ask", reason }), { name: "ask", ...options });
}

/** Returns a guard with an unchecked answer. */
export function giving(given: () => unknown, name = "odd"): ToolGuard {
  const check: unknown = given;
  if (!isCheck(check)) throw new TypeError("Expected a function.");
  return toolGuard(check, { name });
}

function isCheck(value: unknown): value is Parameters<typeof toolGuard>[0] {
  return typeof value === "function";
}

/** A guard with its recorded calls, in order. */
export interface Watch {
  readonly guard: ToolGuard;
  readonly asked: readonly (readonly [GuardedCall, GuardContext])[];
  /** Returns the arguments of the calls it was called for. */
  readonly seen: () => readonly unknown[];
}

/** Returns a guard that records its calls, and answers as `answer` does; by default it allows. */
export function watch(
  answer: (
    call: GuardedCall,
    context: GuardContext,
  ) => GuardDecision | Promise<GuardDecision> = () => ALLOW,
  options: Partial<ToolScope> = { name: "watch" },
): Watch {
  const asked: (readonly [GuardedCall, GuardContext])[] = [];
  const guard = toolGuard((call, context) => {
    asked.push([call, context]);
    return answer(call, context);
  }, options);
  return { guard, asked, seen: () => asked.map(([call]) => call.arguments) };
}

/** Returns the guard events: tool, decision, and every answer as text. */
export function guardings(fixture: Fixture): readonly (readonly string[])[] {
  return fixture.sink
    .ofType("tool.guarded")
    .map(({ toolName, decision, answers }) => [
      toolName,
      decision,
      ...answers.map(({ guard, answer, reason = "" }) => `${guard} ${answer} ${reason}`.trim()),
    ]);
}

/** Returns the outcome of each call of the root, in call order: type, code, and who denied it. */
export function fates(result: RunResult): readonly (readonly (string | undefined)[])[] {
  return result.steps.flatMap(({ tools }) =>
    tools.executions.map(({ type, errorCode, blockedBy }) =>
      errorCode === undefined
        ? [type]
        : [type, errorCode, ...(blockedBy === undefined ? [] : [blockedBy])],
    ),
  );
}

/** Returns the message to the model for a denied call. */
export function refusal(toolName: string, reason: string, askedSince?: string): string {
  const cause =
    askedSince === undefined ? "" : ` Approval was required for this reason: ${askedSince}`;
  return `Not executed: ${toolName} was denied. ${reason}${cause} Do without it, or answer with what you have.`;
}

/** Returns a tool that writes to a path, which must be text. `written` lists the paths. */
export function writeTool(
  more: {
    readonly needsApproval?: boolean;
    readonly maxIdenticalCalls?: number | "unlimited";
  } = {},
): FunctionTool & { readonly written: readonly string[] } {
  const written: string[] = [];
  const tool = defineTool({
    name: "write",
    description: "Writes to a path.",
    inputSchema: z.object({ path: z.string() }),
    ...more,
    execute: ({ path }) => {
      written.push(path);
      return `wrote ${path}`;
    },
  });
  return Object.freeze({ ...tool, written });
}

/** Returns a call of the tool that writes. */
export function write(path: unknown): ScriptedCall {
  return { toolName: "write", arguments: { path } };
}

/** Denies paths under `/etc`. */
export function keepsOutOfEtc(): ToolGuard {
  return toolGuard(
    ({ arguments: input }) =>
      JSON.stringify(input).includes("/etc")
        ? { type: "deny", reason: "Nobody writes to /etc." }
        : ALLOW,
    { name: "etc" },
  );
}
