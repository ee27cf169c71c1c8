// Goal: below sameOriginFetch the AI SDK reports an answer that is not a stream of events.
// Method: real servers below the packages of four interfaces. They answer with status 200 and an
// error, a page, or an encoded body.

import {
  brotliCompressSync,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from "node:zlib";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { describe, expect } from "vitest";

import { aiSdkModel, sameOriginFetch } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { Model } from "../../../src/model/model.ts";
import { proves } from "../../harness/proves.ts";
import { INTERFACES, WireServer, type WireAnswer } from "../../support/four-interfaces.ts";
import { rejection } from "../../support/openai-calls.ts";
import { ask } from "../../support/ai-sdk/fake-model.ts";

const apiKey = "key-0123456789";
const settings = (baseURL: string) => ({ apiKey, baseURL, fetch: sameOriginFetch });

const MODELS: Readonly<Record<string, (url: string) => Model>> = {
  Anthropic: (url) => aiSdkModel(createAnthropic(settings(url))("claude-sonnet-5")),
  Gemini: (url) => aiSdkModel(createGoogle(settings(url))("gemini-3-pro-preview")),
  Responses: (url) => aiSdkModel(createOpenAI(settings(url))("gpt-5.6")),
  "Chat Completions": (url) => aiSdkModel(createOpenAI(settings(url)).chat("gpt-5.6")),
};

async function failureOver(make: (url: string) => Model, answer: WireAnswer): Promise<ModelError> {
  await using server = await WireServer.start(answer);
  const failed = await rejection(ask(make(server.url)));
  if (!(failed instanceof ModelError)) throw new Error("Expected a ModelError.", { cause: failed });
  return failed;
}

const JSON_TYPE = { "content-type": "application/json" };
const EVENTS_TYPE = { "content-type": "text/event-stream" };
const HTML_TYPE = { "content-type": "text/html; charset=utf-8" };
const REPORT = { code: 503, message: "Loading model", type: "unavailable_error" };
const PAGE = `<!doctype html>\n<title>Sign in</title>\n${"<p>Please.</p>\n".repeat(1_000)}`;

const USAGE = { prompt_tokens: 700, completion_tokens: 2, total_tokens: 702 };
const GEMINI_USAGE = { promptTokenCount: 700, candidatesTokenCount: 2 };

/** Returns the events of a reply that says "ok". */
function eventsOver(name: string): readonly string[] {
  return INTERFACES.find((one) => one.name === name)?.events ?? [];
}

describe.each(Object.entries(MODELS))("%s", (name, make) => {
  for (const [how, headers] of [
    ["whole", JSON_TYPE],
    ["as a stream", EVENTS_TYPE],
  ] as const) {
    proves(["D570"], `reports a JSON error with status 200, ${how}`, async () => {
      const body = JSON.stringify({ error: REPORT }, null, 2);
      const { code, message, data } = await failureOver(make, { headers, body });
      expect([code, data["status"]]).toEqual(["model_overloaded", 503]);
      expect(message).toContain("an error inside the reply: Loading model.");
    });
  }

  for (const [how, headers] of [
    ["whole", HTML_TYPE],
    ["as a stream", EVENTS_TYPE],
  ] as const) {
    proves(["D570"], `quotes a page with status 200 in part, ${how}`, async () => {
      const { code, message } = await failureOver(make, { headers, body: PAGE });
      expect([code, message.length < 1_000]).toEqual(["model_protocol_error", true]);
      expect(message).toContain("not a stream of events: <!doctype html>\n<title>Sign in</title>");
    });
  }

  for (const [form, reported] of [
    ["in a list", [{ error: { message: "No luck." } }]],
    ["as an object of the type error", { object: "error", message: "No luck.", code: 400 }],
    ["as a message", { message: "No luck." }],
    ["as a detail", { detail: "No luck." }],
    ["as a list of details", { detail: [{ loc: ["body"], msg: "No luck." }] }],
  ] as const)
    proves(["D606"], `reports an error with status 200 ${form}`, async () => {
      const answer = { headers: JSON_TYPE, body: JSON.stringify(reported) };
      expect((await failureOver(make, answer)).message).toMatch(/an error inside .*No luck\./);
    });

  for (const [form, refusal, body] of [
    ["in a list", 429, [{ error: { message: "Busy, try again in 1.2s" } }]],
    ["as a message", 429, { message: "Busy, try again in 1.2s" }],
    ["as a detail", 429, { detail: "Busy, try again in 1.2s" }],
    ["as text", 429, "Busy, try again in 1.2s"],
    ["about an overflow", 400, { object: "error", message: "maximum context length is 5" }],
  ] as const)
    proves(["D606"], `preserves the message of a refusal ${form}`, async () => {
      const text = typeof body === "string" ? body : JSON.stringify(body);
      const answer = { status: refusal, headers: JSON_TYPE, body: text };
      const { code, retryAfterMs, message } = await failureOver(make, answer);
      expect([code, retryAfterMs]).toEqual(
        refusal === 429 ? ["model_rate_limited", 1_200] : ["model_context_overflow", undefined],
      );
      expect(message).toMatch(/: (Busy|maximum)/);
    });

  for (const [how, headers, before] of [
    ["as plain text", { "content-type": "text/plain" }, ""],
    ["without a type", { "content-type": "" }, ""],
    ["with its type in capitals", { "content-type": "TEXT/HTML" }, ""],
    ["behind a comment", EVENTS_TYPE, ": OK\n\n"],
    ["behind a byte order mark", EVENTS_TYPE, "\uFEFF"],
    ["behind a comment as plain text", { "content-type": "text/plain" }, ": OK\n\n"],
  ] as const)
    proves(["D606"], `quotes a page that comes ${how}`, async () => {
      const body = `${before}${PAGE}`;
      const { code, message } = await failureOver(make, { headers, body });
      expect([code, message]).toEqual([
        "model_protocol_error",
        expect.stringContaining("not a stream of events: "),
      ]);
      expect(message).toContain("<title>Sign in</title>");
    });

  for (const type of ["application/json", "text/plain", "text/event-stream"])
    proves(["D606"], `does not retry and charges a whole reply as ${type}`, async () => {
      const usage = name === "Gemini" ? { usageMetadata: GEMINI_USAGE } : { usage: USAGE };
      const body = JSON.stringify({ id: "r", choices: [], ...usage });
      const failed = await failureOver(make, { headers: { "content-type": type }, body });
      expect([failed.code, failed.lostInput?.inputTokens, failed.lostOutputTokens]).toEqual([
        "model_protocol_error",
        700,
        2,
      ]);
      expect(failed.message).toContain("not a stream of events: {");
    });

  for (const type of ["TEXT/EVENT-STREAM", "text/plain", ""])
    proves(["D606"], `reads a stream without its last blank line as "${type}"`, async () => {
      const body = eventsOver(name).join("").trimEnd();
      const headers = { "content-type": type };
      await using server = await WireServer.start({ headers, body });
      expect((await ask(make(server.url))).message.text).toBe("ok");
    });

  proves(["D570"], "reports an error in an event", async () => {
    const body = `${eventsOver(name)[0]}data: ${JSON.stringify({ error: REPORT })}\n\n`;
    const { code, message } = await failureOver(make, { body });
    expect([code, message]).toEqual(["model_overloaded", expect.stringContaining("Loading model")]);
  });

  for (const [where, before] of [
    ["first", ""],
    ["after a beginning", eventsOver(name)[0] ?? ""],
  ] as const) {
    proves(["D571"], `reports a bare error line, ${where}`, async () => {
      const body = `${before}error: ${JSON.stringify(REPORT)}\n\n`;
      const { code, message } = await failureOver(make, { body });
      expect([code, message]).toEqual([
        "model_overloaded",
        expect.stringContaining("Loading model"),
      ]);
    });
  }

  const whole = eventsOver(name).join("");
  for (const [encoding, encode, kind] of [
    ["gzip", gzipSync, ""],
    ["deflate", deflateSync, ""],
    ["deflate", deflateRawSync, ", raw"],
    ["br", brotliCompressSync, ""],
    ["zstd", zstdCompressSync, ""],
  ] as const)
    proves(["D572"], `reads a stream in the encoding ${encoding}${kind}`, async () => {
      const headers = { ...EVENTS_TYPE, "content-encoding": encoding };
      await using server = await WireServer.start({ headers, body: encode(whole) });
      expect((await ask(make(server.url))).message.text).toBe("ok");
    });

  for (const encoding of ["gzip", "deflate", "br"])
    proves(["D658"], `does not retry a body that is not in its encoding ${encoding}`, async () => {
      const headers = { ...EVENTS_TYPE, "content-encoding": encoding };
      const { code, isRetryable, message } = await failureOver(make, { headers, body: whole });
      expect([code, isRetryable]).toEqual(["model_protocol_error", false]);
      expect(message).toContain("got a body that is not in its encoding (");
    });

  for (const [encoding, body, headers] of [
    ["compress", Buffer.from([0x1f, 0x9d, 0x90, 0x6f]), EVENTS_TYPE],
    ["gzip, aws-chunked", gzipSync(whole), EVENTS_TYPE],
    // Node 22 does not decode zstd: its `fetch` returns such bytes.
    ["zstd", zstdCompressSync(zstdCompressSync(whole)), EVENTS_TYPE],
    ["zstd", zstdCompressSync(zstdCompressSync("{}")), JSON_TYPE],
  ] as const)
    proves(
      ["D572"],
      `names the encoding ${encoding} of ${headers["content-type"]}, which it cannot read`,
      async () => {
        const all = { ...headers, "content-encoding": encoding };
        const { code, message } = await failureOver(make, { headers: all, body });
        expect([code, message]).toEqual([
          "model_protocol_error",
          expect.stringContaining(`a body in the encoding ${encoding}, which`),
        ]);
      },
    );
});

describe("sameOriginFetch", () => {
  async function textOf(answer: WireAnswer): Promise<string> {
    await using server = await WireServer.start(answer);
    return await (await sameOriginFetch(server.url)).text();
  }

  proves(["D570"], "passes a JSON body on unchanged, unless it is an error", async () => {
    for (const body of ['{"error":null,"data":[1]}', '{"error":{}}', "[1,\n2]", "not JSON", ""])
      expect(await textOf({ headers: JSON_TYPE, body })).toBe(body);
  });

  proves(
    ["D570"],
    "passes failed responses and other types on unchanged, and removes comments",
    async () => {
      expect(await textOf({ status: 400, headers: HTML_TYPE, body: PAGE })).toBe(PAGE);
      expect(await textOf({ headers: { "content-type": "text/plain" }, body: PAGE })).toBe(PAGE);
      expect(await textOf({ body: ": wait\n\n" })).toBe("");
    },
  );

  proves(["D571"], "preserves events of several lines, whatever ends their lines", async () => {
    const body = '\uFEFFevent: x\r\ndata: a\r\ndata:b\r\n\r\ndata: "ü"\n';
    expect(await textOf({ body })).toBe('data: a\ndata: b\n\ndata: "ü"\n\n');
  });
});
