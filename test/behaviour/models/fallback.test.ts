// Goal: another model replaces a failed one at once, for the cooldown, and while its tool calls are
// open.
// Method: scripted models, a manual clock, complete requests compared.

import { expect, test } from "vitest";
import { z } from "zod";

import { wrapModelCall } from "../../../src/hooks/hook.ts";
import type { ModelErrorCode } from "../../../src/kernel/error.ts";
import type { Model } from "../../../src/model/model.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { modelLimits } from "../../../src/model/model-limits.ts";
import { withFallback } from "../../../src/model/with-fallback.ts";
import type { ReplyPiece } from "../../../src/protocol/reply-message.ts";
import { toCallId } from "../../../src/model/call-id.ts";
import { asks, says, ScriptedModel, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { failing, limited, roleOf } from "../../support/limited-models.ts";
import { QUESTION } from "../../support/openai-calls.ts";

function model(id: string, script: readonly ScriptStep[] | (() => ReturnType<typeof says>)) {
  return new ScriptedModel(script, { id });
}

const look = defineTool({
  name: "look",
  description: "Looks.",
  inputSchema: z.strictObject({ at: z.string() }),
  execute: () => "Seen.",
});

/** Returns a fallback of two models, and a role that uses it. */
function pair(
  first: readonly ScriptStep[],
  second: readonly ScriptStep[],
  options: Parameters<typeof withFallback>[1] = {},
) {
  const [main, spare] = [model("main", first), model("spare", second)];
  const both = withFallback([main, spare], options);
  const asked = (): readonly number[] => [main.requests.length, spare.requests.length];
  return { main, spare, both, asked, role: roleOf(both, { tools: [look] }) };
}

proves(
  ["M67"],
  "calls the next model in the same attempt without delay, and skips the failed one for a minute",
  async () => {
    const { role, asked } = pair(
      [failing("model_unavailable"), says("Main.")],
      [says("Spare."), says("Spare again.")],
    );
    const s = newFixture();
    expect((await s.run(role)).text).toBe("Spare.");
    expect([s.clock.nowMs(), asked()]).toEqual([0, [1, 1]]);
    expect(s.sink.ofType("model.retried")).toMatchObject([
      {
        attempt: 1,
        delayMs: 0,
        error: { code: "model_unavailable" },
        nextModel: { provider: "scripted", model: "spare" },
      },
    ]);
    expect(s.sink.ofType("model.replied")).toMatchObject([
      {
        attemptCount: 1,
        repliedBy: { provider: "scripted", model: "spare", insteadOf: "main" },
      },
    ]);
    s.clock.advance(59_999);
    expect([(await s.run(role)).text, asked()]).toEqual(["Spare again.", [1, 2]]);
    s.clock.advance(1);
    expect([(await s.run(role)).text, asked()]).toEqual(["Main.", [2, 2]]);
    expect(s.sink.ofType("model.requested").map((event) => event.model)).toEqual(
      Array(3).fill("main"),
    );
    expect(s.sink.ofType("model.replied").at(-1)).not.toHaveProperty("repliedBy");
  },
);

proves(
  ["M67"],
  "fails the attempt with the most retryable error if all models fail, and calls all of them again",
  async () => {
    const { role, asked } = pair(
      [failing("model_rate_limited", { retryAfterMs: 3_000 }), failing("model_unavailable")],
      [failing("model_unauthorized"), says("Spare.")],
    );
    const s = newFixture();
    const run = s.start(role);
    await flushEventLoop();
    expect([asked(), s.sink.ofType("model.retried").map(({ delayMs }) => delayMs)]).toEqual([
      [1, 1],
      [0, 3_300],
    ]);
    s.clock.advance(3_300);
    expect((await s.outcome(run)).text).toBe("Spare.");
    expect(s.sink.ofType("model.replied").map(({ attemptCount }) => attemptCount)).toEqual([2]);
  },
);

const CODES: Readonly<Record<ModelErrorCode, boolean>> = {
  model_rate_limited: true,
  model_overloaded: true,
  model_unavailable: true,
  model_timeout: true,
  model_unauthorized: true,
  model_protocol_error: true,
  model_invalid_request: false,
  model_context_overflow: false,
  model_invalid_reply: false,
};

/** Returns whether the second model is called after this failure of the first. */
async function goesOn(code: ModelErrorCode, on?: () => boolean): Promise<boolean> {
  const { role, asked } = pair(
    [failing(code)],
    [says("Spare.")],
    on === undefined ? {} : { shouldFallback: on },
  );
  const result = await newFixture({ retryPolicy: { maxAttempts: 1 } }).run(role);
  expect(result.text).toBe(asked()[1] === 1 ? "Spare." : "");
  return asked()[1] === 1;
}

proves(
  ["M67"],
  "falls back after the documented error codes, or as `shouldFallback` decides, even if it throws",
  async () => {
    for (const [code, expected] of Object.entries(CODES)) {
      const known = Object.keys(CODES).find((one): one is ModelErrorCode => one === code);
      if (known === undefined) throw new Error(code);
      expect([code, await goesOn(known)]).toEqual([code, expected]);
      expect([code, await goesOn(known, () => true)]).toEqual([code, true]);
      expect([code, await goesOn(known, () => false)]).toEqual([code, false]);
    }
    const broken = (): never => {
      throw new Error("odd");
    };
    expect(await goesOn("model_unavailable", broken)).toBe(false);
  },
);

proves(
  ["M67"],
  "emits a reset to drop the partial output of a model that failed while streaming",
  async () => {
    const pieces: (readonly [string, unknown])[] = [];
    const main: Model = {
      provider: "scripted",
      id: "main",
      generate: (_request, { onDelta }) => {
        onDelta?.({ type: "text", text: "I thi" });
        const message = "Cut.";
        throw new ModelError({ code: "model_unavailable", message, lostOutputTokens: 2 });
      },
    };
    const both = withFallback([main, model("spare", [says("Spare.")])]);
    await newFixture().run(roleOf(both), {
      onStreamPart: (piece) => {
        const said = piece.type === "text" ? piece.text : piece.type === "reset" && piece.reason;
        pieces.push([piece.type, said]);
      },
    });
    expect(pieces).toEqual([
      ["text", "I thi"],
      ["reset", "fallback"],
      ["text", "Spare."],
      ["end", false],
    ]);
  },
);

proves(["M67"], "calls no further model after an abort", async () => {
  const { role, asked } = pair([{ after: new Promise(() => undefined) }], [says("Spare.")], {
    shouldFallback: () => true,
  });
  const s = newFixture();
  const run = s.start(role);
  await flushEventLoop();
  void run.cancel("Enough.");
  expect([(await s.outcome(run)).status, asked()]).toEqual(["cancelled", [1, 0]]);
});

proves(
  ["M67"],
  "calls the writer of open tool calls first, although the first model is available again",
  async () => {
    const { role, asked } = pair(
      [failing("model_overloaded"), says("Main.")],
      [asks("look", { at: "c1" }), asks("look", { at: "c2" }), says("Spare.")],
      { cooldownMs: 0 },
    );
    const s = newFixture();
    expect((await s.run(role)).text).toBe("Spare.");
    expect(asked()).toEqual([1, 3]);
    expect([(await s.run(role)).text, asked()]).toEqual(["Main.", [2, 3]]);
  },
);

function thought(by: string): ReplyPiece {
  return { type: "reasoning", text: `${by} thinks.`, data: { [by]: { seal: by } } };
}

function call(callId: string): ReplyPiece {
  const argumentsText = JSON.stringify({ at: callId });
  return { type: "call", callId: toCallId(callId), toolName: "look", argumentsText };
}

/** Returns the writers of the replies in a request, `undefined` for replies without parts. */
function partsIn({ requests }: ScriptedModel, index: number): readonly (string | undefined)[] {
  const messages = requests[index]?.messages ?? [];
  return messages.flatMap((message) =>
    message.role === "assistant" ? [message.parts && message.writtenBy] : [],
  );
}

proves(
  ["M67"],
  "sends each model only its own reasoning, and replies of others as text and calls",
  async () => {
    const { role, main, spare } = pair(
      [{ pieces: [thought("main"), call("c1")] }, failing("model_timeout"), says("Main.")],
      [
        { pieces: [thought("spare"), call("c2")] },
        { pieces: [thought("spare"), call("c3")] },
        failing("model_unavailable"),
      ],
      { cooldownMs: 0 },
    );
    const s = newFixture();
    expect((await s.run(role)).text).toBe("Main.");
    expect([0, 1, 2].map((index) => partsIn(main, index))).toEqual([
      [],
      ["scripted/main"],
      ["scripted/main", undefined, undefined],
    ]);
    expect([0, 1, 2].map((index) => partsIn(spare, index))).toEqual([
      [undefined],
      [undefined, "scripted/spare"],
      [undefined, "scripted/spare", "scripted/spare"],
    ]);
  },
);

proves(["M67"], "passes hooks the reply with its writer", async () => {
  const { both, spare } = pair(
    [failing("model_unavailable")],
    [{ pieces: [thought("spare"), call("c1")] }, says("Spare.")],
  );
  const passing = wrapModelCall((_call, next) => next());
  const role = roleOf(both, { tools: [look], hooks: [passing] });
  const result = await newFixture().run(role);
  expect([result.text, partsIn(spare, 1)]).toEqual(["Spare.", ["scripted/spare"]]);
  expect(result.usage.byModel).toMatchObject({
    main: { totalTokens: 0 },
    spare: { totalTokens: 30, modelCalls: 2 },
  });
});

proves(["M67"], "skips a model with paused rate limits at once", async () => {
  const limits = modelLimits({ maxConcurrentRequests: 1 });
  const refused = limited(
    model("other", [failing("model_rate_limited", { retryAfterMs: 9_000 })]),
    limits,
  );
  const main = limited(model("main", [says("Main.")]), limits);
  const spare = model("spare", [says("Spare.")]);
  const s = newFixture({ retryPolicy: { maxAttempts: 1 } });
  await s.run(roleOf(refused));
  const result = await s.run(roleOf(withFallback([main, spare])));
  expect([result.text, main.requests.length, s.clock.nowMs()]).toEqual(["Spare.", 0, 0]);
});

proves(["M59"], "describes a request to a fallback by its first model", async () => {
  const [main, spare] = [model("main", [says("Main.")]), model("spare", [])];
  const told = { apiType: "responses", serviceTier: "flex" } as const;
  const s = newFixture();
  await s.run(roleOf(withFallback([Object.assign(main, told), spare])));
  expect(s.sink.ofType("model.requested")).toMatchObject([{ model: "main", ...told }]);
});

proves(
  ["M65"],
  "removes a stopped run from the rate limit queue, even after a paused model was skipped",
  async () => {
    const held = latch();
    const [paused, busy] = [
      modelLimits({ maxConcurrentRequests: 1 }),
      modelLimits({ maxConcurrentRequests: 1 }),
    ];
    const s = newFixture({ retryPolicy: { maxAttempts: 1 } });
    const refusal = failing("model_rate_limited", { retryAfterMs: 9_000 });
    await s.run(roleOf(limited(model("other", [refusal]), paused)));
    const holder = limited(model("holder", [says("Held.", { after: held.opened })]), busy);
    const holding = s.start(roleOf(holder));
    const spare = limited(model("spare", [says("Spare.")]), busy);
    const run = s.start(roleOf(withFallback([limited(model("main", []), paused), spare])));
    for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
    run.requestStop("Enough.");
    const result = await s.outcome(run);
    expect([result.status, spare.requests.length]).toEqual(["stopped", 0]);
    expect(result.usage.total).toMatchObject({ totalTokens: 0 });
    held.open();
    await s.outcome(holding);
  },
);

proves(["M67"], "returns the first successful reply from a direct call of a fallback", async () => {
  const { both, asked } = pair([failing("model_unavailable")], [says("Spare.")]);
  const { signal } = new AbortController();
  expect((await both.generate(QUESTION, { signal })).message).toMatchObject({
    text: "Spare.",
    writtenBy: "scripted/spare",
  });
  const cut = pair([failing("model_unavailable", { lostOutputTokens: 3 })], [says("Spare.")]);
  expect((await cut.both.generate(QUESTION, { signal })).message.text).toBe("Spare.");
  const broken = pair([failing("model_invalid_request")], []);
  await expect(broken.both.generate(QUESTION, { signal })).rejects.toMatchObject({
    code: "model_invalid_request",
  });
  const ended = AbortSignal.abort(new Error("Enough."));
  await expect(both.generate(QUESTION, { signal: ended })).rejects.toThrow("Enough.");
  expect(asked()).toEqual([1, 1]);
});

test("refuses invalid models and options", () => {
  const [main, spare] = [model("main", []), model("spare", [])];
  const refused: readonly [readonly unknown[], string][] = [
    [[main], "Expected withFallback.models to be an array, got an object."],
    [[[main]], "Expected withFallback.models to be at least two models, got 1."],
    [[[main, {}]], "Expected withFallback.models[1] to be a model, got an object."],
    [[[main, "gpt"]], "Expected withFallback.models[1] to be a model"],
    [
      [[main, model("main", [])]],
      'withFallback.models[1] to be another model than those before it, got "scripted/main". Set a distinct id for each model',
    ],
    [
      [[main, withFallback([spare, model("last", [])])]],
      "withFallback.models[1] to be a model that is not itself a fallback",
    ],
    [
      [[main, spare], { shouldFallback: true }],
      "Expected withFallback.shouldFallback to be a function of an error, got true.",
    ],
    [
      [[main, spare], { cooldownMs: -1 }],
      "Expected withFallback.cooldownMs to be a finite number from 0 up, got -1.",
    ],
    [
      [[main, spare], { order: 1 }],
      "Expected withFallback.order to be one of shouldFallback, cooldownMs",
    ],
  ];
  for (const [given, message] of refused)
    expect(() => void Reflect.apply(withFallback, undefined, given)).toThrow(message);
});

test("has the abilities that all of its models have", () => {
  const counts = (tokens: number) => () => tokens;
  const bare: Model = { provider: "a", id: "a", generate: () => Promise.reject(new Error("no")) };
  const [a, b] = [
    { ...bare, minOutputTokens: 16, countTokens: counts(5) },
    { ...bare, id: "b", countTokens: counts(9), assertReady: () => expect.unreachable("ready") },
  ];
  const both = withFallback([a, b]);
  expect([both.provider, both.id, both.minOutputTokens, both.countTokens?.(QUESTION)]).toEqual([
    "a",
    "a",
    16,
    9,
  ]);
  expect(() => both.assertReady?.()).toThrow("ready");
  expect(withFallback([a, { ...bare, id: "c" }])).not.toHaveProperty("countTokens");
  expect(both.price).toBeUndefined();
});
