// Goal: a tool's return value becomes one fixed text, and a value that cannot be shown is an error
// with its path and reason.
// Method: tables of values, and runs with a tool that returns values that cannot be shown.

import { runInNewContext } from "node:vm";

import { describe, expect, test } from "vitest";

import { describeDelegation } from "../../src/tools/delegation-text.ts";
import { getErrorName, copyPlainResult, formatToolResult } from "../../src/tools/result-text.ts";
import { says } from "../../src/testing/scripted-model.ts";
import type { SubagentResult } from "../../src/protocol/subagent.ts";
import { AgentIdSchema, ExecutionIdSchema } from "../../src/protocol/ids.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { soloist } from "../harness/soloist.ts";
import { spyTool } from "../harness/tools.ts";
import { callUsage } from "../support/ledger-fixture.ts";

class NotFound extends Error {}

class Point {
  readonly y = 2;
  readonly x = 1;
  get sum(): number {
    return this.x + this.y;
  }
}

class Money {
  readonly #cents = 250;
  toJSON(): object {
    return { currency: "EUR", amount: this.#cents / 100 };
  }
}

const SHARED = { a: 1 };

const FOREIGN: unknown = runInNewContext(
  "[{}, new Map([['a', new Set([1])]]), new RangeError('far'), new Date(0), new Uint8Array(3), new ArrayBuffer(4)]",
);

const WITHOUT_PROTOTYPE: unknown = Object.assign(Object.create(null), { b: 1, a: 2 });

const SELF_COPYING = {
  a: 1,
  toJSON(): object {
    return { ...this };
  },
};

const TEXTS: readonly (readonly [string, unknown, string])[] = [
  ["text", "as it is", "as it is"],
  ["text that looks like JSON", '{"b":1}', '{"b":1}'],
  ["an empty text", "", ""],
  ["a text in an object of its own", Object("boxed"), "boxed"],
  ["nothing", undefined, ""],
  ["null", null, "null"],
  ["true", true, "true"],
  ["false in an object of its own", Object(false), "false"],
  ["zero", 0, "0"],
  ["a zero below zero", -0, "0"],
  ["a fraction", -1.5, "-1.5"],
  ["a large number", 1e21, "1e+21"],
  ["no number", NaN, "NaN"],
  ["infinity", -Infinity, "-Infinity"],
  ["what JSON has no number for", [NaN, Infinity, -0, Object(NaN)], '["NaN","Infinity",0,"NaN"]'],
  ["a big integer", 12_345_678_901_234_567_890n, "12345678901234567890"],
  ["a big integer within", { big: [10n] }, '{"big":["10"]}'],
  ["an empty array", [], "[]"],
  ["a list with nothing in a place", [1, undefined, 3], "[1,null,3]"],
  ["a list with gaps", Object.assign([], { 1: "b" }), '[null,"b"]'],
  ["an empty object", {}, "{}"],
  ["keys in any order", { b: 1, a: { d: 2, c: 3 } }, '{"a":{"c":3,"d":2},"b":1}'],
  ["objects in a list", [{ b: 1, a: 2 }], '[{"a":2,"b":1}]'],
  ["a field without value", { a: undefined, b: 1 }, '{"b":1}'],
  ["functions and symbols within", { f: () => 1, s: Symbol("s"), l: [() => 1] }, '{"l":[null]}'],
  ["an object without a prototype", WITHOUT_PROTOTYPE, '{"a":2,"b":1}'],
  [
    "a key that objects have anyway",
    { constructor: 1, toString: "x" },
    '{"constructor":1,"toString":"x"}',
  ],
  ["a key named __proto__", JSON.parse('{"__proto__":{"a":1}}'), '{"__proto__":{"a":1}}'],
  ["one value in two places", [SHARED, { again: SHARED }], '[{"a":1},{"again":{"a":1}}]'],
  ["quotes and line breaks", ['"\n'], '["\\"\\n"]'],
  ["half a character", ["\ud800"], '["\\ud800"]'],
  ["half a character alone", "\ud800", "\ud800"],
  ["a date", new Date(0), "1970-01-01T00:00:00.000Z"],
  ["a date within", { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
  ["a date that is none", [new Date(NaN)], '["Invalid Date"]'],
  ["an address", new URL("https://example.com/a?b"), "https://example.com/a?b"],
  ["an object that says how it is JSON", { toJSON: () => ({ b: 1, a: 2 }) }, '{"a":2,"b":1}'],
  ["an object that says it is a text", { toJSON: () => "a text" }, "a text"],
  ["an object that copies itself for JSON", SELF_COPYING, '{"a":1}'],
  ["a field that is named toJSON", { toJSON: "x" }, '{"toJSON":"x"}'],
  ["what is given its key", [{ toJSON: (key: string) => `at ${key}` }], '["at 0"]'],
  ["an object of a class", new Point(), '{"x":1,"y":2}'],
  ["an object of a class with secrets of its own", new Money(), '{"amount":2.5,"currency":"EUR"}'],
  ["an error", new TypeError("bad"), '{"error":"TypeError","message":"bad"}'],
  ["an error of a class without a name", new NotFound("x"), '{"error":"NotFound","message":"x"}'],
  [
    "an error that has more to say",
    Object.assign(new Error("bad", { cause: new Error("why") }), { code: 7, toJSON: () => "all" }),
    '{"error":"Error","message":"bad"}',
  ],
  [
    "errors within",
    { b: [new RangeError("far")] },
    '{"b":[{"error":"RangeError","message":"far"}]}',
  ],
  ["an abort", new DOMException("gone", "AbortError"), '{"error":"AbortError","message":"gone"}'],
  [
    "an error with a secret",
    new Error("no login as https://me:hunter2@example.com"),
    '{"error":"Error","message":"no login as https://[redacted]@example.com"}',
  ],
  [
    "an error that may not be read",
    trapped(new Error("x"), "message"),
    '{"error":"Error","message":"a value without a text"}',
  ],
  ["bytes", Buffer.from("hello"), "[binary: 5 bytes]"],
  ["one byte", new Uint8Array(1), "[binary: 1 byte]"],
  ["no bytes", new ArrayBuffer(0), "[binary: 0 bytes]"],
  ["numbers of two bytes", new Uint16Array(617), "[binary: 1234 bytes]"],
  ["a view", new DataView(new ArrayBuffer(8), 2), "[binary: 6 bytes]"],
  ["shared bytes", new SharedArrayBuffer(3), "[binary: 3 bytes]"],
  ["a blob", new Blob(["abc"]), "[binary: 3 bytes]"],
  ["a file", new File(["abcd"], "a.txt"), "[binary: 4 bytes]"],
  ["bytes within", { data: [Buffer.alloc(2)] }, '{"data":["[binary: 2 bytes]"]}'],
  [
    "a map",
    new Map<string, unknown>([
      ["b", 1],
      ["a", new Map()],
    ]),
    '{"a":{},"b":1}',
  ],
  [
    "a map with other keys",
    new Map<unknown, unknown>([
      [2, "b"],
      ["a", 1],
    ]),
    '[[2,"b"],["a",1]]',
  ],
  ["a map with a key __proto__", new Map([["__proto__", 1]]), '{"__proto__":1}'],
  ["a set", new Set(["b", "a", { d: 1, c: 2 }]), '["b","a",{"c":2,"d":1}]'],
  [
    "values of another realm",
    FOREIGN,
    '[{},{"a":[1]},{"error":"RangeError","message":"far"},"1970-01-01T00:00:00.000Z","[binary: 3 bytes]","[binary: 4 bytes]"]',
  ],
];

function fail(): never {
  throw new Error("hands off");
}

function trapped<T extends object>(value: T, key: string): T {
  return Object.defineProperty(value, key, { get: fail, enumerable: true });
}

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = [value];
  return value;
}

function selfSame(): object {
  const cyclic: Record<string, unknown> = { name: "loop" };
  cyclic["self"] = [{ above: cyclic }];
  return cyclic;
}

function doubled(times: number): unknown {
  let value: unknown = 1;
  for (let time = 0; time < times; time += 1) value = [value, value];
  return value;
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/** An object whose getter returns such an object again, without end. */
function bottomless(): object {
  return {
    get next(): object {
      return bottomless();
    },
  };
}

class Endless extends Map {
  override *[Symbol.iterator](): MapIterator<[string, number]> {
    for (;;) yield ["a", 1];
  }
}

const SELF_IN_MAP = new Map<string, unknown>();
SELF_IN_MAP.set("self", new Set([SELF_IN_MAP]));

const HIDING = { toJSON: () => undefined };

const LOOPING_JSON = { toJSON: (): unknown => [LOOPING_JSON] };

const NOTHING_THROWN = {
  get a(): never {
    throw undefined;
  },
};

const CIRCULAR =
  "a value that does not contain itself, got a circular reference. Return plain data.";
const HANDS_OFF = "readable, got an error: hands off. Return plain data.";
const UNDEFINED = "readable, got an error: undefined. Return plain data.";
const REVOKED =
  "readable, got an error: Cannot perform 'IsArray' on a proxy that has been revoked. Return plain data.";
const PROMISE = "a value, got a promise. Await it.";
const TOO_DEEP =
  "a value of at most 500 levels, got more levels, or an endlessly nested value. Return less.";
const TOO_MANY = "a value of at most 1000000 parts, got more. Return less.";

function notShown(got: string): string {
  return `a value that JSON can express, got ${got}. Return plain data.`;
}

function fieldless(name: string): string {
  return `plain data, got an object of ${name} without fields. Return its contents: a string, an array or an object with fields.`;
}

/** The case, its value, the path of the fault, and the rest of the error message. */
const UNSHOWABLE: readonly (readonly [string, () => unknown, string, string])[] = [
  ["a function", () => fail, "", notShown("a function")],
  ["a symbol", () => Symbol("x"), "", notShown("a symbol")],
  ["nothing for JSON", () => HIDING, "", notShown("one whose toJSON returns nothing")],
  ["what contains itself", selfSame, ".self[0].above", CIRCULAR],
  ["a map that contains itself", () => SELF_IN_MAP, ".self[0]", CIRCULAR],
  ["a value whose JSON contains it", () => LOOPING_JSON, "[0]", CIRCULAR],
  ["a promise", () => ({ "a b": Promise.resolve(1) }), '["a b"]', PROMISE],
  ["a getter that throws", () => [trapped({}, "b")], "[0].b", HANDS_OFF],
  ["a toJSON that throws", () => [{ toJSON: fail }], "[0]", HANDS_OFF],
  ["what throws nothing", () => NOTHING_THROWN, ".a", UNDEFINED],
  ["a proxy that may not be looked at", () => ({ a: [revoked()] }), ".a[0]", REVOKED],
  ["a regular expression", () => /x/, "", fieldless("RegExp")],
  ["a response that was not read", () => [new Response("x")], "[0]", fieldless("Response")],
  ["an iterator", () => new Map().values(), "", fieldless("Iterator")],
  ["too many levels", () => nested(501), `${"[0]".repeat(21)}…`, TOO_DEEP],
  ["a hundred thousand levels", () => nested(100_000), `${"[0]".repeat(21)}…`, TOO_DEEP],
  ["levels without end", bottomless, `${".next".repeat(13)}…`, TOO_DEEP],
  ["gaps without end", () => Object.assign([], { length: 2 ** 32 - 1 }), "", TOO_MANY],
  ["a map without end", () => ({ a: new Endless() }), ".a", TOO_MANY],
];

proves(
  ["R114"],
  "formats every kind of value as one fixed text, and fails a call that returns a cycle",
  async () => {
    expect(TEXTS.map(([what, value]) => [what, formatToolResult(value)])).toEqual(
      TEXTS.map(([what, , text]) => [what, text]),
    );
    const values = [selfSame(), { a: 1 }];
    const tool = spyTool("look", () => values.shift());
    const call = { toolName: "look", arguments: {} };
    const { role } = soloist([{ calls: [call, call] }, says("Done.")], { tools: [tool] });
    const result = await newFixture().run(role);
    const executions = result.steps[0]?.tools.executions ?? [];
    expect([result.status, ...executions.map(({ type }) => type)]).toEqual([
      "completed",
      "failed",
      "succeeded",
    ]);
    expect(executions[0]?.text).toMatch(/circular/);
    expect(executions[1]?.text).toBe('{"a":1}');
  },
);

for (const [what, value, text] of TEXTS) {
  test(`formats ${what} as ${text === "" ? "an empty text" : text}`, () => {
    expect(formatToolResult(value)).toBe(text);
  });
}

describe("throws a TypeError with path and reason:", () => {
  test.each(UNSHOWABLE)("%s", (_what, make, place, message) => {
    const thrown = thrownBy(() => formatToolResult(make()));
    expect(thrown).toBeInstanceOf(TypeError);
    expect(getErrorName(thrown)).toBe("TypeError");
    expect(thrown.message).toBe(`Expected the result${place} to be ${message}`);
  });

  test("refuses a value whose shared parts expand to too many", () => {
    expect(() => formatToolResult(doubled(40))).toThrow(/at most 1000000 parts/);
  });
});

function thrownBy(act: () => unknown): Error {
  try {
    act();
  } catch (thrown) {
    if (thrown instanceof Error) return thrown;
  }
  return expect.fail("it threw no error");
}

test("formats five hundred levels and a million parts", () => {
  expect(formatToolResult(nested(500))).toBe(`${"[".repeat(500)}1${"]".repeat(500)}`);
  expect(formatToolResult(Array.from({ length: 1_000_000 }, () => 0))).toHaveLength(2_000_001);
});

test("omits values that JSON omits, and shows them as null in arrays", () => {
  expect(formatToolResult({ a: HIDING, b: [HIDING] })).toBe('{"b":[null]}');
});

test("reads each field once", () => {
  const reads: string[] = [];
  const value = {
    get b(): number {
      return reads.push("b");
    },
    get a(): number {
      return reads.push("a");
    },
  };
  expect(formatToolResult(value)).toBe('{"a":1,"b":2}');
  expect(reads).toEqual(["a", "b"]);
});

test("copies a result deeply and names it in error messages", () => {
  const inner = { b: [1] };
  const plain = copyPlainResult("it", { inner });
  inner.b.push(2);
  expect(plain).toEqual({ inner: { b: [1] } });
  expect([copyPlainResult("it", undefined), copyPlainResult("it", -0)]).toEqual([undefined, 0]);
  expect(() => copyPlainResult("it", { a: selfSame() })).toThrow(
    /^Expected it\.a\.self\[0\]\.above /,
  );
});

test("names an error by its name, or by its class if the name is unusable", () => {
  const nameless = trapped(new Error("x"), "name");
  const odd = Object.assign(new Error("x"), { name: "" });
  expect(
    [new TypeError("x"), new NotFound("x"), new Error("x"), odd, nameless].map(getErrorName),
  ).toEqual(["TypeError", "NotFound", "Error", "Error", "Error"]);
});

const RESULT: SubagentResult = {
  agentId: AgentIdSchema().parse("agent_2"),
  executionId: ExecutionIdSchema().parse("execution_2"),
  role: "reader",
  subagent: "reader#1",
  agentPath: "lead/reader#1",
  depth: 1,
  outcome: "completed",
  status: "completed",
  reason: { code: "completed", message: "Done.", data: {} },
  text: "Three files.",
  stepCount: 2,
  toolsUsed: {},
  usage: { own: callUsage(10, 5), descendants: callUsage(3, 2), total: callUsage(13, 7) },
  errors: [],
  toolErrors: [],
  metadata: {},
  removedTools: [],
  durationMs: 1,
};

test("reports status, text, steps and tokens of the subtree for a completed delegation", () => {
  expect(describeDelegation({ type: "ended", result: RESULT })).toBe(
    '{"outcome":"completed","steps":2,"subagent":"reader#1","text":"Three files.","totalTokens":20}',
  );
});

test("reports a typed result in place of the text", () => {
  const result = { ...RESULT, output: { files: 3 } };
  expect(JSON.parse(describeDelegation({ type: "ended", result }))).toEqual({
    subagent: "reader#1",
    outcome: "completed",
    output: { files: 3 },
    steps: 2,
    totalTokens: 20,
  });
});

test("reports the reason and the partial text of a delegation that did not complete", () => {
  const reason = { code: "step_limit", message: "All 2 steps are used.", data: {} };
  const usage = { own: NO_USAGE, descendants: NO_USAGE, total: NO_USAGE };
  const ends = { partial: "stopped", failed: "failed", cancelled: "cancelled" } as const;
  for (const outcome of ["partial", "failed", "cancelled"] as const) {
    const result = { ...RESULT, outcome, status: ends[outcome], reason, usage };
    expect(JSON.parse(describeDelegation({ type: "ended", result }))).toEqual({
      subagent: "reader#1",
      outcome,
      reason: "step_limit",
      explanation: "All 2 steps are used.",
      text: "Three files.",
      steps: 2,
      totalTokens: 0,
    });
  }
});

test("reports a delegation without output as no_output", () => {
  const result = { ...RESULT, outcome: "no_output", text: "" } as const;
  expect(describeDelegation({ type: "ended", result })).toBe(
    '{"explanation":"Done.","outcome":"no_output","reason":"completed","steps":2,"subagent":"reader#1","text":"","totalTokens":20}',
  );
});

test("reports a background subagent as running, with a note that its result will arrive", () => {
  const { agentId: childId, subagent, role } = RESULT;
  expect(describeDelegation({ type: "started", childId, subagent, role })).toBe(
    '{"note":"It runs in the background. Its result will arrive as a message.","status":"running","subagent":"reader#1"}',
  );
});

test("returns the message of a refusal unchanged", () => {
  const refusal = {
    code: "depth_limit",
    message: "Not started: do it yourself.",
    maximum: 3,
    current: 3,
  } as const;
  expect(describeDelegation({ type: "refused", refusal })).toBe("Not started: do it yourself.");
});
