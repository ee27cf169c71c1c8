// Goal: a request that is too long is recognized by the wording of any server. No other error is
// mistaken for it, since only then does compaction help.
// Method: messages of real servers with the status that they report.

import { describe, expect, test } from "vitest";

import { classifyRefusal, classifyReport } from "../../src/model/http-errors.ts";

const TOO_LONG = [
  "prompt is too long: 3333404 tokens > 200000 maximum",
  "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
  "prompt too long; exceeded max context length by 1119046 tokens",
  "This model's maximum context length is 1048565 tokens. However, you requested 1250025 tokens",
  "Your input exceeds the context window of this model.",
  "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
  "the request exceeds the available context size, try increasing it",
  "Please reduce the length of the messages or completion.",
];

const OTHERS = [
  "max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens",
  "messages: text content blocks must be non-empty",
  "tools.0.custom.description: String should have at most 1024 characters",
];

describe("a request that is too long", () => {
  test.each(TOO_LONG)("is recognized by the message: %s", (message) => {
    expect([
      classifyRefusal(400, undefined, message),
      classifyReport(["invalid_request_error"], undefined, message),
    ]).toEqual(["model_context_overflow", "model_context_overflow"]);
  });

  test.each(OTHERS)("is not recognized by the message: %s", (message) => {
    expect(classifyRefusal(400, undefined, message)).toBe("model_invalid_request");
  });

  test("is not recognized with a status other than 400", () => {
    const said = "The context window service is down.";
    expect([429, 503, 500, 401].map((status) => classifyRefusal(status, undefined, said))).toEqual([
      "model_rate_limited",
      "model_overloaded",
      "model_unavailable",
      "model_unauthorized",
    ]);
  });
});
