// Goal: neither the key nor the prompt reaches an address that the caller has not named.
// Method: two servers, one of which redirects, for the built-in transport and for a custom fetch
// that follows redirects. The requests that each server received are compared.

import { describe, expect, test } from "vitest";

import { proves } from "../../harness/proves.ts";
import { failure, modelAt, MODES, reply } from "../../support/openai-calls.ts";
import { OpenAiServer, says, status, type Handler } from "../../support/openai-server.ts";

const follows: typeof globalThis.fetch = (url, init) => fetch(url, init);

function originOf({ baseUrl }: OpenAiServer): string {
  return new URL(baseUrl).origin;
}

/** Redirects to its own origin this many times, then replies. */
function pointing(times: number, code = 307): Handler {
  return (_request, count) =>
    count <= times ? status(code, { location: `/v1/hop/${count}` }) : says("It is a tree.");
}

for (const [transport, options] of [
  ["our transport", {}],
  ["a fetch that follows redirects", { fetch: follows }],
] as const) {
  describe.each(MODES)(`${transport}, for a reply that comes %s`, (mode) => {
    for (const code of [301, 302, 303, 307, 308]) {
      proves(
        ["S7.6", "M24", "M25"],
        `sends nothing to another origin (${code}, ${transport}, ${mode})`,
        async () => {
          await using other = await OpenAiServer.start(() => says("Thank you."));
          const location = `${other.baseUrl}/chat/completions?for=you`;
          await using server = await OpenAiServer.start(() => status(code, { location }));
          const facts = await failure(modelAt(server, options), mode);
          const [from, to] = [originOf(server), originOf(other)];
          expect(facts).toEqual({
            code: "model_invalid_request",
            message: `Expected a reply from the model, got a redirect (status ${code}) from ${from} to ${to}. Set baseUrl to the address of the server: only a 307 or 308 within one origin is followed, at most five times.`,
            isRetryable: false,
            retryAfterMs: undefined,
            lostOutputTokens: undefined,
            data: { status: code, from, to },
          });
          expect([server.requests.length, other.requests.length]).toEqual([1, 0]);
        },
      );
    }

    for (const code of [301, 302, 303]) {
      proves(
        ["S7.6", "M24"],
        `rejects a redirect that would change the request (${code}, ${transport}, ${mode})`,
        async () => {
          await using server = await OpenAiServer.start(pointing(1, code));
          const facts = await failure(modelAt(server, options), mode);
          const from = originOf(server);
          expect([facts.code, facts.data]).toEqual([
            "model_invalid_request",
            { status: code, from, to: from },
          ]);
          expect(server.requests.length).toBe(1);
        },
      );
    }

    for (const code of [307, 308]) {
      proves(
        ["S7.6", "M24"],
        `follows redirects within the origin (${code}, ${transport}, ${mode})`,
        async () => {
          await using server = await OpenAiServer.start(pointing(5, code));
          const { reply: whole } = await reply(modelAt(server, options), mode);
          expect(whole.message.text).toBe("It is a tree.");
          const sent = server.requests.map(({ path, bodyText, headers }) => ({
            path,
            isSame: bodyText === server.request(1).bodyText,
            key: headers.authorization,
          }));
          const key = server.request(1).headers.authorization;
          expect(sent).toEqual(
            ["chat/completions", "hop/1", "hop/2", "hop/3", "hop/4", "hop/5"].map((path) => ({
              path: `/v1/${path}`,
              isSame: true,
              key,
            })),
          );
        },
      );
    }

    proves(["S7.6", "M24"], `follows at most five redirects (${transport}, ${mode})`, async () => {
      await using server = await OpenAiServer.start(pointing(6));
      const { code, data } = await failure(modelAt(server, options), mode);
      const from = originOf(server);
      expect([code, data]).toEqual(["model_invalid_request", { status: 307, from, to: from }]);
      expect(server.requests.length).toBe(6);
    });
  });
}

test("rejects a redirect to an invalid address or without one", async () => {
  for (const location of ["http://", "mailto:you@example.org"]) {
    await using server = await OpenAiServer.start(() => status(307, { location }));
    expect((await failure(modelAt(server), "whole")).code).toBe("model_invalid_request");
  }
  await using server = await OpenAiServer.start(() => status(307));
  expect((await failure(modelAt(server), "whole")).data).toMatchObject({ requestId: "req_1" });
});
