// Goal: an adapter learns at once, and in the terms of this library, that a provider gave a call no id.
// Method: ids that are and are not, and the whole error.

import { expect, test } from "vitest";

import { toCallId } from "espalier/extend";
import { thrownBy } from "../support/thrown.ts";

test("a non-empty text is the id of a call as it is", () => {
  expect(toCallId("call_1")).toBe("call_1");
});

test("an empty text is refused with what to do", () => {
  expect(thrownBy(() => toCallId(""))).toEqual({
    code: "invalid_argument",
    message:
      'Expected callId to be a non-empty string, got "". Pass the id that the provider gave the call, or make one that is unique in the reply.',
    data: { field: "callId", expected: "a non-empty string", got: '""' },
  });
});
