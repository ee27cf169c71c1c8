// Goal: hooks may omit the parts of a reply besides text and calls, but never invent or change
// them.
// Method: hooks before a request and around a call; compare whole requests of this and later steps.

import { describe, expect, test } from "vitest";

import { transform, wrapModelCall, type Hook } from "../../../src/hooks/hook.ts";
import type { ModelReply } from "../../../src/model/model.ts";
import { buildReplyMessage, type ReplyPiece } from "../../../src/protocol/reply-message.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import type { AssistantMessage, Message, ReplyPart } from "../../../src/protocol/message.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { loadRecording } from "../../../src/testing/replay/recording.ts";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import {
  expectSent,
  result,
  sealed,
  thinks,
  thought,
  thoughtPieces,
} from "../../support/thoughtful-replies.ts";

const OWN = "scripted/scripted";
const OPENING: readonly Message[] = [
  { role: "system", text: "Work.", origin: "instructions" },
  { role: "user", text: "Do it.", origin: "task" },
];
const FIRST = thoughtPieces("c1");
const SECOND = thoughtPieces("c2");
const WHOLE = [
  ...OPENING,
  thought(OWN, "c1"),
  result("c1"),
  thought(OWN, "c2"),
  result("c2"),
] as const;
const SCRIPT: readonly ScriptStep[] = [thinks("c1"), thinks("c2"), says("Done.")];

/** Two steps with every kind of part, and a third that sees both; `hooks` act in the second. */
function hooked(...hooks: readonly Hook[]) {
  return soloist(SCRIPT, { tools: [spyTool("look")], hooks });
}

/** Changes the replies that the request of the second step contains. */
function inStepTwo(change: (message: AssistantMessage) => Message): Hook {
  return transform("beforeModel", ({ messages }, { stepNumber }) =>
    stepNumber === 2
      ? { messages: messages.map((one) => (one.role === "assistant" ? change(one) : one)) }
      : undefined,
  );
}

/**
 * Expects this form of the first reply in the second request, and no other change of the history.
 */
async function expectShown(
  hook: Hook,
  shown: Omit<AssistantMessage, "role">,
  pieces: readonly ReplyPiece[],
): Promise<void> {
  const { role, model } = hooked(hook);
  const fixture = newFixture();
  await fixture.run(role);
  const reply = { role: "assistant", ...shown } as const;
  const results = shown.toolCalls.map(({ callId }) => result(callId));
  expectSent(model.requests[1], [...OPENING, reply, ...results], [pieces]);
  expectSent(model.requests[2], WHOLE, [FIRST, SECOND]);
  expect(fixture.sink.ofType("model.requested").map(({ prefix }) => prefix)).toEqual([
    undefined,
    { isUnchanged: true, messageCount: 2 },
    { isUnchanged: false, messageCount: 2, changed: "messages" },
  ]);
}

const { parts: PARTS = [], ...BARE } = buildReplyMessage(FIRST);
const PLAIN = [{ type: "text", text: BARE.text }, ...callsOf(FIRST)] as const;

/** Calls without their parts. */
function callsOf(pieces: readonly ReplyPiece[]): readonly ReplyPiece[] {
  return pieces.flatMap((piece) => (piece.type === "call" ? [{ ...piece, data: undefined }] : []));
}

describe("a hook before the request", () => {
  proves(["M1"], "drops the parts from a request if the hook omits them", async () => {
    const bare = inStepTwo(({ role, text, toolCalls }) => ({ role, text, toolCalls }));
    await expectShown(bare, { text: BARE.text, toolCalls: BARE.toolCalls }, PLAIN);
  });

  for (const text of ["Something else.", "LOOKING. HERE.", ""])
    proves(
      ["M3"],
      `keeps reasoning and calls if the hook changes the text to "${text}"`,
      async () => {
        const [thinking, , searched, , again, call] = FIRST;
        const pieces = [
          thinking,
          ...(text === "" ? [] : [{ type: "text", text } as const]),
          searched,
          again,
          call,
        ].filter((piece) => piece !== undefined);
        const { parts } = buildReplyMessage(pieces);
        const fitted = { parts: parts ?? [], writtenBy: OWN, text, toolCalls: BARE.toolCalls };
        await expectShown(
          inStepTwo((one) => ({ ...one, text })),
          fitted,
          pieces,
        );
      },
    );

  proves(["M3"], "keeps only text and calls if the hook removes a call", async () => {
    const taken = transform("beforeModel", ({ messages }, { stepNumber }) =>
      stepNumber === 2
        ? {
            messages: [
              ...messages
                .filter(({ role }) => role !== "tool")
                .map((one) => (one.role === "assistant" ? { ...one, toolCalls: [] } : one)),
              { role: "user", text: "Well?", origin: "notice" },
            ],
          }
        : undefined,
    );
    const { role, model } = hooked(taken);
    await newFixture().run(role);
    const reply = { role: "assistant", text: BARE.text, toolCalls: [] } as const;
    expectSent(
      model.requests[1],
      [...OPENING, reply, { role: "user", text: "Well?", origin: "notice" }],
      [[{ type: "text", text: BARE.text }]],
    );
    expectSent(model.requests[2], WHOLE, [FIRST, SECOND]);
  });

  const forged: Readonly<Record<string, (parts: readonly ReplyPart[]) => object>> = {
    "other data": (parts) => ({
      parts: parts.map((part) => ("data" in part ? { ...part, data: sealed("x") } : part)),
    }),
    "other reasoning": (parts) => ({
      parts: parts.map((part) => (part.type === "reasoning" ? { ...part, text: "No." } : part)),
    }),
    "parts in another order": (parts) => ({ parts: parts.toReversed() }),
    "a part less": (parts) => ({ parts: parts.slice(1) }),
    "another writer": () => ({ writtenBy: "scripted/other" }),
  };
  for (const [what, change] of Object.entries(forged))
    proves(["M1"], `refuses a hook that returns ${what}`, async () => {
      const forging = inStepTwo((one) => ({ ...one, ...change(one.parts ?? []) }));
      const { role, model } = hooked(forging);
      const { agents } = await newFixture().run(role);
      expect([model.requests.length, agents[0]?.errors.map(({ code }) => code)]).toEqual([
        1,
        ["invalid_hook_result"],
      ]);
      expect(agents[0]?.errors[0]?.message).toContain(
        "leave the parts of replies as the model wrote them, or out",
      );
    });

  proves(["M1"], "refuses a hook that invents a reply with parts", async () => {
    const invented = transform("beforeModel", ({ messages }, { stepNumber }) =>
      stepNumber === 1
        ? { messages: [...messages, { ...buildReplyMessage(FIRST), writtenBy: OWN }, result("c1")] }
        : undefined,
    );
    const { role, model } = hooked(invented);
    const { agents } = await newFixture().run(role);
    expect([model.requests.length, agents[0]?.errors.map(({ code }) => code)]).toEqual([
      0,
      ["invalid_hook_result"],
    ]);
  });
});

type Wrap = (reply: ModelReply) => ModelReply;

/** Expects this form of the first reply, changed by `wrap`, in the request of the third step. */
async function expectKept(
  wrap: Wrap,
  kept: Omit<AssistantMessage, "role">,
  pieces: readonly ReplyPiece[],
): Promise<void> {
  let isDone = false;
  const once = wrapModelCall(async (_call, next) => {
    const reply = await next();
    if (isDone) return reply;
    isDone = true;
    return wrap(reply);
  });
  const { role, model } = hooked(once);
  expect((await newFixture().run(role)).status).toBe("completed");
  const reply = { role: "assistant", ...kept } as const;
  const results = kept.toolCalls.map(({ callId }) => result(callId));
  expectSent(
    model.requests[2],
    [...OPENING, reply, ...results, thought(OWN, "c2"), result("c2")],
    [pieces, SECOND],
  );
}

function withMessage(reply: ModelReply, change: Partial<AssistantMessage>): ModelReply {
  return { ...reply, message: { ...reply.message, ...change } };
}

const KEPT = { ...BARE, parts: PARTS, writtenBy: OWN } as const;

describe("a hook around the call", () => {
  proves(["M1"], "keeps the parts if the hook returns the reply or an equal one", async () => {
    await expectKept((reply) => reply, KEPT, FIRST);
    await expectKept((reply) => structuredClone(reply), KEPT, FIRST);
  });

  proves(["M2"], "ignores another writer that the hook claims", async () => {
    await expectKept((reply) => withMessage(reply, { writtenBy: "scripted/other" }), KEPT, FIRST);
  });

  for (const text of ["Something else.", "LOOKING. HERE."])
    proves(
      ["M3"],
      `keeps reasoning and calls if the hook changes the text to "${text}"`,
      async () => {
        const [thinking, , searched, , again, call] = FIRST;
        const pieces = [thinking, { type: "text", text } as const, searched, again, call].filter(
          (piece) => piece !== undefined,
        );
        const { parts } = buildReplyMessage(pieces);
        const kept = { ...KEPT, text, parts: parts ?? [] };
        await expectKept((reply) => withMessage(reply, { text }), kept, pieces);
      },
    );

  proves(["M3"], "keeps only text and calls if the hook returns other calls", async () => {
    const callId = CallIdSchema().parse("c9");
    await expectKept(
      (reply) =>
        withMessage(reply, { toolCalls: BARE.toolCalls.map((call) => ({ ...call, callId })) }),
      { text: BARE.text, toolCalls: BARE.toolCalls.map((call) => ({ ...call, callId })) },
      PLAIN.map((piece) => (piece.type === "call" ? { ...piece, callId } : piece)),
    );
  });

  const bare = { text: BARE.text, toolCalls: BARE.toolCalls };
  const invented: Readonly<Record<string, Wrap>> = {
    "other data": (reply) =>
      withMessage(reply, {
        parts: PARTS.map((part) => ("data" in part ? { ...part, data: sealed("x") } : part)),
      }),
    "a part more": (reply) =>
      withMessage(reply, { parts: [{ type: "reasoning", text: "I see." }, ...PARTS] }),
    none: ({ finishReason, message: { role, text, toolCalls } }) => ({
      finishReason,
      message: { role, text, toolCalls },
    }),
    "parts that fit nothing": (reply) =>
      withMessage(reply, { parts: [{ type: "text", length: 1 }] }),
  };
  for (const [what, wrap] of Object.entries(invented))
    proves(["M1", "M2"], `drops all parts of the reply if the hook returns ${what}`, async () => {
      await expectKept(wrap, bare, PLAIN);
    });

  proves(["M1"], "ignores mutations of the reply", async () => {
    const writes: Wrap = (reply) => {
      const [first] = reply.message.parts ?? [];
      const seal = first?.data?.["zeta"];
      const targets = [reply, reply.message, reply.message.parts, first, first?.data, seal];
      for (const target of [...targets, ...reply.message.toolCalls])
        if (typeof target === "object" && target !== null)
          for (const key of Object.keys(target)) Reflect.set(target, key, "changed");
      return reply;
    };
    await expectKept(writes, KEPT, FIRST);
  });

  test("ignores warnings that the hook adds, and persists none", async () => {
    const warns = wrapModelCall(async (_call, next) => ({
      ...(await next()),
      warnings: ["I like this one."],
    }));
    const { role } = hooked(warns);
    const store = memoryStore({ clock: new ManualClock() });
    const fixture = newFixture({ store });
    const { runId, status } = await fixture.run(role);
    expect([status, fixture.sink.ofType("model.warned")]).toEqual(["completed", []]);
    const kept = await loadRecording(store, runId);
    expect([kept.includes("Thought of c1."), kept.includes("I like")]).toEqual([true, false]);
  });

  proves(["M2"], "uses only text and calls of a reply that the hook creates itself", async () => {
    const answers = wrapModelCall(async ({ request }, next) =>
      request.messages.length > OPENING.length
        ? await next()
        : { message: { ...buildReplyMessage(FIRST), writtenBy: OWN }, finishReason: "tool_calls" },
    );
    const { role, model } = soloist([thinks("c2"), says("Done.")], {
      tools: [spyTool("look")],
      hooks: [answers],
    });
    await newFixture().run(role);
    expectSent(
      model.requests[1],
      [...OPENING, { role: "assistant", ...bare }, result("c1"), thought(OWN, "c2"), result("c2")],
      [PLAIN, SECOND],
    );
  });

  proves(["M1"], "keeps the parts of the reply that the hook chooses from two calls", async () => {
    const twice = wrapModelCall(async ({ request }, next) => {
      const first = await next();
      if (request.messages.length > OPENING.length) return first;
      await next();
      return structuredClone(first);
    });
    const script = [thinks("c1"), thinks("c2"), says("Done.")];
    const { role, model } = soloist(script, { tools: [spyTool("look")], hooks: [twice] });
    await newFixture().run(role);
    expectSent(model.requests[2], WHOLE.slice(0, 4), [FIRST]);
  });
});
