// Goal: the outcomes of a step are one closed set (R15), and optional abilities of a model are
// declared (R49).
// Method: both types compared, and a switch over all outcomes.

import { expectTypeOf, test } from "vitest";

import type { StepOutcome } from "../../src/agent/step-outcome.ts";
import type { Model } from "../../src/model/model.ts";
import type { StopCondition } from "../../src/policies/stop-conditions.ts";

test("a step has one of five outcomes", () => {
  expectTypeOf<StepOutcome["type"]>().toEqualTypeOf<
    "continue" | "stop" | "compact" | "retry" | "fail"
  >();
});

test("code that handles four of the outcomes has one left, and code that handles all has none", () => {
  type Without<T extends StepOutcome["type"]> = Exclude<StepOutcome, { readonly type: T }>;
  expectTypeOf<Without<"continue" | "stop" | "compact" | "retry">>().toEqualTypeOf<
    Extract<StepOutcome, { readonly type: "fail" }>
  >();
  expectTypeOf<
    Without<"continue" | "stop" | "compact" | "retry" | "fail">
  >().toEqualTypeOf<never>();
});

test("a model requires a name and `reply`, and every other member is optional", () => {
  type Bare = Pick<Model, "provider" | "id" | "generate">;
  expectTypeOf<Bare>().toExtend<Model>();
  expectTypeOf<Omit<Bare, "generate">>().not.toExtend<Model>();
  type Optional = {
    [K in keyof Model]-?: undefined extends Model[K] ? K : never;
  }[keyof Model];
  expectTypeOf<Optional>().toEqualTypeOf<
    | "server"
    | "replayKey"
    | "limits"
    | "inputModalities"
    | "minOutputTokens"
    | "supportsStructuredOutputs"
    | "supportsToolChoice"
    | "apiType"
    | "serviceTier"
    | "price"
    | "baseUrl"
    | "countTokens"
    | "assertReady"
    | "checkSettings"
  >();
});

test("a model whose optional member has another type is refused", () => {
  type Bare = Pick<Model, "provider" | "id" | "generate">;
  expectTypeOf<Bare & { countTokens: string }>().not.toExtend<Model>();
  expectTypeOf<Bare & { assertReady: true }>().not.toExtend<Model>();
});

test("code that uses an optional member of a model must handle its absence", () => {
  expectTypeOf<undefined>().toExtend<Model["countTokens"]>();
  expectTypeOf<undefined>().toExtend<Parameters<Model["generate"]>[1]["onDelta"]>();
});

test("a stop condition returns one reason, several or none, and cannot return true", () => {
  expectTypeOf<boolean>().not.toExtend<ReturnType<StopCondition>>();
  expectTypeOf<undefined>().toExtend<ReturnType<StopCondition>>();
});
