// Goal: a child inherits the messages that the policy allows, in whole exchanges, and never a list
// that a provider would refuse; whatever a user's selection returns.
// Method: one hand-written history for the rules, random legal histories for the invariant, and
// invalid selections of every kind.

import { runInNewContext } from "node:vm";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import {
  selectInheritedMessages,
  type MessageSelection,
} from "../../src/policies/inherit-context.ts";
import type { Message, ToolCall } from "../../src/protocol/message.ts";
import { findMessageProblems } from "../../src/testing/check-messages.ts";
import { proves } from "../harness/proves.ts";
import { toolCall } from "../support/changes.ts";
import { thrownBy, type Thrown } from "../support/thrown.ts";

type Origin = "task" | "inherited" | "injected" | "notice";

function user(text: string, origin: Origin = "task"): Message {
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

function windowOf(messageWindowSize: number, messages = HISTORY): readonly Message[] {
  const choice = { agentPath: "lead", messageWindowSize, selectMessages: undefined };
  return selectInheritedMessages(messages, choice);
}

proves(["R128"], "inherits all messages except the instructions and the reply that spawns", () => {
  expect(windowOf(0)).toEqual([TASK, ...PAIR, ...TRIPLE, NOTICE]);
});

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

for (const [size, expected] of WINDOWS) {
  proves(["R128"], `inherits the last whole groups that fit into a window of ${size}`, () => {
    expect(windowOf(size)).toEqual(expected);
  });
}

proves(["R128"], "inherits the last reply and its result with a window of two", () => {
  expect(windowOf(2, [...HISTORY.slice(0, 4), assistant("", SPAWN)])).toEqual(PAIR);
});

test("inherits nothing if the last group exceeds the window", () => {
  expect(windowOf(2, [...HISTORY.slice(0, 7), assistant("", SPAWN)])).toEqual([]);
});

test("omits a reply with unanswered calls and its results", () => {
  expect(windowOf(0, [...HISTORY.slice(0, 2), assistant("", LEFT, RIGHT), result(LEFT)])).toEqual([
    TASK,
  ]);
});

test("inherits the messages that the parent inherited, marked as inherited", () => {
  const messages = [
    user("From above.", "inherited"),
    user("Hint.", "injected"),
    user("Yours."),
    assistant("", SPAWN),
  ];
  expect(windowOf(0, messages)).toEqual([
    user("From above.", "inherited"),
    user("Hint.", "inherited"),
    user("Yours.", "inherited"),
  ]);
});

/** Returns the first message in an array from another realm. */
const inForeignList = new Proxy((messages: readonly Message[]) => messages, {
  apply: (_target, _self, [messages]): unknown => {
    const copy: unknown = runInNewContext("(list) => Array.from(list).slice(0, 1)");
    if (typeof copy !== "function") throw new Error("No function.");
    const list: unknown = Reflect.apply(copy, undefined, [messages]);
    expect(Array.isArray(list)).toBe(true);
    expect(list).not.toBeInstanceOf(Array);
    return list;
  },
});

function selected(selectMessages: MessageSelection, messages = HISTORY): readonly Message[] {
  return selectInheritedMessages(messages, {
    agentPath: "lead/x#1",
    messageWindowSize: 0,
    selectMessages,
  });
}

proves(
  ["R128"],
  "passes whole exchanges to a selection, without instructions and the reply that spawns",
  () => {
    const handed: (readonly Message[])[] = [];
    const kept = selected((messages) => {
      handed.push(messages);
      return messages;
    });
    expect(handed).toEqual([HISTORY.slice(1, 8)]);
    expect(Object.isFrozen(handed[0])).toBe(true);
    expect(kept).toEqual([TASK, ...PAIR, ...TRIPLE, NOTICE]);
  },
);

const PICKS: readonly (readonly [string, MessageSelection, readonly Message[]])[] = [
  ["nothing", () => [], []],
  ["one message", (messages) => messages.slice(0, 1), [TASK]],
  ["a whole pair", (messages) => messages.slice(1, 3), PAIR],
  [
    "with gaps",
    (messages) => [...messages.slice(0, 1), ...messages.slice(3, 6)],
    [TASK, ...TRIPLE],
  ],
  ["copies", (messages) => structuredClone(messages.slice(1, 6)), [...PAIR, ...TRIPLE]],
  [
    "copies with their fields in another order",
    (messages) =>
      messages.slice(6).flatMap((one) => {
        const { text } = one;
        return one.role === "user" ? [{ text, origin: one.origin, role: "user" as const }] : [];
      }),
    [NOTICE],
  ],
  ["a list from another realm", inForeignList, [TASK]],
];

for (const [what, pick, expected] of PICKS) {
  proves(["R128"], `accepts a selection of ${what}`, () => {
    expect(selected(pick)).toEqual(expected);
  });
}

test("accepts each of several equal messages once", () => {
  const messages = [user("Go on."), user("Go on."), user("Stop.")];
  const twice = selected((all) => structuredClone(all.slice(0, 2)), messages);
  expect(twice).toEqual([user("Go on.", "inherited"), user("Go on.", "inherited")]);
  const thrice = refusalOf(
    (all) => [...all.slice(0, 2), ...structuredClone(all.slice(0, 1))],
    messages,
  );
  expect(thrice.code).toBe("context_policy_failed");
});

test("distinguishes calls of two replies that share an id by their results", () => {
  const again = { ...result(FIRST), text: "the second" };
  const messages = [assistant("", FIRST), result(FIRST), assistant("", FIRST), again];
  expect(selected((all) => structuredClone(all.slice(2)), messages)).toEqual(messages.slice(2));
  expect(refusalOf((all) => [...all.slice(0, 1), ...all.slice(3)], messages).code).toBe(
    "context_policy_failed",
  );
});

function refusalOf(select: MessageSelection, messages = HISTORY): Thrown {
  return thrownBy(() => selected(select, messages));
}

/** Returns a value that the types forbid, as a program without types could. */
function giving(value: unknown): MessageSelection {
  return givingAnew(() => value);
}

function givingAnew(make: () => unknown): MessageSelection {
  return new Proxy((): readonly Message[] => [], { apply: make });
}

const hostile = {
  get length(): number {
    throw new Error("Do not look.");
  },
};

const BAD: readonly (readonly [string, MessageSelection, string])[] = [
  [
    "throws",
    () => {
      throw new Error("Not today.");
    },
    "but it threw: Not today.",
  ],
  ["changes what it is handed", (all) => Object.assign(all, { length: 1 }), "but it threw: "],
  ["gives a promise", giving(Promise.resolve([])), "got a promise"],
  [
    "gives a promise that is rejected",
    givingAnew(() => Promise.reject(new Error("Late."))),
    "got a promise",
  ],
  [
    "gives a promise of another realm",
    givingAnew(() => runInNewContext("Promise.reject(1)")),
    "got a promise",
  ],
  ["gives nothing", giving(undefined), "got undefined"],
  ["gives text", giving("all"), 'got "all"'],
  ["gives an object", giving({ length: 0 }), "got an object"],
  ["gives something that may not be looked at", giving(hostile), "got an object"],
  [
    "gives the list with holes",
    giving(Array.from({ length: 2 })),
    "got undefined at [0], which is not one of them",
  ],
  ["gives more than there are", (all) => [...all, ...all], "got 14, more than there are"],
  [
    "gives one twice",
    (all) => [...all.slice(0, 1), ...all.slice(0, 1)],
    "got the one at [1] out of order, or twice",
  ],
  [
    "turns them around",
    (all) => [...all.slice(6), ...all.slice(0, 1)],
    "got the one at [1] out of order, or twice",
  ],
  ["gives calls without results", (all) => all.slice(1, 2), "got the one at [0] without"],
  ["gives some results only", (all) => all.slice(3, 5), "got the one at [0] without"],
  ["gives results without calls", (all) => all.slice(2, 3), "got the one at [0] without"],
  [
    "turns results around",
    (all) => [...all.slice(3, 4), ...all.slice(4, 6).toReversed()],
    "got the one at [0] without",
  ],
  [
    "gives the instructions",
    () => HISTORY.slice(0, 1),
    "got an object at [0], which is not one of them",
  ],
  [
    "gives the reply that spawns",
    () => HISTORY.slice(8),
    "got an object at [0], which is not one of them",
  ],
  [
    "writes one of its own",
    () => [user("Trust me.")],
    "got an object at [0], which is not one of them",
  ],
  [
    "changes a word",
    (all) => all.slice(0, 1).map((one) => ({ ...one, text: "Survey all." })),
    "got an object at [0], which is not one of them",
  ],
  [
    "adds a field",
    (all) => all.slice(0, 1).map((one) => ({ ...one, extra: 1 })),
    "got an object at [0], which is not one of them",
  ],
];

for (const [what, select, words] of BAD) {
  test(`refuses a selection that ${what}, and names the path of the parent`, () => {
    const { code, message, data } = refusalOf(select);
    expect([code, data]).toEqual(["context_policy_failed", { agentPath: "lead/x#1" }]);
    expect(message).toMatch(
      /^Expected contextPolicy\.selectMessages of lead\/x#1 to return some of the/,
    );
    expect(message).toContain(`, ${words}`);
    expect(message).toMatch(
      /selects whole exchanges, or leave it out and set messageWindowSize\.$/,
    );
  });
}

test("treats values that cannot be compared as unknown messages", () => {
  const cyclic: Record<string, unknown> = {};
  cyclic["self"] = cyclic;
  const trap = new Proxy(
    {},
    {
      ownKeys: () => {
        throw new Error("Do not look.");
      },
    },
  );
  for (const value of [cyclic, trap, 1n, Symbol("x"), () => 1, null])
    expect(refusalOf(giving([value])).message).toContain("at [0], which is not one of them");
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  expect(refusalOf(giving([proxy])).message).toContain("got a value that cannot be read at [0]");
});

test("returns the parent's own messages, whatever the getters of a copy return", () => {
  let looks = 0;
  const changing = {
    toJSON: (): unknown => {
      looks += 1;
      return looks === 1 ? HISTORY[1] : user("Trust me.");
    },
  };
  expect(selected(giving([changing]))).toEqual([TASK]);
});

/**
 * Legal histories: whole exchanges, optionally followed by a reply whose calls are unanswered, or
 * half answered.
 */
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
  "never inherits an orphan result or an unanswered call, nor more than the window",
  () => {
    fc.assert(
      fc.property(histories, fc.nat({ max: 12 }), (messages, size) => {
        const kept = windowOf(size, messages);
        expect(findMessageProblems([...kept, user("The task.")])).toEqual([]);
        expect(kept.some((message) => message.role === "system")).toBe(false);
        if (size > 0) expect(kept.length).toBeLessThanOrEqual(size);
        expect(isContiguous(kept, messages)).toBe(true);
      }),
      { seed: 1, numRuns: 2_000 },
    );
  },
);

proves(
  ["R128"],
  "returns a valid list or a coded refusal for any selection, by identity or as copies",
  () => {
    fc.assert(
      fc.property(
        histories,
        fc.array(fc.nat({ max: 40 })),
        fc.boolean(),
        (messages, picks, isCopy) => {
          const select: MessageSelection = (all) => {
            const picked = picks.flatMap((index) => all.slice(index, index + 1));
            return isCopy ? structuredClone(picked) : picked;
          };
          let kept: readonly Message[] = [];
          try {
            kept = selected(select, messages);
          } catch (cause) {
            expect(
              thrownBy(() => {
                throw cause;
              }).code,
            ).toBe("context_policy_failed");
          }
          expect(findMessageProblems([...kept, user("The task.")])).toEqual([]);
        },
      ),
      { numRuns: 2_000 },
    );
  },
);

proves(["R128"], "accepts every selection of whole groups in their order", () => {
  fc.assert(
    fc.property(
      histories,
      fc.infiniteStream(fc.boolean()),
      fc.boolean(),
      (messages, coins, isCopy) => {
        const picked: Message[] = [];
        let isKept = false;
        const kept = selected((all) => {
          for (const message of all) {
            if (message.role !== "tool") isKept = coins.next().value === true;
            if (isKept) picked.push(message);
          }
          return isCopy ? structuredClone(picked) : picked;
        }, messages);
        expect(texts(kept)).toEqual(texts(picked));
      },
    ),
  );
});

function texts(messages: readonly Message[]): readonly string[] {
  return messages.map((message) => JSON.stringify({ ...message, origin: undefined }));
}

/**
 * True if the kept messages are a contiguous part of the history without instructions, up to its
 * last whole exchange.
 */
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
