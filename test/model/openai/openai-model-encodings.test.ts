// Goal: a compressed reply is read like a plain one, just as early and as far. A corrupt reply is
// distinguished from a truncated one.
// Method: a server that compresses its replies, or pretends to.

import { describe, expect, test } from "vitest";
import { brotliCompressSync, constants, createGzip, gzipSync } from "node:zlib";

import { proves } from "../../harness/proves.ts";
import { failure, failureOn, modelAt, MODES, QUESTION, reply } from "../../support/openai-calls.ts";
import { OpenAiServer, says, type ServerReply } from "../../support/openai-server.ts";

const ENCODERS = [
  ["gzip", gzipSync],
  ["x-gzip", gzipSync],
  ["GZIP", gzipSync],
  ["br", brotli],
] as const;
function brotli(body: string): Buffer {
  return brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } });
}

const WHOLE = JSON.stringify({
  choices: [
    { index: 0, message: { role: "assistant", content: "It is a 🌳." }, finish_reason: "stop" },
  ],
});
const EVENTS = ["It is", " a 🌳."].map((content) => event({ content })).join("");

function event(delta: object, finish: string | null = null): string {
  const choices = [{ index: 0, delta, finish_reason: finish }];
  return `data: ${JSON.stringify({ choices })}\n\n`;
}

const answerIn = {
  whole: (body: Uint8Array, encoding: string): ServerReply => ({ type: "raw", body, encoding }),
  streamed: (body: Uint8Array, encoding: string): ServerReply => ({
    type: "raw",
    body,
    encoding,
    contentType: "text/event-stream",
  }),
};
const SAID = { whole: WHOLE, streamed: `${EVENTS}${event({}, "stop")}data: [DONE]\n\n` };

describe.each(MODES)("a reply that comes %s", (mode) => {
  for (const [encoding, encode] of ENCODERS) {
    proves(["M21"], `is decoded (${encoding}, ${mode})`, async () => {
      const answer = answerIn[mode](encode(SAID[mode]), encoding);
      await using server = await OpenAiServer.start(() => answer);
      const { reply: got, pieces } = await reply(modelAt(server), mode);
      expect([got.message.text, pieces.join("")]).toEqual([
        "It is a 🌳.",
        mode === "whole" ? "" : "It is a 🌳.",
      ]);
    });

    test(`fails by its status if that is an error (${encoding})`, async () => {
      const error = { message: "No such thing.", code: "context_length_exceeded" };
      const body = encode(JSON.stringify({ error }));
      const facts = await failureOn({ type: "raw", body, encoding, status: 400 }, mode);
      expect([facts.code, facts.data["status"], facts.message.slice(0, 64)]).toEqual([
        "model_context_overflow",
        400,
        "Expected a reply from the model, got status 400 No such thing. S",
      ]);
    });
  }

  proves(["M22"], `is rejected if it is not in its declared encoding (${mode})`, async () => {
    for (const encoding of ["gzip", "br"]) {
      const facts = await failureOn(answerIn[mode](Buffer.from(SAID[mode]), encoding), mode);
      expect([facts.code, facts.isRetryable]).toEqual(["model_protocol_error", false]);
      expect(facts.message).toMatch(/got a body that is not in its encoding (gzip|br) \(.+\)\. /);
      expect(facts.lostOutputTokens).toBe(mode === "whole" ? 0 : undefined);
    }
  });

  test("is reported as cut if its compressed body is truncated", async () => {
    for (const [encoding, encode] of ENCODERS) {
      const all = encode(SAID[mode] + " ".repeat(1_000));
      const facts = await failureOn(answerIn[mode](all.subarray(0, 40), encoding), mode);
      expect(facts.code).toBe("model_unavailable");
      expect(facts.message).toMatch(/got a reply that was cut \(unexpected end of file\)\. /);
    }
  });

  test("is rejected if the request did not accept its encoding", async () => {
    const facts = await failureOn(answerIn[mode](Buffer.from(SAID[mode]), "lzma"), mode);
    expect([facts.code, facts.message.slice(0, 91)]).toEqual([
      "model_protocol_error",
      "Expected a reply from the model, got a body in the encoding lzma, which the request did not",
    ]);
    const refused = { type: "raw", body: "No.", encoding: "lzma", status: 401 } as const;
    expect((await failureOn(refused, mode)).code).toBe("model_unauthorized");
  });

  proves(["M22"], `is limited by its decoded length (${mode})`, async () => {
    const contentType = mode === "whole" ? "application/json" : "text/event-stream";
    const bomb = (mode === "whole" ? " ".repeat(12) : ": still here\n").repeat(10_000);
    for (const [encoding, encode] of [ENCODERS[0], ENCODERS[3]] as const) {
      const plain = await failureOn({ type: "pours", pieces: endless(bomb), contentType }, mode);
      // Concatenated members are valid gzip, but not valid brotli.
      const pieces = encoding === "gzip" ? endless(encode(bomb)) : [encode(bomb.repeat(200))];
      const facts = await failureOn({ type: "pours", pieces, encoding, contentType }, mode);
      expect(facts.message).toMatch(/a (body|stream) of more than \d+ bytes/);
      expect(facts).toEqual(plain);
    }
  });

  proves(["M22"], `is aborted if its body decodes to nothing (${mode})`, async () => {
    const pieces = endless(Buffer.concat(Array.from({ length: 1_000 }, () => gzipSync(""))));
    const facts = await failureOn({ type: "pours", pieces, encoding: "gzip" }, mode);
    expect([facts.code, facts.message.slice(0, 92)]).toEqual([
      "model_protocol_error",
      "Expected a reply from the model, got a body that is not in its encoding gzip (it has no end)",
    ]);
  });

  test("closes its connection when it is aborted", async () => {
    for (const encoding of ["gzip", "lzma"]) {
      const pieces = endless(gzipSync(" ".repeat(1_000_000)));
      await using server = await OpenAiServer.start(() => ({ type: "pours", pieces, encoding }));
      await failure(modelAt(server), mode);
      expect(await server.request(1).ended).toBe("closed early");
    }
  });
});

function* endless(piece: string | Uint8Array): Generator<string | Uint8Array, never> {
  for (;;) yield piece;
}

proves(["M21"], "requests compression only for whole replies over its own transport", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  for (const mode of MODES) await reply(modelAt(server), mode);
  await reply(modelAt(server, { headers: { "Accept-Encoding": "identity" } }), "whole");
  const sent: (string | null)[] = [];
  const own: typeof fetch = async (url, init) => {
    sent.push(new Headers(init?.headers).get("accept-encoding"));
    return await fetch(url, init);
  };
  await reply(modelAt(server, { fetch: own }), "whole");
  expect(server.requests.slice(0, 3).map(({ headers }) => headers["accept-encoding"])).toEqual([
    "gzip, br",
    undefined,
    "identity",
  ]);
  expect(sent).toEqual([null]);
});

proves(["M21"], "emits the chunks of a compressed stream as they arrive", async () => {
  const { promise: heard, resolve: hear } = Promise.withResolvers<void>();
  async function* flushed(): AsyncGenerator<Uint8Array> {
    const gzip = createGzip();
    gzip.write(EVENTS);
    await new Promise<void>((resolve) => gzip.flush(constants.Z_SYNC_FLUSH, resolve));
    yield gzip.read();
    await heard;
    gzip.end(event({}, "stop"));
    yield* gzip;
  }
  await using server = await OpenAiServer.start(() => ({
    type: "pours",
    pieces: flushed(),
    encoding: "gzip",
  }));
  const signal = new AbortController().signal;
  const { message } = await modelAt(server).generate(QUESTION, { signal, onDelta: () => hear() });
  expect(message.text).toBe("It is a 🌳.");
});

test("closes a compressed response when the call is aborted", async () => {
  const { promise: never } = Promise.withResolvers<void>();
  async function* paused(): AsyncGenerator<Uint8Array> {
    const gzip = createGzip();
    gzip.write(EVENTS);
    await new Promise<void>((resolve) => gzip.flush(constants.Z_SYNC_FLUSH, resolve));
    yield gzip.read();
    await never;
  }
  await using server = await OpenAiServer.start(() => ({
    type: "pours",
    pieces: paused(),
    encoding: "gzip",
  }));
  const caller = new AbortController();
  const options = { signal: caller.signal, onDelta: () => caller.abort("enough") };
  await expect(modelAt(server).generate(QUESTION, options)).rejects.toBe("enough");
  expect(await server.request(1).ended).toBe("closed early");
});
