// Goal: a delay that an error in the middle of a stream states counts like Retry-After.
// Method: the four interfaces over real HTTP; delays in words and in Google's RetryInfo.

import { describe, expect } from "vitest";

import { ModelError } from "../../src/model/model-error.ts";
import { proves } from "../harness/proves.ts";
import { INTERFACES, WireServer } from "../support/four-interfaces.ts";
import { never, QUESTION, rejection } from "../support/openai-calls.ts";

const DELAYS = [
  ["Overloaded.", []],
  ["Overloaded. Please try again in 1.2s.", []],
  ["Overloaded. Please wait 32 seconds before retrying.", []], // GitHub Models
  ["Overloaded. Retry in about 2 minutes.", []],
  ["Overloaded. Try again in 3s.", [{ retryDelay: "soon" }]],
  ["Overloaded.", [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34.4s" }]],
] as const;

describe.each(INTERFACES)("an error in the middle of a stream over $name", (face) => {
  proves(["D562"], `has the delay that it states (${face.name})`, async () => {
    const delays: unknown[] = [];
    for (const [words, details] of DELAYS) {
      const stated = `"details":${JSON.stringify(details)},"message":"${words}"`;
      const failed = face.failed.replace(/"message":"[^"]+"/, stated);
      const body = face.events.slice(0, face.begun).join("") + failed;
      await using server = await WireServer.start({ body });
      const options = { signal: never(), onDelta: () => undefined };
      const thrown = await rejection(face.model(server.url).generate(QUESTION, options));
      delays.push(thrown instanceof ModelError ? thrown.retryAfterMs : thrown);
    }
    expect(delays).toEqual([undefined, 1_200, 32_000, 120_000, 3_000, 34_400]);
  });
});
