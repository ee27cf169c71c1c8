// Goal: a call that is aborted, late or endless ends at once, whether or not its provider obeys the
// signal, and costs a bounded amount.
// Method: models that never answer, answer late or never stop; a clock that the test moves.

import { describe, expect, test } from "vitest";

import { AiSdkConnection } from "../../../src/model/ai-sdk/ai-sdk-connection.ts";
import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import type { ModelReply } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { proves } from "../../harness/proves.ts";
import { never, QUESTION, rejection } from "../../support/openai-calls.ts";
import {
  ask,
  fakeModel,
  finish,
  saying,
  text,
  type FakeModel,
  type Opening,
  type Part,
} from "../../support/ai-sdk/fake-model.ts";

/** A stream that sends these parts and then nothing. Records whether it was cancelled. */
class Hanging {
  isCancelled = false;
  readonly stream: ReadableStream<Part>;

  constructor(parts: readonly Part[] = []) {
    this.stream = new ReadableStream<Part>({
      start: (controller) => parts.forEach((part) => controller.enqueue(part)),
      cancel: () => {
        this.isCancelled = true;
        return new Promise(() => undefined);
      },
    });
  }
}

const REASON = { type: "cancelled", message: "enough", agentId: "a" };

describe("a provider that does not obey its signal", () => {
  proves(
    ["M33"],
    "is abandoned at an abort before it answers, and its late stream is cancelled",
    async () => {
      const late = new Hanging();
      const { promise, resolve } = Promise.withResolvers<Opening>();
      const fake = fakeModel(() => promise);
      const caller = new AbortController();
      const call = rejection(ask(aiSdkModel(fake), {}, caller.signal));
      await flushEventLoop();
      caller.abort(REASON);
      expect(await call).toBe(REASON);
      expect(fake.asked[0]?.abortSignal?.reason).toBe(REASON);
      resolve(late);
      await flushEventLoop();
      expect(late.isCancelled).toBe(true);
    },
  );

  proves(
    ["M33"],
    "is abandoned at an abort within its stream, even if the stream cannot be cancelled",
    async () => {
      const hanging = new Hanging(text("A long story."));
      const caller = new AbortController();
      const call = rejection(ask(aiSdkModel(fakeModel(() => hanging)), {}, caller.signal));
      await flushEventLoop();
      caller.abort(REASON);
      expect(await call).toBe(REASON);
      expect(hanging.isCancelled).toBe(true);
    },
  );

  test.each([
    ["while it thinks", () => new Promise<Opening>(() => undefined), undefined],
    ["in the middle of its stream", () => new Hanging(text("A long story.")), 5],
  ] as const)("is abandoned at the deadline %s", async (_when, answer, lostOutputTokens) => {
    const clock = new ManualClock();
    const call = rejection(generate(fakeModel(answer), clock));
    await flushEventLoop();
    expect(clock.pendingTimers).toBe(1);
    clock.advance(60_000);
    const thrown = await call;
    expect(thrown).toMatchObject({
      code: "model_timeout",
      message:
        "Expected a reply from the model, got no complete reply within 60000 ms. Try again, or raise timeoutMs.",
      lostOutputTokens,
    });
    expect(clock.pendingTimers).toBe(0);
  });
});

test("makes no call that was aborted before", async () => {
  const fake = fakeModel(() => new Hanging());
  expect(await rejection(ask(aiSdkModel(fake), {}, AbortSignal.abort(REASON)))).toBe(REASON);
  expect(fake.asked).toEqual([]);
});

describe("a complete reply", () => {
  proves(
    ["M33"],
    "is returned at once, and its endless stream is cancelled after one second",
    async () => {
      const hanging = new Hanging([...text("ok"), finish()]);
      const clock = new ManualClock();
      const reply = await generate(
        fakeModel(() => hanging),
        clock,
      );
      expect([reply.message.text, hanging.isCancelled, clock.pendingTimers]).toEqual([
        "ok",
        false,
        1,
      ]);
      clock.advance(1_000);
      await flushEventLoop();
      expect([hanging.isCancelled, clock.pendingTimers]).toEqual([true, 0]);
    },
  );

  test("leaves nothing behind if its stream ends, which is not cancelled, so its connection is reused", async () => {
    let isCancelled = false;
    const parts = [...text("ok"), finish(), ...text("late")];
    const stream = new ReadableStream<Part>({
      pull: (controller) => {
        const part = parts.shift();
        if (part === undefined) controller.close();
        else controller.enqueue(part);
      },
      cancel: () => void (isCancelled = true),
    });
    const clock = new ManualClock();
    await generate(
      fakeModel(() => ({ stream })),
      clock,
    );
    await flushEventLoop();
    expect([isCancelled, parts, clock.pendingTimers]).toEqual([false, [], 0]);
  });

  test.each(["never stops", "breaks"])(
    "is accepted although its stream %s after it",
    async (what) => {
      let rounds = 0;
      const first = [...text("ok"), finish()];
      const stream = new ReadableStream<Part>({
        pull: (controller) => {
          const part = first.shift();
          rounds += 1;
          if (part === undefined && what === "breaks") throw new Error("reset");
          controller.enqueue(part ?? { type: "ping" });
        },
      });
      const clock = new ManualClock();
      const reply = await generate(
        fakeModel(() => ({ stream })),
        clock,
      );
      await flushEventLoop();
      expect([reply.message.text, clock.pendingTimers]).toEqual(["ok", 0]);
      expect(rounds).toBeLessThan(200);
    },
  );
});

async function generate(model: FakeModel, clock: ManualClock): Promise<ModelReply> {
  const connection = new AiSdkConnection({ model, replayKey: "k", timeoutMs: 60_000, clock });
  return await connection.generate(QUESTION, { signal: never() });
}

/** Parts with text that a provider may send without end, one each time. */
const ENDLESS_TEXT: Readonly<Record<string, (round: number) => Part>> = {
  text: () => ({ type: "text-delta", id: "t", delta: "x".repeat(500) }),
  reasoning: () => ({ type: "reasoning-delta", id: "r", delta: "x".repeat(500) }),
  arguments: (round) =>
    round === 1
      ? { type: "tool-input-start", id: "c", toolName: "go" }
      : { type: "tool-input-delta", id: "c", delta: "x".repeat(500) },
  calls: (round) => ({ type: "tool-call", toolCallId: `c${round}`, toolName: "t", input: "{}" }),
  "one whole call": () => ({
    type: "tool-call",
    toolCallId: "c",
    toolName: "go",
    input: JSON.stringify({ to: "x".repeat(5_000) }),
  }),
};

/** Other parts that a provider may send without end. */
const ENDLESS: Readonly<Record<string, (round: number) => Part>> = {
  "texts without a word": (round) => ({ type: "text-start", id: `t${round}` }),
  "opened calls": (round) => ({ type: "tool-input-start", id: `c${round}`, toolName: "t" }),
  "calls without a name": (round) => ({ type: "tool-input-start", id: `c${round}`, toolName: "" }),
  data: (round) => ({
    type: "reasoning-delta",
    id: `r${round}`,
    delta: "",
    providerMetadata: { p: { s: "x".repeat(100_000) } },
  }),
  files: () => ({
    type: "file",
    mediaType: "image/png",
    data: { type: "data", data: "x".repeat(100_000) },
  }),
};

describe("an endless stream", () => {
  for (const [what, part] of Object.entries(ENDLESS_TEXT))
    proves(
      ["M33", "D432", "D504"],
      `is cut at twice the cap and ends as length: ${what}`,
      async () => {
        let rounds = 0;
        const cancelled = Promise.withResolvers<void>();
        const stream = new ReadableStream<Part>({
          pull: (controller) => {
            rounds += 1;
            controller.enqueue(part(rounds));
          },
          cancel: () => cancelled.resolve(),
        });
        const reply = await ask(aiSdkModel(fakeModel(() => ({ stream }))));
        await cancelled.promise;
        const { text, parts = [], toolCalls } = reply.message;
        const reasoning = parts.map((piece) => (piece.type === "reasoning" ? piece.text : ""));
        const calls = toolCalls.map((call) => call.toolName + call.argumentsText);
        const said = [text, ...reasoning, ...calls].join("").length;
        expect([reply.finishReason, reply.usage, said, rounds < 210]).toEqual([
          "length",
          undefined,
          // Twice the cap of 100 tokens, at three bytes each.
          600,
          true,
        ]);
        expect(reply.warnings).toEqual([expect.stringContaining("cut at twice the cap")]);
      },
    );

  proves(
    ["D507"],
    "emits no call with an endless name, even if its arguments came first",
    async () => {
      const first = { type: "tool-input-delta", id: "c", delta: "{" } as const;
      const long = { type: "tool-input-start", id: "c", toolName: "x".repeat(5_000) } as const;
      const said: string[] = [];
      const reply = await ask(aiSdkModel(saying([first, long, finish()])), {}, never(), {
        onDelta: (delta) => said.push(delta.type),
      });
      expect([said, reply.message.toolCalls, reply.finishReason]).toEqual([[], [], "length"]);
    },
  );

  for (const [what, part] of Object.entries(ENDLESS))
    proves(["M33"], `is aborted and charged by the part received: ${what}`, async () => {
      let rounds = 0;
      const stream = new ReadableStream<Part>({
        pull: (controller) => {
          rounds += 1;
          if (rounds > 10_000) throw new Error("Nothing breaks it off.");
          controller.enqueue(part(rounds));
        },
      });
      const thrown = await rejection(ask(aiSdkModel(fakeModel(() => ({ stream })))));
      if (!(thrown instanceof ModelError))
        throw new Error("Expected a ModelError.", { cause: thrown });
      const { code, isRetryable, lostOutputTokens = -1 } = thrown;
      expect({ code, isRetryable }).toEqual({ code: "model_protocol_error", isRetryable: false });
      // Twice the cap of 100 tokens.
      expect(lostOutputTokens).toBeGreaterThanOrEqual(0);
      expect(lostOutputTokens).toBeLessThanOrEqual(200);
    });
});
