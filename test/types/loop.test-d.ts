// Goal: what a step calls for is one closed set (R15), and what a model can do besides replying is declared (R49).
// Method: the types of the two, compared; a switch over all outcomes that leaves nothing over.

import { expectTypeOf, test } from "vitest";

import type { StepOutcome } from "../../src/agent/step-outcome.ts";
import type { Model } from "../../src/model/model.ts";
import type { StopCondition } from "../../src/policies/stop-conditions.ts";

test("a step calls for one of five things", () => {
  expectTypeOf<StepOutcome["type"]>().toEqualTypeOf<
    "continue" | "stop" | "compact" | "retry" | "fail"
  >();
});

test("code that has handled four of them has one left, and code that has handled all has none", () => {
  type Without<T extends StepOutcome["type"]> = Exclude<StepOutcome, { readonly type: T }>;
  expectTypeOf<Without<"continue" | "stop" | "compact" | "retry">>().toEqualTypeOf<
    Extract<StepOutcome, { readonly type: "fail" }>
  >();
  expectTypeOf<
    Without<"continue" | "stop" | "compact" | "retry" | "fail">
  >().toEqualTypeOf<never>();
});

test("a model must have a name and reply; everything else is declared as optional", () => {
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

test("an ability that is declared with another meaning is none", () => {
  type Bare = Pick<Model, "provider" | "id" | "generate">;
  expectTypeOf<Bare & { countTokens: string }>().not.toExtend<Model>();
  expectTypeOf<Bare & { assertReady: true }>().not.toExtend<Model>();
});

test("code that uses an optional ability must see that it may be missing", () => {
  expectTypeOf<undefined>().toExtend<Model["countTokens"]>();
  expectTypeOf<undefined>().toExtend<Parameters<Model["generate"]>[1]["onDelta"]>();
});

test("a condition gives a reason, several, or nothing; it cannot answer yes", () => {
  expectTypeOf<boolean>().not.toExtend<ReturnType<StopCondition>>();
  expectTypeOf<undefined>().toExtend<ReturnType<StopCondition>>();
});
