// Goal: a text is a leak only if it repeats the arguments of a call exactly; any other text is
// kept.
// Method: tables of texts and calls.

import { describe, expect, test } from "vitest";

import { findLeakedCall } from "../../src/policies/argument-leak.ts";
import type { ToolCall } from "../../src/protocol/message.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";

function call(argumentsText: string, toolName = "look", callId = "call_1"): ToolCall {
  return { callId: CallIdSchema().parse(callId), toolName, argumentsText };
}

const WRAPPED = '{"name":"look","arguments":{"x":0}}';
const FENCE = "```";

const LEAKS: readonly (readonly [string, string, string])[] = [
  ["identical", '{"x":0}', '{"x":0}'],
  ["white space around it", ' \n{"x":0}\n\n', '{"x":0}'],
  ["white space within", '{\n  "x" : 0\n}', '{"x":0}'],
  ["keys in another order", '{"b":{"d":1,"c":2},"a":[]}', '{"a":[],"b":{"c":2,"d":1}}'],
  ["escapes that mean the same", '{"\\u0078":"\\u0041\\/"}', '{"x":"A/"}'],
  ["a number in another form", '{"x":1.0,"y":1e2}', '{"x":1,"y":100}'],
  ["a fence", `${FENCE}json\n{"x":0}\n${FENCE}`, '{"x":0}'],
  ["a fence without a language", `${FENCE}\n{"x":0}\n${FENCE}`, '{"x":0}'],
  ["a fence on one line", `${FENCE}JSON {"x":0}${FENCE}\n`, '{"x":0}'],
  ["no arguments", "{}", "{}"],
  ["no arguments at all", "{}", " "],
  ["null, true and a text", '{"a":null,"b":true,"c":"x"}', '{"a":null,"b":true,"c":"x"}'],
  ["a zero below zero on both sides", '{"x":-0}', '{"x":-0.0}'],
  ["a key named __proto__", '{"__proto__":{"a":1}}', '{"__proto__":{"a":1}}'],
  ["a key twice, of which the last counts", '{"x":1,"x":0}', '{"x":0}'],
  ["name and arguments", WRAPPED, '{"x":0}'],
  ["name and arguments in a fence", `${FENCE}json\n${WRAPPED}\n${FENCE}`, '{"x":0}'],
  ["name and no arguments", '{"arguments":{},"name":"look"}', ""],
  ["arguments that have a name and arguments", WRAPPED, WRAPPED],
];

const KEPT: readonly (readonly [string, string, string])[] = [
  ["0 is not false", '{"x":0}', '{"x":false}'],
  ["0 is not a text", '{"x":0}', '{"x":"0"}'],
  ["0 is not null", '{"x":0}', '{"x":null}'],
  ["an empty list is not an empty object", '{"x":[]}', '{"x":{}}'],
  ["an empty text is not false", '{"x":""}', '{"x":false}'],
  ["the order of a list", '{"x":[1,2]}', '{"x":[2,1]}'],
  ["a list that is longer", '{"x":[1,2]}', '{"x":[1]}'],
  ["a key more", '{"x":0,"y":1}', '{"x":0}'],
  ["a key less", '{"x":0}', '{"x":0,"y":1}'],
  ["another key", '{"y":0}', '{"x":0}'],
  ["a key that objects have anyway", '{"toString":0}', '{"x":0}'],
  ["__proto__ is a key like any other", '{"__proto__":{}}', "{}"],
  ["__proto__ is not what objects come from", '{"__proto__":{}}', '{"x":0}'],
  ["words before it", 'I call look with {"x":0}', '{"x":0}'],
  ["words after it", '{"x":0} now', '{"x":0}'],
  ["twice", '{"x":0}{"x":0}', '{"x":0}'],
  ["a list of arguments", '[{"x":0}]', '{"x":0}'],
  ["a fence that is not closed", `${FENCE}json\n{"x":0}`, '{"x":0}'],
  ["a fence of another language", `${FENCE}python\n{"x":0}\n${FENCE}`, '{"x":0}'],
  ["two fences", `${FENCE}{"x":0}${FENCE}\n${FENCE}{"x":0}${FENCE}`, '{"x":0}'],
  ["no text", "", ""],
  ["a fence around nothing", `${FENCE}${FENCE}`, ""],
  ["part of a fence", `${FENCE}${FENCE.slice(1)}`, ""],
  ["text that is no JSON", "{x:0}", "{x:0}"],
  ["arguments that are no JSON", '{"x":0}', '{"x":0'],
  ["no object: a number", "5", "5"],
  ["no object: null", "null", "null"],
  ["no object: a list", "[1]", "[1]"],
  ["numbers that cannot be distinguished", '{"id":9007199254740993}', '{"id":9007199254740992}'],
  ["numbers beyond all bounds", '{"x":1e999}', '{"x":1e998}'],
  ["another name", '{"name":"write","arguments":{"x":0}}', '{"x":0}'],
  ["a name and other arguments", '{"name":"look","arguments":{"x":1}}', '{"x":0}'],
  ["a name, arguments and more", '{"name":"look","arguments":{"x":0},"id":1}', '{"x":0}'],
  ["a name and arguments as a text", '{"name":"look","arguments":"{\\"x\\":0}"}', '{"x":0}'],
  ["a name alone", '{"name":"look"}', "{}"],
];

describe("a text that repeats the arguments of a call", () => {
  test.each(LEAKS)("is a leak: %s", (_what, text, argumentsText) => {
    const leaked = call(argumentsText);
    expect(findLeakedCall({ text, toolCalls: [leaked] })).toBe(leaked);
  });
});

describe("a text that differs from the arguments of a call", () => {
  test.each(KEPT)("is kept: %s", (_what, text, argumentsText) => {
    expect(findLeakedCall({ text, toolCalls: [call(argumentsText)] })).toBe(undefined);
  });
});

test("finds no leak in a reply without calls", () => {
  expect(findLeakedCall({ text: "{}", toolCalls: [] })).toBe(undefined);
});

test("finds the first of several calls that the text repeats", () => {
  const toolCalls = [
    call("{broken", "look", "call_1"),
    call('{"x":1}', "look", "call_2"),
    call('{"x":0}', "write", "call_3"),
    call('{"x":0}', "look", "call_4"),
  ];
  expect(findLeakedCall({ text: '{"x":0}', toolCalls })?.callId).toBe("call_3");
  expect(findLeakedCall({ text: WRAPPED, toolCalls })?.callId).toBe("call_4");
});

function within(levels: number): string {
  return `{"x":${"[".repeat(levels)}${"]".repeat(levels)}}`;
}

function long(length: number): string {
  return `{"x":"${"x".repeat(length - 8)}"}`;
}

test("keeps texts that are nested too deeply or are too long", () => {
  const leaks = (text: string): boolean =>
    findLeakedCall({ text, toolCalls: [call(text)] }) !== undefined;
  expect([within(199), within(200), within(1_000_000)].map(leaks)).toEqual([true, false, false]);
  expect([long(1_000_000), long(1_000_001)].map(leaks)).toEqual([true, false]);
  const wrapped = `{"name":"look","arguments":${within(199)}}`;
  expect(findLeakedCall({ text: wrapped, toolCalls: [call(within(199))] })).toBeDefined();
});
