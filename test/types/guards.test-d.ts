// Goal: a guard can return exactly three answers, and can stop nothing but its call (R65, R70).
// Method: answers and guards with one fault each, which the compiler must report, and guards of
// every allowed shape.

import { expectTypeOf, test } from "vitest";

import type { StopCondition } from "../../src/policies/stop-conditions.ts";
import {
  toolGuard,
  type GuardDecision,
  type ToolGuard,
  type GuardContext,
  type GuardedCall,
} from "../../src/tools/tool-guard.ts";

test("a guard has exactly three answers, and a denial and a question have a reason", () => {
  expectTypeOf<GuardDecision["type"]>().toEqualTypeOf<"allow" | "deny" | "ask">();
  expectTypeOf<GuardDecision>().toEqualTypeOf<
    | { readonly type: "allow" }
    | { readonly type: "deny"; readonly reason: string }
    | { readonly type: "ask"; readonly reason: string }
  >();
  expectTypeOf<Awaited<ReturnType<ToolGuard["check"]>>>().toEqualTypeOf<GuardDecision>();
});

test("a value that is not an answer does not compile", () => {
  // @ts-expect-error -- a guard does not stop the run
  toolGuard(() => ({ type: "stop", reason: "Enough." }));
  // @ts-expect-error -- nor does it give a stop reason
  toolGuard(() => ({ code: "enough", message: "Enough.", data: {} }));
  // @ts-expect-error -- a denial has a reason
  toolGuard(() => ({ type: "deny" }));
  // @ts-expect-error -- so has a question
  toolGuard(async () => await Promise.resolve({ type: "ask" as const }));
  // @ts-expect-error -- an answer is an object
  toolGuard(() => "allow");
  // @ts-expect-error -- yes and no are no answers
  toolGuard(() => true);
  // @ts-expect-error -- silence is none
  toolGuard(() => undefined);
  // @ts-expect-error -- a way through without an answer
  toolGuard(({ toolName }) => {
    if (toolName === "write") return { type: "allow" };
  });
});

test("a guard receives nothing with which it could stop or change a run", () => {
  type Functions<T> = {
    [K in keyof T]: T[K] extends (...given: never[]) => unknown ? K : never;
  }[keyof T];
  expectTypeOf<Functions<GuardContext>>().toEqualTypeOf<never>();
  expectTypeOf<Functions<GuardedCall>>().toEqualTypeOf<never>();
  expectTypeOf<GuardContext>().not.toHaveProperty("requestStop");
  toolGuard((call) => {
    // @ts-expect-error -- a call is to be looked at
    call.arguments = {};
    return { type: "allow" };
  });
});

test("a stop condition is not a guard, and a guard is not a stop condition", () => {
  expectTypeOf<StopCondition>().not.toExtend<ToolGuard["check"]>();
  expectTypeOf<ToolGuard["check"]>().not.toExtend<StopCondition>();
});

test("the common guards compile as they are written", () => {
  toolGuard(() => ({ type: "allow" }));
  toolGuard(async () => await Promise.resolve({ type: "allow" as const }));
  toolGuard(({ toolName, arguments: input, kind }, { agentPath, depth }) =>
    depth > 0 && kind === "delegation"
      ? { type: "ask", reason: `${agentPath} wants ${toolName} ${JSON.stringify(input)}.` }
      : { type: "allow" },
  );
  toolGuard(() => ({ type: "deny", reason: "No." }), { name: "no", tools: ["write"] });
});
