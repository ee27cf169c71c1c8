// Goal: no model call without a lease (B4, X1), and no way to wait for an effect but `join`: both
// held by the types.
// Method: what the ports accept, and what they do not, compared as types.

import { expectTypeOf, test } from "vitest";

import type { Lease, LeaseAsk, LeaseOutcome } from "../../src/agent/budget-gate.ts";
import type {
  Effect,
  EffectPlace,
  Effects,
  InferOutcome,
  RequestFacts,
} from "../../src/agent/effects.ts";
import type { ModelRequest } from "../../src/model/model.ts";
import type { LeaseId, StepId } from "../../src/protocol/ids.ts";

type InferArguments = Parameters<Effects["infer"]>;

test("a model call takes a place, a lease, a request and its facts, and none of them may be left out", () => {
  expectTypeOf<InferArguments>().toEqualTypeOf<
    [place: EffectPlace, lease: Lease, request: ModelRequest, facts: RequestFacts]
  >();
  expectTypeOf<InferArguments["length"]>().toEqualTypeOf<4>();
  expectTypeOf<undefined>().not.toExtend<InferArguments[1]>();
  expectTypeOf<null>().not.toExtend<InferArguments[1]>();
});

test("what asks for a lease is none, and neither is an answer that was not looked at", () => {
  expectTypeOf<LeaseAsk>().not.toExtend<Lease>();
  expectTypeOf<LeaseOutcome>().not.toExtend<Lease>();
  expectTypeOf<Extract<LeaseOutcome, { type: "granted" }>["lease"]>().toEqualTypeOf<Lease>();
  expectTypeOf<Extract<LeaseOutcome, { type: "refused" }>>().not.toHaveProperty("lease");
  expectTypeOf<Extract<LeaseOutcome, { type: "cancelled" }>>().not.toHaveProperty("lease");
});

test("a lease cannot be written down by hand: its id is minted in the ledger", () => {
  type Forged = { leaseId: string; inputTokens: number; maxOutputTokens: number };
  expectTypeOf<Forged>().not.toExtend<Lease>();
  expectTypeOf<string>().not.toExtend<LeaseId>();
  expectTypeOf<StepId>().not.toExtend<LeaseId>();
  expectTypeOf<Lease["leaseId"]>().toEqualTypeOf<LeaseId>();
});

test("an effect cannot be awaited: only join gives what came of it", () => {
  expectTypeOf<Effect<InferOutcome>>().not.toExtend<PromiseLike<unknown>>();
  expectTypeOf<Effect<InferOutcome>>().not.toHaveProperty("then");
  expectTypeOf<Awaited<ReturnType<Effects["infer"]>>>().toEqualTypeOf<Effect<InferOutcome>>();
  type JoinArguments = Parameters<Effects["join"]>;
  expectTypeOf<JoinArguments>().toEqualTypeOf<[effects: readonly Effect<unknown>[]]>();
});
