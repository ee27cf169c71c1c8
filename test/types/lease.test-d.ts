// Goal: the types allow no model call without a lease (B4, X1).
// Method: accepted and refused arguments of the ports, compared as types.

import { expectTypeOf, test } from "vitest";

import type { Lease, LeaseAsk, LeaseOutcome } from "../../src/budget/lease.ts";
import type { EffectPosition } from "../../src/agent/agent-identity.ts";
import type { callModel, PaidCall } from "../../src/agent/model-call.ts";
import type { ModelRequest } from "../../src/model/model.ts";
import type { LeaseId, StepId } from "../../src/protocol/ids.ts";

test("a model call requires a position, a lease, a request and its facts", () => {
  expectTypeOf<Parameters<typeof callModel>[1]>().toEqualTypeOf<PaidCall>();
  expectTypeOf<Pick<PaidCall, keyof PaidCall>>().toEqualTypeOf<{
    readonly effectPosition: EffectPosition;
    readonly lease: Lease;
    readonly request: ModelRequest;
    readonly isEstimated: boolean;
    readonly ephemeralCount: number;
  }>();
  expectTypeOf<undefined>().not.toExtend<PaidCall["lease"]>();
  expectTypeOf<null>().not.toExtend<PaidCall["lease"]>();
});

test("a request for a lease, or an unchecked answer to it, is not a lease", () => {
  expectTypeOf<LeaseAsk>().not.toExtend<Lease>();
  expectTypeOf<LeaseOutcome>().not.toExtend<Lease>();
  expectTypeOf<Extract<LeaseOutcome, { type: "granted" }>["lease"]>().toEqualTypeOf<Lease>();
  expectTypeOf<Extract<LeaseOutcome, { type: "refused" }>>().not.toHaveProperty("lease");
  expectTypeOf<Extract<LeaseOutcome, { type: "cancelled" }>>().not.toHaveProperty("lease");
});

test("a lease cannot be written by hand, since the ledger creates its id", () => {
  type Forged = { leaseId: string; inputTokens: number; maxOutputTokens: number };
  expectTypeOf<Forged>().not.toExtend<Lease>();
  expectTypeOf<string>().not.toExtend<LeaseId>();
  expectTypeOf<StepId>().not.toExtend<LeaseId>();
  expectTypeOf<Lease["leaseId"]>().toEqualTypeOf<LeaseId>();
});
