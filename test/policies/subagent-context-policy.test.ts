// Goal: a child inherits exactly what the policy says, in whole pairs, as copies, and never a list that a provider would refuse.
// Method: one hand-written history for the rules, random legal histories for the law.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import {
  inheritContext,
  subagentContextPolicy,
  type SubagentContextPolicy,
} from "../../src/policies/subagent-context-policy.ts";
import type { Message, ToolCall } from "../../src/protocol/message.ts";
import { checkMessages } from "../../src/testing/check-messages.ts";
import { proves } from "../harness/proves.ts";
import { toolCall } from "../support/changes.ts";
import { unfrozenParts } from "../support/frozen.ts";
import { thrownBy } from "../support/thrown.ts";

function user(
  text: string,
  origin: "task" | "inherited" | "injected" | "notice" = "task",
): Message {
  return { role: "user", text, origin };
}

function assistant(text: string, ...toolCalls: readonly ToolCall[]): Message {
  return { role: "assistant", text, toolCalls };
}

function result({ callId, toolName }: ToolCall): Message {
  return { role: "tool", callId, toolName, text: `result of ${callId}` };
}

const FIRST = toolCall("call_1");
const LEFT = toolCall("call_2");
const RIGHT = toolCall("call_3");
const SPAWN = toolCall("call_4");

const HISTORY: readonly Message[] = [
  { role: "system", text: "You lead.", origin: "instructions" },
  user("Survey it."),
  assistant("One first.", FIRST),
  result(FIRST),
  assistant("Both at once.", LEFT, RIGHT),
  result(LEFT),
  result(RIGHT),
  user("Go on.", "notice"),
  assistant("I delegate.", SPAWN),
];

const TASK = user("Survey it.", "inherited");
const PAIR = [assistant("One first.", FIRST), result(FIRST)];
const TRIPLE = [assistant("Both at once.", LEFT, RIGHT), result(LEFT), result(RIGHT)];
const NOTICE = user("Go on.", "inherited");

function inherited(given: Partial<SubagentContextPolicy>, messages = HISTORY): readonly Message[] {
  return inheritContext(subagentContextPolicy("lead.context", given), { messages, metadata: {} })
    .messages;
}

proves(["R127", "R128"], "without a word a child inherits nothing", () => {
  const policy = subagentContextPolicy("lead.context", {});
  expect(
    inheritContext(policy, { messages: HISTORY, metadata: { repository: "espalier" } }),
  ).toEqual({
    messages: [],
    inheritedMessages: 0,
    injectedMessages: 0,
    metadata: {},
  });
});

proves(
  ["R128"],
  "all messages are all but the parent's instructions and the reply that spawns",
  () => {
    const all = [TASK, ...PAIR, ...TRIPLE, NOTICE];
    expect(inherited({ inheritMessages: true })).toEqual(all);
    expect(inherited({ inheritMessages: true, messageWindowSize: 0 })).toEqual(all);
  },
);

const WINDOWS: readonly (readonly [number, readonly Message[]])[] = [
  [1, [NOTICE]],
  [2, [NOTICE]],
  [3, [NOTICE]],
  [4, [...TRIPLE, NOTICE]],
  [5, [...TRIPLE, NOTICE]],
  [6, [...PAIR, ...TRIPLE, NOTICE]],
  [7, [TASK, ...PAIR, ...TRIPLE, NOTICE]],
  [100, [TASK, ...PAIR, ...TRIPLE, NOTICE]],
];

for (const [messageWindowSize, expected] of WINDOWS) {
  proves(
    ["R128"],
    `of a window of ${messageWindowSize} the child gets the last whole groups that fit`,
    () => {
      expect(inherited({ inheritMessages: true, messageWindowSize })).toEqual(expected);
    },
  );
}

proves(["R128"], "the last two are the last reply and its result", () => {
  expect(
    inherited({ inheritMessages: true, messageWindowSize: 2 }, [
      ...HISTORY.slice(0, 4),
      assistant("", SPAWN),
    ]),
  ).toEqual(PAIR);
});

test("a reply of which some calls have no result yet is left out with the results it has", () => {
  const messages = [...HISTORY.slice(0, 2), assistant("", LEFT, RIGHT), result(LEFT)];
  expect(inherited({ inheritMessages: true }, messages)).toEqual([TASK]);
});

test("a child of a child gets what its parent inherited, and not as new", () => {
  const messages = [
    HISTORY[0],
    user("From above.", "inherited"),
    user("Hint.", "injected"),
    user("Yours."),
    assistant("", SPAWN),
  ];
  const known = messages.filter((message) => message !== undefined);
  expect(inherited({ inheritMessages: true }, known)).toEqual([
    user("From above.", "inherited"),
    user("Hint.", "inherited"),
    user("Yours.", "inherited"),
  ]);
});

proves(
  ["R130"],
  "injected texts come after what is inherited, in order, tagged as injected",
  () => {
    const policy = subagentContextPolicy("lead.context", {
      inheritMessages: true,
      messageWindowSize: 1,
      contextInjections: ["Be brief.", "Cite files."],
    });
    expect(inheritContext(policy, { messages: HISTORY, metadata: {} })).toEqual({
      messages: [NOTICE, user("Be brief.", "injected"), user("Cite files.", "injected")],
      inheritedMessages: 1,
      injectedMessages: 2,
      metadata: {},
    });
  },
);

const METADATA = { repository: "espalier", owner: { name: "Ada", roles: ["admin"] }, secret: null };

const METADATA_POLICIES: readonly (readonly [string, Partial<SubagentContextPolicy>, object])[] = [
  ["nothing by default", {}, {}],
  ["everything", { inheritMetadata: true }, METADATA],
  ["some keys, without a further word", { metadataKeys: ["owner"] }, { owner: METADATA.owner }],
  [
    "some keys, said twice",
    { inheritMetadata: true, metadataKeys: ["repository"] },
    { repository: "espalier" },
  ],
  ["no keys at all", { metadataKeys: [] }, {}],
  ["keys that are not there", { metadataKeys: ["nobody", "constructor"] }, {}],
];

for (const [what, given, expected] of METADATA_POLICIES) {
  proves(["R129"], `metadata: ${what}`, () => {
    const policy = subagentContextPolicy("lead.context", given);
    expect(inheritContext(policy, { messages: [], metadata: METADATA }).metadata).toEqual(expected);
  });
}

proves(["R129"], "what is handed on is a copy, which the child cannot change", () => {
  const metadata = { owner: { name: "Ada" } };
  const policy = subagentContextPolicy("lead.context", { inheritMetadata: true });
  const child = inheritContext(policy, { messages: [], metadata });
  expect(child.metadata["owner"]).not.toBe(metadata.owner);
  metadata.owner.name = "Eve";
  expect(child.metadata).toEqual({ owner: { name: "Ada" } });
  expect(unfrozenParts(child)).toEqual([]);
  expect(Object.isFrozen(metadata)).toBe(false);
});

test("a policy is a frozen copy of what was given", () => {
  const keys = ["a"];
  const policy = subagentContextPolicy("lead.context", {
    metadataKeys: keys,
    contextInjections: ["Hint."],
  });
  keys.push("b");
  expect(policy).toEqual({
    inheritMessages: false,
    messageWindowSize: 0,
    inheritMetadata: true,
    metadataKeys: ["a"],
    contextInjections: ["Hint."],
  });
  expect(unfrozenParts(policy)).toEqual([]);
});

const BAD: readonly (readonly [string, object, string, string])[] = [
  ["a window without inheritance", { messageWindowSize: 2 }, "messageWindowSize", "2"],
  [
    "a negative window",
    { inheritMessages: true, messageWindowSize: -1 },
    "messageWindowSize",
    "-1",
  ],
  [
    "a window of half a message",
    { inheritMessages: true, messageWindowSize: 0.5 },
    "messageWindowSize",
    "0.5",
  ],
  ["a flag in words", { inheritMessages: "yes" }, "inheritMessages", '"yes"'],
  ["a number for a flag", { inheritMetadata: 1 }, "inheritMetadata", "1"],
  [
    "keys of metadata that is not inherited",
    { inheritMetadata: false, metadataKeys: ["a"] },
    "metadataKeys",
    "an array",
  ],
  ["a field that does not exist", { inheritMessage: true }, "inheritMessage", '"inheritMessage"'],
];

for (const [what, given, field, got] of BAD) {
  test(`${what} is refused by name`, () => {
    const { code, data } = thrownBy(() => subagentContextPolicy("lead.context", given));
    expect([code, data["field"], data["got"]]).toEqual([
      "invalid_option",
      `lead.context.${field}`,
      got,
    ]);
  });
}

test("an empty injection, key, or one that is no text, is an invalid option like the rest", () => {
  const bad = [
    { contextInjections: [""] },
    { contextInjections: ["a", 5] },
    { metadataKeys: [" "] },
    { metadataKeys: [null] },
  ];
  const codes = bad.map(
    (given: object) => thrownBy(() => subagentContextPolicy("lead.context", given)).code,
  );
  expect(codes).toEqual(bad.map(() => "invalid_option"));
});

test("texts and keys that are not in a list are refused with a code", () => {
  const bad = [
    { contextInjections: "Be brief." },
    { contextInjections: 5 },
    { metadataKeys: "owner" },
  ];
  const codes = bad.map(
    (given: object) => thrownBy(() => subagentContextPolicy("lead.context", given)).code,
  );
  expect(codes).toEqual(bad.map(() => "invalid_option"));
});

/** A legal history: whole exchanges, and at its end perhaps a reply whose calls are unanswered, or half answered. */
const histories: fc.Arbitrary<readonly Message[]> = fc
  .record({
    exchanges: fc.array(fc.record({ calls: fc.nat({ max: 4 }), notices: fc.nat({ max: 2 }) }), {
      maxLength: 8,
      size: "max",
    }),
    open: fc.nat({ max: 3 }),
    answered: fc.nat({ max: 2 }),
  })
  .map(({ exchanges, open, answered }) => {
    let count = 0;
    const callsOf = (many: number): readonly ToolCall[] =>
      Array.from({ length: many }, () => toolCall(`call_${(count += 1)}`));
    const whole = exchanges.flatMap(({ calls, notices }) => {
      const asked = callsOf(calls);
      const said = Array.from({ length: notices }, (_notice, index) =>
        user(`notice ${index}`, "notice"),
      );
      return [assistant("Said.", ...asked), ...asked.map(result), ...said];
    });
    const last = callsOf(open);
    const tail =
      open === 0
        ? []
        : [assistant("", ...last), ...last.slice(0, Math.min(answered, open - 1)).map(result)];
    return [...HISTORY.slice(0, 2), ...whole, ...tail];
  });

proves(
  ["R128"],
  "what is inherited never has an orphan result or an unanswered call, and never exceeds the window",
  () => {
    fc.assert(
      fc.property(histories, fc.nat({ max: 12 }), (messages, messageWindowSize) => {
        const kept = inherited({ inheritMessages: true, messageWindowSize }, messages);
        const asked = [...kept, user("The task.")];
        expect(checkMessages(asked)).toEqual([]);
        expect(kept.some((message) => message.role === "system")).toBe(false);
        if (messageWindowSize > 0) expect(kept.length).toBeLessThanOrEqual(messageWindowSize);
        expect(isContiguous(kept, messages)).toBe(true);
      }),
      { seed: 1, numRuns: 2_000 },
    );
  },
);

function texts(messages: readonly Message[]): readonly string[] {
  return messages.map((message) => JSON.stringify({ ...message, origin: undefined }));
}

/** The kept messages are a gapless piece of the history without instructions, and nothing whole is missing after it. */
function isContiguous(kept: readonly Message[], messages: readonly Message[]): boolean {
  const all = texts(messages.filter((message) => message.role !== "system"));
  const own = texts(kept);
  const unanswered = messages.findLastIndex((message) => message.role === "assistant");
  const open = messages[unanswered];
  const answers = messages
    .slice(unanswered + 1)
    .filter((message) => message.role === "tool").length;
  const isOpen = open?.role === "assistant" && open.toolCalls.length > answers;
  const end = isOpen ? unanswered - 1 : all.length;
  return own.join() === all.slice(end - own.length, end).join();
}
