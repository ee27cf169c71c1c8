// Goal: recorded answers of real Responses servers result in the expected replies, however their
// bytes arrive.
// Method: recordings of other projects (RECORDED_REPLIES), each served four ways to the real
// client. A second request with the reply in its history must contain the data that the server
// wants back, and no request to another model may contain it.

import { describe, expect, test } from "vitest";

import type { ModelReply } from "../../../src/model/model.ts";
import { proves } from "../../harness/proves.ts";
import { exchange, factsOf, failureOf } from "../../support/recorded-exchange.ts";
import { recordings, WAYS, WHY_SKIPPED } from "../../support/recorded-replies.ts";

const RECORDINGS = recordings("responses");
const THEN = {
  options: { api: "responses" },
  next: { type: "events", data: [{ type: "response.completed", response: { output: [] } }] },
} as const;

test.skipIf(RECORDINGS.length > 0)(`skipped: ${WHY_SKIPPED}`, () => {
  expect(RECORDINGS).toEqual([]);
});

describe.each(RECORDINGS)("$file", (recording) => {
  const { expect: expected } = recording;
  for (const way of WAYS) {
    proves(["M18"], `results in the expected reply or error, ${way}`, async () => {
      if (expected.error !== undefined) {
        const { data, message } = await failureOf(recording, way, THEN);
        expect(data["providerCode"]).toBe(expected.error.code);
        expect(message).toContain(expected.error.message ?? "a message");
        return;
      }
      const { reply, sentBack, sentToOther } = await exchange(recording, way, THEN);
      expect(factsOf(reply, expected)).toEqual(expected);
      if (expected.order !== undefined) expect(orderOf(reply)).toEqual(expected.order);
      for (const { field, value } of expected.sendBack ?? []) {
        const sent = `${JSON.stringify(field)}:${JSON.stringify(value).slice(0, -1)}`;
        expect(sentBack).toContain(sent);
        expect(sentToOther).not.toContain(sent);
      }
    });
  }
});

/** Returns the types of the items of the reply, in order. */
function orderOf({ message }: ModelReply): readonly string[] {
  const types = { reasoning: "reasoning", text: "message", call: "function_call", opaque: "" };
  return (message.parts ?? []).map((part) => types[part.type]);
}
