// Goal: recorded answers of real Chat Completions servers result in the expected replies, however
// their bytes arrive.
// Method: recordings of other projects (RECORDED_REPLIES), each served four ways to the real
// client. A second request with the reply in its history must contain the data that the server
// wants back.

import { describe, expect, test } from "vitest";

import { proves } from "../../harness/proves.ts";
import { says } from "../../support/openai-server.ts";
import { exchange, factsOf, failureOf } from "../../support/recorded-exchange.ts";
import { recordings, WAYS, WHY_SKIPPED } from "../../support/recorded-replies.ts";

const RECORDINGS = recordings("chat");
const THEN = { options: {}, next: says("Done.") };

test.skipIf(RECORDINGS.length > 0)(`skipped: ${WHY_SKIPPED}`, () => {
  expect(RECORDINGS).toEqual([]);
});

describe.each(RECORDINGS)("$file", (recording) => {
  const { expect: expected } = recording;
  for (const way of WAYS) {
    proves(["M7"], `results in the expected reply or error, ${way}`, async () => {
      if (expected.errorCodes !== undefined) {
        expect(expected.errorCodes).toContain((await failureOf(recording, way, THEN)).code);
        return;
      }
      const { reply, sentBack } = await exchange(recording, way, THEN);
      if (expected.errorRule === undefined) expect(factsOf(reply, expected)).toEqual(expected);
      else expect(reply.message.toolCalls).toHaveLength(1);
      for (const { value } of expected.sendBack ?? [])
        expect(sentBack).toContain(JSON.stringify(value).slice(1, -1));
    });
  }
});
