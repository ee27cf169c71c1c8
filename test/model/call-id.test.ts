// Goal: an adapter learns at once, in the terms of this library, that a provider sent no call id.
// Method: valid and invalid ids, and the whole error.

import { expect, test } from "vitest";

import { toCallId } from "espalier/extend";
import { thrownBy } from "../support/thrown.ts";

test("returns a non-empty string unchanged as the id of a call", () => {
  expect(toCallId("call_1")).toBe("call_1");
});

test("rejects an empty string and states the remedy", () => {
  expect(thrownBy(() => toCallId(""))).toEqual({
    code: "invalid_argument",
    message:
      'Expected callId to be a non-empty string, got "". Pass the id that the provider gave the call, or make one that is unique in the reply.',
    data: { field: "callId", expected: "a non-empty string", got: '""' },
  });
});
