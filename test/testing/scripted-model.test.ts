// Goal: a scripted model replies as written, and every unexpected request fails the test with an
// explanation.
// Method: hand-made requests.

import { expect, test } from "vitest";

import { ModelError } from "../../src/model/model-error.ts";
import { modelLimits } from "../../src/model/model-limits.ts";
import type { GenerateOptions, ModelReply, ModelRequest } from "../../src/model/model.ts";
import type { Message } from "../../src/protocol/message.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import {
  asks,
  says,
  ScriptedModel,
  type ScriptedReply,
  type ScriptStep,
} from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { latch, newFixture } from "../harness/run-scripted.ts";
import { soloist } from "../harness/soloist.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { flushEventLoop } from "../../src/testing/flush-event-loop.ts";
import { roleOf } from "../support/limited-models.ts";
import { answered } from "../support/ledger-fixture.ts";
import { rejectionOf, thrownBy } from "../support/thrown.ts";
import { texts } from "../support/texts.ts";

const TASK: Message = { role: "user", text: "Do it.", origin: "task" };
const TOOLS = ["search", "a", "b"].map((name) => ({
  name,
  description: "Works.",
  inputSchema: {},
}));
const REQUEST: ModelRequest = { messages: [TASK], tools: TOOLS, maxOutputTokens: 100 };
const USAGE = { inputTokens: 10, cachedInputTokens: 0, outputTokens: 5, reasoningTokens: 0 };

const SEARCH = { toolName: "search", arguments: {} };

function ask(
  model: ScriptedModel,
  options: Partial<GenerateOptions> = {},
  request = REQUEST,
): Promise<ModelReply> {
  return model.generate(request, { signal: new AbortController().signal, ...options });
}

function echo({ maxOutputTokens }: ModelRequest): ScriptedReply {
  return says(String(maxOutputTokens));
}

proves(["R25"], "replies in the order of the script, with plausible usage", async () => {
  const model = new ScriptedModel([asks("search", { query: "trees" }), says("Done.")]);
  expect([await ask(model), await ask(model)]).toEqual([
    {
      message: {
        role: "assistant",
        text: "",
        toolCalls: [{ callId: "call_1", toolName: "search", argumentsText: '{"query":"trees"}' }],
      },
      finishReason: "tool_calls",
      usage: USAGE,
    },
    {
      message: { role: "assistant", text: "Done.", toolCalls: [] },
      finishReason: "stop",
      usage: USAGE,
    },
  ]);
  expect(model.requests).toEqual([REQUEST, REQUEST]);
});

test("supports every other field of a reply in a script", async () => {
  const model = new ScriptedModel([
    says("Hm", {
      calls: [
        { toolName: "a", arguments: "{broken", callId: "mine" },
        { toolName: "b", arguments: {} },
      ],
    }),
    { refusal: "No.", finishReason: "content_filter", usage: { outputTokens: 1 } },
    { usage: null },
  ]);
  expect([await ask(model), await ask(model), await ask(model)]).toEqual([
    {
      message: {
        role: "assistant",
        text: "Hm",
        toolCalls: [
          { callId: "mine", toolName: "a", argumentsText: "{broken" },
          { callId: "call_2", toolName: "b", argumentsText: "{}" },
        ],
      },
      finishReason: "tool_calls",
      usage: USAGE,
    },
    {
      message: { role: "assistant", text: "", toolCalls: [], refusal: "No." },
      finishReason: "content_filter",
      usage: { ...USAGE, outputTokens: 1 },
    },
    { message: { role: "assistant", text: "", toolCalls: [] }, finishReason: "stop" },
  ]);
});

test("accepts a function of the request as a step or as the whole script", async () => {
  const [listed, endless] = [new ScriptedModel([echo]), new ScriptedModel(echo)];
  const texts = [await ask(listed), await ask(endless), await ask(endless)].map(
    (reply) => reply.message.text,
  );
  expect(texts).toEqual(["100", "100", "100"]);
});

test("reports a request beyond the end of the script", async () => {
  const model = new ScriptedModel([says("Done.")], { id: "reader-model" });
  await ask(model);
  expect(await rejectionOf(ask(model))).toEqual({
    code: "script_mismatch",
    message: "Expected 1 calls of reader-model, got one more. Add a reply to the script.",
    data: {},
  });
});

proves(
  ["D735"],
  "reports script_mismatch for a call of a tool that the request lacks",
  async () => {
    const script = [says("One."), asks("researcher", {}), asks("researcher", {})];
    const model = new ScriptedModel(script, { id: "lead-model" });
    await ask(model);
    expect([
      await rejectionOf(ask(model)),
      (await rejectionOf(ask(model, {}, { ...REQUEST, tools: [] }))).message,
    ]).toEqual([
      {
        code: "script_mismatch",
        message:
          'Expected reply 2 of lead-model to call a tool of the request (search, a, b), got "researcher". Correct the script, or set allowUnknownTools to test a refusal.',
        data: {},
      },
      'Expected reply 3 of lead-model to call a tool of the request (none), got "researcher". Correct the script, or set allowUnknownTools to test a refusal.',
    ]);
    const allowing = new ScriptedModel([asks("researcher", {})], { allowUnknownTools: true });
    expect((await ask(allowing)).message.toolCalls.map(({ toolName }) => toolName)).toEqual([
      "researcher",
    ]);
  },
);

proves(["D736"], "names the model and the next reply of an unfinished script", async () => {
  const scripts: Readonly<Record<string, ScriptStep>> = {
    'the text "Two."': says("Two."),
    "calls of search, a": says("So.", { calls: [SEARCH, { ...SEARCH, toolName: "a" }] }),
    "calls of b": {
      pieces: [
        { type: "call", callId: CallIdSchema().parse("c"), toolName: "b", argumentsText: "" },
      ],
    },
    "an error": { error: new Error("Broken.") },
    "a function": echo,
    'the refusal "No."': { refusal: "No." },
  };
  for (const [next, step] of Object.entries(scripts)) {
    const model = new ScriptedModel([says("One."), step, says("Three.")], { id: "clerk-model" });
    await ask(model);
    expect(thrownBy(() => model.assertComplete()).message).toBe(
      `Expected 3 calls of clerk-model, got 1. Not requested: reply 2 (${next}).`,
    );
  }
});

proves(["D736"], "reports replies that were not requested", async () => {
  const model = new ScriptedModel([says("One."), says("Two.")]);
  await ask(model);
  expect(thrownBy(() => model.assertComplete())).toEqual({
    code: "script_mismatch",
    message:
      'Expected 2 calls of scripted, got 1. Not requested: reply 2 (the text "Two."). Set the option id to tell models apart.',
    data: {},
  });
  await ask(model);
  expect(() => model.assertComplete()).not.toThrow();
  expect(() => new ScriptedModel(() => says("Any.")).assertComplete()).not.toThrow();
});

test("reports every problem of a request that no provider would accept", async () => {
  const model = new ScriptedModel([says("Done.")]);
  const messages: readonly Message[] = [{ role: "system", text: "Work.", origin: "instructions" }];
  expect(await rejectionOf(ask(model, {}, { ...REQUEST, messages }))).toEqual({
    code: "script_mismatch",
    message: "Expected a valid message list, got: the list ends with system.",
    data: {},
  });
});

test("throws the very error of a script", async () => {
  const error = new ModelError({ code: "model_overloaded", message: "Busy." });
  await expect(ask(new ScriptedModel([{ error }]))).rejects.toBe(error);
});

proves(["D737"], "reports a plain error as a model failure that is not retried", async () => {
  const cause = new TypeError("No connection.");
  const failure = await ask(new ScriptedModel([{ error: cause }])).catch((error: unknown) => error);
  expect(failure).toEqual(
    new ModelError({
      code: "model_invalid_reply",
      message: "The model scripted failed: No connection.",
      data: { provider: "scripted", model: "scripted" },
      cause,
    }),
  );
  const { role } = soloist([{ error: cause }]);
  const result = await newFixture().run(role);
  expect([result.status, result.reason.message]).toEqual([
    "failed",
    "The model scripted failed: No connection.",
  ]);
});

test("delays a reply until its latch is opened", async () => {
  const { opened, open } = latch();
  let reply: ModelReply | undefined;
  void ask(new ScriptedModel([says("Late.", { after: opened })])).then((one) => (reply = one));
  await answered();
  expect(reply).toBeUndefined();
  open();
  await new Promise((resolve) => setImmediate(resolve));
  expect(reply?.message.text).toBe("Late.");
});

test("rejects a waiting call at once on abort, with the reason as its cause", async () => {
  const { opened } = latch();
  const controller = new AbortController();
  const model = new ScriptedModel([
    says("Late.", { after: opened }),
    says("Late.", { after: opened }),
  ]);
  const waiting = ask(model, { signal: controller.signal });
  controller.abort("enough");
  await expect(waiting).rejects.toMatchObject({ message: "aborted", cause: "enough" });
  await expect(ask(model, { signal: AbortSignal.abort("before") })).rejects.toBe("before");
});

test("ignores the signal of a call that is scripted to hang until its latch is opened", async () => {
  const { opened, open } = latch();
  const controller = new AbortController();
  const model = new ScriptedModel([says("Late.", { after: opened, ignoresSignal: true })]);
  const waiting = ask(model, { signal: controller.signal });
  controller.abort("enough");
  open();
  expect((await waiting).message.text).toBe("Late.");
});

test("streams the text of a reply word by word to a listener", async () => {
  const pieces: string[] = [];
  await ask(new ScriptedModel([says("One two  three.")]), {
    onDelta: texts((text) => void pieces.push(text)),
  });
  expect(pieces).toEqual(["One ", "two ", " ", "three."]);
});

test("counts tokens by default and has a price only if the script sets one", () => {
  const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
  const [plain, blind, own] = [
    new ScriptedModel([]),
    new ScriptedModel([], { countTokens: null, price }),
    new ScriptedModel([], { countTokens: () => 7 }),
  ];
  expect([plain.countTokens?.(REQUEST), blind.countTokens, own.countTokens?.(REQUEST)]).toEqual([
    10,
    undefined,
    7,
  ]);
  expect([plain.price, blind.price, plain.id, plain.provider]).toEqual([
    undefined,
    price,
    "scripted",
    "scripted",
  ]);
});

proves(["D325"], "reports an exception or an invalid reply of a script", async () => {
  const gives = (given: unknown) => () => given;
  const throws = () => {
    throw new Error("expected two messages");
  };
  const problems: Record<string, readonly [unknown[] | (() => unknown), string]> = {
    "a function that throws": [
      [throws],
      "Expected the script of scripted to return a reply, but it threw: expected two messages. To simulate a failed call, return { error }.",
    ],
    "a promise": [gives(Promise.resolve(says("Done."))), GOT("a promise")],
    nothing: [gives(undefined), GOT("undefined")],
    "a text": [["Done."], GOT('"Done."')],
    "a misspelt field": [
      [{ txt: "Done." }],
      'Expected a reply of scripted to have text, calls, pieces, refusal, finishReason, usage, warnings, error, after, ignoresSignal, got "txt". Correct the name.',
    ],
  };
  for (const [script, message] of Object.values(problems)) {
    const model = scripted(script);
    expect(await rejectionOf(ask(model))).toEqual({ code: "script_mismatch", message, data: {} });
  }
  const busy = new ModelError({ code: "model_overloaded", message: "Busy." });
  const overloaded = new ScriptedModel(() => {
    throw busy;
  });
  await expect(ask(overloaded)).rejects.toBe(busy);
});

test("waits for the limits of the model", async () => {
  const gate = latch();
  const limits = modelLimits({ maxConcurrentRequests: 1 });
  const model = new ScriptedModel(() => says("Done.", { after: gate.opened }), { limits });
  const role = roleOf(model);
  const orchestrator = new Orchestrator();
  const runs = [orchestrator.start(role, "One?"), orchestrator.start(role, "Two?")];
  await flushEventLoop();
  expect(model.requests).toHaveLength(1);
  gate.open();
  await Promise.all(runs.map(async (run) => await run.result));
  expect(model.requests).toHaveLength(2);
});

proves(["D325"], "refuses a value that is not a script", () => {
  for (const script of [undefined, null, "Done.", says("Done.")])
    expect(thrownBy(() => scripted(script)).code).toBe("invalid_argument");
});

const GOT = (got: string): string =>
  `Expected a reply of scripted, got ${got}. Create it with says() or asks().`;

/** Creates a model from a script that no compiler has checked. */
function scripted(script: unknown): ScriptedModel {
  const made: unknown = Reflect.construct(ScriptedModel, [script]);
  if (made instanceof ScriptedModel) return made;
  throw new Error("It is no scripted model.");
}
