// Goal: only plain values leave an agent: no result, report, event or context contains a live state
// or node (R46, C25).
// Method: a type that searches properties, lists, unions and functions for live objects, and a
// proof that it finds them.

import { expectTypeOf, test } from "vitest";

import type {
  AgentState,
  PausedState,
  PendingState,
  RunningState,
} from "../../src/agent/agent-state.ts";
import type { PhaseReport } from "../../src/agent/phase-report.ts";
import type { HookContext, PointInput } from "../../src/hooks/hook-points.ts";
import type { ModelCall, ObserverContext, WrappedToolCall } from "../../src/hooks/hook.ts";
import type { AgentRuntime } from "../../src/agent/agent-runtime.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { AgentReport } from "../../src/orchestrator/tree/agent-report.ts";
import type { StopContext } from "../../src/policies/stop-conditions.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import type { SubagentResult } from "../../src/protocol/subagent.ts";
import type { DelegationContext, ToolContext } from "../../src/tools/tool-context.ts";
import type { FilterContext } from "../../src/tools/tool-filter.ts";
import type { GuardContext, GuardedCall } from "../../src/tools/tool-guard.ts";

type Leaf = string | number | boolean | bigint | symbol | null | undefined | AbortSignal;
type IsAny<T> = 0 extends 1 & T ? true : false;
/** JSON nests without end: this is as deep as the comparison looks. */
type Deepest = 7;

/** True if `T` is alive, or anything in it is; never or false if not. */
type Alive<T, Depth extends readonly unknown[] = []> =
  IsAny<T> extends true
    ? true
    : Depth["length"] extends Deepest
      ? false
      : T extends Leaf
        ? false
        : T extends AgentState | AgentRuntime
          ? true
          : T extends (...given: infer Given) => infer Returned
            ? Alive<Given[number], [...Depth, 0]> | Alive<Awaited<Returned>, [...Depth, 0]>
            : T extends readonly (infer Item)[]
              ? Alive<Item, [...Depth, 0]>
              : T extends object
                ? { [K in keyof T]-?: Alive<T[K], [...Depth, 0]> }[keyof T]
                : false;

/** Whether there is something alive in `T`. */
type Holds<T> = true extends Alive<T> ? true : false;

test("the check finds a live object at any depth", () => {
  expectTypeOf<Holds<AgentState>>().toEqualTypeOf<true>();
  expectTypeOf<Holds<PendingState>>().toEqualTypeOf<true>();
  expectTypeOf<Holds<RunningState>>().toEqualTypeOf<true>();
  expectTypeOf<Holds<PausedState>>().toEqualTypeOf<true>();
  expectTypeOf<Holds<AgentRuntime>>().toEqualTypeOf<true>();
  expectTypeOf<Holds<{ a?: { b: readonly { c: PausedState | null }[] } }>>().toEqualTypeOf<true>();
  expectTypeOf<Holds<RunResult & { readonly node: AgentRuntime }>>().toEqualTypeOf<true>();
  expectTypeOf<Holds<ToolContext & { look(): Promise<RunningState> }>>().toEqualTypeOf<true>();
  expectTypeOf<Holds<HookContext & { see(state: AgentState): void }>>().toEqualTypeOf<true>();
  expectTypeOf<Holds<EspalierEvent | { readonly state: AgentState }>>().toEqualTypeOf<true>();
});

test("no result and no report contains a live object", () => {
  expectTypeOf<Holds<RunResult>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<AgentReport>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<PhaseReport>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<SubagentResult>>().toEqualTypeOf<false>();
});

test("no event contains a live object", () => {
  expectTypeOf<Holds<EspalierEvent>>().toEqualTypeOf<false>();
});

test("no context contains a live object", () => {
  expectTypeOf<Holds<ToolContext>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<DelegationContext>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<HookContext>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<PointInput[keyof PointInput]>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<ObserverContext>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<ModelCall>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<WrappedToolCall>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<StopContext>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<GuardContext>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<GuardedCall>>().toEqualTypeOf<false>();
  expectTypeOf<Holds<FilterContext>>().toEqualTypeOf<false>();
});
