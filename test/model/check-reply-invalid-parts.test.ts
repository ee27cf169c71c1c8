// Goal: a reply with invalid parts is rejected without a retry, and the error names the part. Valid
// parts are accepted, whatever the adapter does with them later.
// Method: handwritten models; the error of the run and the number of requests are checked.

import { describe, expect, test } from "vitest";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { checkHookedReply, checkReply } from "../../src/model/check-reply.ts";
import type { Model, ModelReply } from "../../src/model/model.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import type { AssistantMessage } from "../../src/protocol/message.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { spyTool } from "../harness/tools.ts";

const CALLS = ["c1", "c2"].map((id) => ({
  callId: CallIdSchema().parse(id),
  toolName: "look",
  argumentsText: "{}",
}));
const ONE = { type: "call", callId: "c1" } as const;
const TWO = { type: "call", callId: "c2" } as const;
const TEXT = { type: "text", length: 4 } as const;

/** Returns a reply with the text "Here", two calls and any value as its parts. */
function replyWith(parts: unknown, more: object = {}): ModelReply {
  const message: AssistantMessage = { role: "assistant", text: "Here", toolCalls: CALLS };
  Object.assign(message, more, { parts });
  return { message, finishReason: "tool_calls" };
}

interface Asked {
  readonly model: Model;
  readonly requests: Parameters<Model["generate"]>[0][];
}

/** Creates a model that returns these replies in order and records its requests. */
function handModel(...replies: readonly ModelReply[]): Asked {
  const requests: Asked["requests"] = [];
  const model: Model = {
    provider: "acme",
    id: "hand",
    generate: (request) => {
      requests.push(request);
      const reply = replies[requests.length - 1];
      return reply === undefined
        ? Promise.reject(new Error("Nothing is left to say."))
        : Promise.resolve(reply);
    },
  };
  return { model, requests };
}

async function outcomeOf({ model }: Asked) {
  const tools = [spyTool("look")];
  const role = defineAgent({ name: "solo", instructions: "Work.", model, tools });
  const { status, agents } = await newFixture().run(role);
  return { status, errors: agents[0]?.errors ?? [] };
}

function nested(levels: number): object {
  let value: object = {};
  for (let level = 1; level < levels; level += 1) value = { in: value };
  return value;
}

function thought(data: unknown): object {
  return { type: "reasoning", text: "Hm.", data };
}

const cycle: Record<string, unknown> = {};
cycle["self"] = cycle;
const MIB = 2 ** 20;

const MISFITS: Readonly<Record<string, readonly [parts: unknown, place: string, why: string]>> = {
  "a call that is not there": [
    [TEXT, ONE, { type: "call", callId: "c9" }],
    "message.parts[2]",
    "Expected the call c2, got c9",
  ],
  "calls in another order": [[TEXT, TWO, ONE], "message.parts[1]", "Expected the call c1, got c2"],
  "a call twice": [[TEXT, ONE, TWO, ONE], "message.parts[3]", "Expected no further call, got c1"],
  "two ids in one": [
    [TEXT, { type: "call", callId: "c1 c2" }],
    "message.parts[1]",
    "Expected the call c1, got c1 c2",
  ],
  "a call less": [[TEXT, ONE], "message.parts", "Expected a part for each call, got none for c2"],
  "a text beyond the text": [
    [{ type: "text", length: 3 }, ONE, { type: "text", length: 2 }, TWO],
    "message.parts[2]",
    "Expected it to end within the text of 4 characters, got 5",
  ],
  "less than the text": [
    [{ type: "text", length: 3 }, ONE, TWO],
    "message.parts",
    "Expected parts for a text of 4 characters, got parts for 3",
  ],
  "no parts but a list": [[], "message.parts", "Expected a part for each call"],
  "a length that is none": [
    [{ type: "text", length: -1 }, ONE, TWO],
    "message.parts[0].length",
    "",
  ],
  "a type that there is not": [[{ type: "dream" }, TEXT, ONE, TWO], "message.parts[0].type", ""],
  "something opaque without data": [
    [TEXT, ONE, TWO, { type: "opaque", kind: "search" }],
    "message.parts[3].data",
    "",
  ],
  "something more": [[{ ...TEXT, id: "rs_1" }, ONE, TWO], "message.parts[0]", '"id"'],
  "data that is a text": [[thought("sealed"), TEXT, ONE, TWO], "message.parts[0].data", ""],
  "data that is a list": [[thought([]), TEXT, ONE, TWO], "message.parts[0].data", ""],
  "a date": [
    [thought({ at: new Date(0) }), TEXT, ONE, TWO],
    "message.parts[0]",
    ".data.at is a date, which is not JSON",
  ],
  "a function": [
    [TEXT, { ...ONE, data: { acme: { of: () => 1 } } }, TWO],
    "message.parts[1]",
    ".data.acme.of is a function, which is not JSON",
  ],
  "no number": [
    [TEXT, ONE, { ...TWO, data: { acme: [NaN] } }],
    "message.parts[2]",
    ".data.acme[0] is NaN, which is not JSON",
  ],
  "a cycle": [
    [thought(cycle), TEXT, ONE, TWO],
    "message.parts[0]",
    ".data.self is an object that contains it",
  ],
  "data that throws": [
    [
      thought({
        get seal() {
          throw new Error("Sealed for ever.");
        },
      }),
      TEXT,
      ONE,
      TWO,
    ],
    "message.parts[0]",
    "Sealed for ever.",
  ],
  "201 levels": [
    [TEXT, ONE, TWO, { type: "opaque", kind: "deep", data: nested(201) }],
    "message.parts[3]",
    "of its data it is nested too deeply",
  ],
  "100,000 levels": [
    [thought(nested(100_000)), TEXT, ONE, TWO],
    "message.parts[0]",
    "nested deeper than 500 levels",
  ],
  "a key that objects treat in their own way": [
    [thought(JSON.parse('{"acme":{"__proto__":{"seal":1}}}')), TEXT, ONE, TWO],
    "message.parts[0]",
    "of its data a key is named __proto__",
  ],
  "more than a MiB": [
    [thought({ a: "x".repeat(MIB / 2) }), TEXT, ONE, { ...TWO, data: { a: "x".repeat(MIB / 2) } }],
    "message.parts[3]",
    "with it the data is over 1048576 bytes",
  ],
};

describe("a reply with invalid parts", () => {
  for (const [what, [parts, place, why]] of Object.entries(MISFITS))
    proves(
      ["M5"],
      `is rejected with the path of the invalid part and not retried: ${what}`,
      async () => {
        const asked = handModel(replyWith(parts), replyWith(undefined));
        const { status, errors } = await outcomeOf(asked);
        expect([status, errors.map(({ code }) => code), asked.requests.length]).toEqual([
          "failed",
          ["model_invalid_reply"],
          1,
        ]);
        expect(errors[0]?.message).toContain(`→ at ${place}.`);
        expect(errors[0]?.message).toContain(why);
      },
    );
});

proves(["M5"], "charges the usage that a rejected reply reports", async () => {
  const usage = { inputTokens: 9, cachedInputTokens: 0, outputTokens: 7, reasoningTokens: 0 };
  const { model } = handModel({ ...replyWith([TEXT]), usage });
  const role = defineAgent({ name: "solo", instructions: "Work.", model });
  const { status, usage: used } = await newFixture().run(role);
  expect([status, used.total.outputTokens]).toEqual(["failed", 7]);
});

proves(["M5"], "accepts data of 200 levels and 1 MiB in total", async () => {
  const quotes = '"":""'.length + "{}".length;
  const parts = [
    thought({ "": "x".repeat(MIB - quotes - JSON.stringify(nested(200)).length) }),
    TEXT,
    ONE,
    { ...TWO, data: nested(200) },
  ];
  const asked = handModel(replyWith(parts), replyWith(undefined, { toolCalls: [] }));
  expect(await outcomeOf(asked)).toEqual({ status: "completed", errors: [] });
  expect(asked.requests[1]?.messages[2]).toMatchObject({ parts, writtenBy: "acme/hand" });
});

proves(
  ["M1", "M2"],
  "sets `writtenBy` itself and ignores changes that an adapter makes to a reply later",
  async () => {
    const seal = { seal: "one" };
    const first = replyWith([thought({ acme: seal }), TEXT, ONE, TWO], { writtenBy: "acme/other" });
    const asked = handModel(first, replyWith(undefined, { toolCalls: [] }));
    const generate = asked.model.generate.bind(asked.model);
    const model: Model = {
      ...asked.model,
      generate: async (request, options) => {
        const reply = await generate(request, options);
        setImmediate(() => Reflect.set(seal, "seal", "two"));
        return reply;
      },
    };
    await outcomeOf({ ...asked, model });
    expect(seal.seal).toBe("two");
    expect(asked.requests[1]?.messages[2]).toEqual({
      ...replyWith([thought({ acme: { seal: "one" } }), TEXT, ONE, TWO]).message,
      writtenBy: "acme/hand",
    });
  },
);

test("removes `writtenBy` from a reply without parts", async () => {
  const more = { writtenBy: "acme/other" };
  const asked = handModel(replyWith(undefined, more), replyWith(undefined, { toolCalls: [] }));
  await outcomeOf(asked);
  expect(Object.keys(asked.requests[1]?.messages[2] ?? {})).toEqual(["role", "text", "toolCalls"]);
});

proves(["M3"], "does not restore a refusal that was removed from a checked reply", () => {
  const model = { provider: "acme", id: "hand", generate: () => Promise.reject(new Error()) };
  const size = { inputTokens: 10, maxOutputTokens: 100 };
  const refused = replyWith([thought({ acme: "seal" }), TEXT, ONE, TWO], { refusal: "No." });
  const given = checkReply(model, refused, size);
  const { refusal, ...message } = given.message;
  const made = checkHookedReply(model, { ...given, message }, size, [given]);
  expect([refusal, made.message]).toEqual(["No.", message]);
});
