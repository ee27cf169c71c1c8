// Goal: a call that is interrupted by its caller, its deadline or the network ends at once and
// reports its cost.
// Method: the real client against a server that stops at a chosen point, under a clock that the
// test moves.

import { describe, expect, test } from "vitest";

import { OpenAiConnection } from "../../../src/model/openai/openai-connection.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import {
  API_KEY,
  failure,
  failureOn,
  modelAt,
  MODES,
  never,
  QUESTION,
  rejection,
  reply,
  type FailureFacts,
} from "../../support/openai-calls.ts";
import {
  OpenAiServer,
  says,
  type Interruption,
  type ServerReply,
} from "../../support/openai-server.ts";

describe.each(MODES)("a call whose reply would come %s", (mode) => {
  test("ends at once when it is aborted before the server answers, and closes its socket", async () => {
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
    const { promise: never } = Promise.withResolvers<ServerReply>();
    await using server = await OpenAiServer.start(() => {
      arrive();
      return never;
    });
    const caller = new AbortController();
    const reason = { type: "cancelled", message: "enough", agentId: "a" };

    const call = rejection(reply(modelAt(server), mode, caller.signal));
    await arrived;
    caller.abort(reason);

    expect(await call).toBe(reason);
    expect(await server.request(1).ended).toBe("closed early");
  });

  test("sends no request if it was aborted before", async () => {
    await using server = await OpenAiServer.start(() => says("ok"));
    const reason = new Error("too late");
    expect(await rejection(reply(modelAt(server), mode, AbortSignal.abort(reason)))).toBe(reason);
    expect(server.requests).toEqual([]);
  });

  test("ends at its deadline and closes its socket", async () => {
    const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>();
    const { promise: never } = Promise.withResolvers<ServerReply>();
    await using server = await OpenAiServer.start(() => {
      arrive();
      return never;
    });
    const clock = new ManualClock();

    const call = failureAt(server, clock, mode);
    await arrived;
    expect(clock.pendingTimers).toBe(1);
    clock.advance(60_000);

    expect(await call).toEqual({
      code: "model_timeout",
      message:
        "Expected a reply from the model, got no complete reply within 60000 ms. Try again, or raise timeoutMs.",
      isRetryable: true,
      retryAfterMs: undefined,
      lostOutputTokens: undefined,
      data: {},
    });
    expect(await server.request(1).ended).toBe("closed early");
    expect(clock.pendingTimers).toBe(0);
  });

  test("leaves neither a timer nor a listener behind", async () => {
    await using server = await OpenAiServer.start(() => says("ok"));
    const clock = new ManualClock();
    const connection = connectionTo(server, clock);
    const caller = new CountingSignal();
    await connection.generate(
      QUESTION,
      mode === "whole" ? { signal: caller.signal } : { signal: caller.signal, onDelta() {} },
    );
    expect({ timers: clock.pendingTimers, listeners: caller.listeners }).toEqual({
      timers: 0,
      listeners: 0,
    });
  });
});

describe("a whole reply that breaks off", () => {
  test.each<[string, Interruption["type"], string]>([
    ["cut", "cut", "model_unavailable"],
    ["ended too early", "end", "model_protocol_error"],
  ])("is charged if it is %s", async (_what, type, code) => {
    const { promise: until } = Promise.withResolvers<void>();
    const facts = await failureOn(
      says("A long story.", { interrupted: { type, afterChunks: 1, until } }),
    );
    expect({ code: facts.code, hasLoss: facts.lostOutputTokens !== undefined }).toEqual({
      code,
      hasLoss: true,
    });
  });

  test("is charged if only a part has arrived at its deadline", async () => {
    const { promise: halfway, resolve: reachHalfway } = Promise.withResolvers<void>();
    const { promise: until, resolve: release } = Promise.withResolvers<void>();
    const paused = says("A long story.", { interrupted: { type: "pause", afterChunks: 1, until } });
    await using server = await OpenAiServer.start(() => paused);
    const clock = new ManualClock();
    const watched: typeof globalThis.fetch = async (url, init) => {
      const response = await fetch(url, init);
      reachHalfway();
      return response;
    };

    const call = failureAt(server, clock, "whole", { fetch: watched });
    await halfway;
    clock.advance(60_000);

    const { code, lostOutputTokens } = await call;
    expect({ code, lostOutputTokens }).toEqual({ code: "model_timeout", lostOutputTokens: 0 });
    expect(await server.request(1).ended).toBe("closed early");
    release();
  });
});

test("closes a stream that the server leaves open one second after its end mark", async () => {
  const text =
    'data: {"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
  const endless: typeof globalThis.fetch = (_url, init) => {
    const body = new ReadableStream({
      start: (stream) => {
        stream.enqueue(Buffer.from(text));
        init?.signal?.addEventListener("abort", () => stream.error(new Error("aborted")));
      },
    });
    return Promise.resolve(new Response(body));
  };
  await using server = await OpenAiServer.start(() => says("Not asked."));
  const clock = new ManualClock();
  const connection = connectionTo(server, clock, endless);
  const asked = connection.generate(QUESTION, { signal: never(), onDelta: () => undefined });
  while (clock.pendingTimers < 2) await new Promise((resolve) => setImmediate(resolve));
  clock.advance(1_000);
  expect([(await asked).message.text, clock.pendingTimers]).toEqual(["ok", 0]);
});

describe("a stream that breaks off", () => {
  test("is reported as cut, with an estimate of the lost output", async () => {
    const { message, ...facts } = await failureOn(
      says("A long story, and no end.", { interrupted: { type: "cut", afterChunks: 4 } }),
      "streamed",
    );
    expect(message).toMatch(
      /^Expected a reply from the model, got a reply that was cut \(.+\)\. Try again\. If it persists,/,
    );
    expect(facts).toEqual({
      code: "model_unavailable",
      isRetryable: true,
      retryAfterMs: undefined,
      lostOutputTokens: Math.ceil("A long story".length / 3),
      data: {},
    });
  });

  test("is retryable if it ends without a finish reason and an end mark", async () => {
    expect(
      await failureOn(
        says("A long story", { interrupted: { type: "end", afterChunks: 3 } }),
        "streamed",
      ),
    ).toEqual({
      code: "model_unavailable",
      message:
        "Expected a reply from the model, got a stream that ended before the model had finished. Try again. If it persists, check the network and the base URL.",
      isRetryable: true,
      retryAfterMs: undefined,
      lostOutputTokens: Math.ceil("A long s".length / 3),
      data: {},
    });
  });

  test("reports no lost output before the model began, and deltas of calls afterwards", async () => {
    const toolCalls = [{ id: "a", name: "go", arguments: '{"to":1}' }];
    const lost = async (afterChunks: number) => {
      const said = { type: "says", toolCalls, interrupted: { type: "end", afterChunks } } as const;
      return (await failureOn(said, "streamed")).lostOutputTokens;
    };
    expect([await lost(0), await lost(1), await lost(2), await lost(3), await lost(4)]).toEqual([
      undefined,
      0,
      1,
      2,
      4,
    ]);
  });

  test("closes its socket when it is aborted", async () => {
    const { promise: until, resolve: release } = Promise.withResolvers<void>();
    const paused = says("A long story", { interrupted: { type: "pause", afterChunks: 2, until } });
    await using server = await OpenAiServer.start(() => paused);
    const caller = new AbortController();
    const reason = new Error("enough");
    const options = { signal: caller.signal, onDelta: () => caller.abort(reason) };

    expect(await rejection(modelAt(server).generate(QUESTION, options))).toBe(reason);
    expect(await server.request(1).ended).toBe("closed early");
    release();
  });

  test("reports the output received before its deadline as lost", async () => {
    const { promise: until, resolve: release } = Promise.withResolvers<void>();
    const paused = says("A long story", { interrupted: { type: "pause", afterChunks: 2, until } });
    await using server = await OpenAiServer.start(() => paused);
    const clock = new ManualClock();
    const facts = await failureAt(server, clock, "streamed", {
      onStreamPart: () => clock.advance(60_000),
    });
    expect({ code: facts.code, lost: facts.lostOutputTokens }).toEqual({
      code: "model_timeout",
      lost: 2,
    });
    release();
  });

  test("is a protocol error if it contains a chunk that is not JSON", async () => {
    const begun = { choices: [{ index: 0, delta: { content: "Hello" } }] };
    const facts = await failureOn({ type: "events", data: [begun, "{broken"] }, "streamed");
    expect(facts).toEqual({
      code: "model_protocol_error",
      message:
        "Expected a reply from the model, got a chunk that is not a JSON object: {broken. Check that the base URL belongs to a server with the Chat Completions API.",
      isRetryable: false,
      retryAfterMs: undefined,
      lostOutputTokens: 2,
      data: {},
    });
  });

  test("is a protocol error if it ends without any content", async () => {
    const { code, lostOutputTokens } = await failureOn(
      { type: "events", data: ["[DONE]"] },
      "streamed",
    );
    expect({ code, lostOutputTokens }).toEqual({
      code: "model_protocol_error",
      lostOutputTokens: undefined,
    });
  });
});

function connectionTo(
  server: OpenAiServer,
  clock: ManualClock,
  fetch?: typeof globalThis.fetch,
): OpenAiConnection {
  return new OpenAiConnection({
    modelId: "test-model",
    api: "chat_completions",
    options: {
      settings: {},
      serviceTier: undefined,
      promptCacheKey: false,
      strictTools: false,
      extraBody: {},
    },
    maxTokensField: "max_tokens",
    replayKey: "openai/test-model",
    reasoningField: undefined,
    apiKey: API_KEY,
    baseUrl: server.baseUrl,
    timeoutMs: 60_000,
    clock,
    headers: {},
    fetch,
    proxy: undefined,
  });
}

/** Returns the failure of a call under a clock that the test moves. */
function failureAt(
  server: OpenAiServer,
  clock: ManualClock,
  mode: (typeof MODES)[number],
  {
    fetch,
    onStreamPart = () => {},
  }: { fetch?: typeof globalThis.fetch; onStreamPart?: () => void } = {},
): Promise<FailureFacts> {
  const connection = connectionTo(server, clock, fetch);
  const model = {
    provider: "openai",
    id: "test-model",
    generate: (...[request, options]: Parameters<OpenAiConnection["generate"]>) =>
      connection.generate(
        request,
        options.onDelta === undefined ? options : { ...options, onDelta: onStreamPart },
      ),
  };
  return failure(model, mode);
}

/** A signal that counts its listeners. */
class CountingSignal {
  readonly signal = new AbortController().signal;
  listeners = 0;

  constructor() {
    const { addEventListener, removeEventListener } = this.signal;
    this.signal.addEventListener = (...args: Parameters<AbortSignal["addEventListener"]>) => {
      this.listeners += 1;
      addEventListener.apply(this.signal, args);
    };
    this.signal.removeEventListener = (...args: Parameters<AbortSignal["removeEventListener"]>) => {
      this.listeners -= 1;
      removeEventListener.apply(this.signal, args);
    };
  }
}
