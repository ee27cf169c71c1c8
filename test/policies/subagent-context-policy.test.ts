// Goal: a policy is either accepted, or refused with the name of the invalid field.
// Method: every field with every kind of wrong value, and every contradiction.

import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import {
  resolveContextPolicy,
  type SubagentContextPolicy,
} from "../../src/policies/subagent-context-policy.ts";
import { proves } from "../harness/proves.ts";
import { unfrozenParts } from "../support/frozen.ts";
import { thrownBy } from "../support/thrown.ts";

const DEFAULTS: SubagentContextPolicy = {
  inheritMessages: false,
  messageWindowSize: 0,
  selectMessages: undefined,
  inheritMetadata: false,
  metadataKeys: undefined,
  injectedTexts: [],
  includeSiblingResults: false,
  includeParentConstraints: false,
  includeFailedAttempts: false,
  allowedTools: undefined,
  deniedTools: [],
  reportRemovedTools: true,
};

proves(["R127", "R131"], "passes nothing on and removes nothing by default", () => {
  expect(resolveContextPolicy("lead.context", {})).toEqual(DEFAULTS);
});

test("returns a frozen copy", () => {
  const keys = ["a"];
  const tools = ["read"];
  const policy = resolveContextPolicy("lead.context", {
    metadataKeys: keys,
    injectedTexts: ["Hint."],
    allowedTools: tools,
    deniedTools: tools,
  });
  keys.push("b");
  tools.push("write");
  expect(policy).toEqual({
    ...DEFAULTS,
    inheritMetadata: true,
    metadataKeys: ["a"],
    injectedTexts: ["Hint."],
    allowedTools: ["read"],
    deniedTools: ["read"],
  });
  expect(unfrozenParts(policy)).toEqual([]);
});

test("resolves a resolved policy to an equal one", () => {
  const policies: readonly Partial<SubagentContextPolicy>[] = [
    {},
    { selectMessages: (messages) => messages },
    { inheritMessages: true, messageWindowSize: 2 },
    { metadataKeys: [], allowedTools: [], deniedTools: ["read"], reportRemovedTools: false },
  ];
  for (const given of policies) {
    const policy = resolveContextPolicy("lead.context", given);
    expect(resolveContextPolicy("lead.context", policy)).toEqual(policy);
  }
});

test("inherits messages with a selection of the user's", () => {
  const selectMessages = pick;
  const expected = { ...DEFAULTS, inheritMessages: true, selectMessages };
  expect(resolveContextPolicy("lead.context", { selectMessages })).toEqual(expected);
  const said = { selectMessages, inheritMessages: true, messageWindowSize: 0 };
  expect(resolveContextPolicy("lead.context", said)).toEqual(expected);
});

test("accepts a tool in both lists, which is denied and reported", () => {
  const both = { allowedTools: ["read", "write"], deniedTools: ["write"] };
  expect(resolveContextPolicy("lead.context", both)).toEqual({ ...DEFAULTS, ...both });
});

const pick = (): readonly never[] => [];

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
  [
    "a window that is no number",
    { inheritMessages: true, messageWindowSize: Number.NaN },
    "messageWindowSize",
    "NaN",
  ],
  [
    "a window without end",
    { inheritMessages: true, messageWindowSize: Infinity },
    "messageWindowSize",
    "Infinity",
  ],
  [
    "a window in words",
    { inheritMessages: true, messageWindowSize: "2" },
    "messageWindowSize",
    '"2"',
  ],
  ["a flag in words", { inheritMessages: "yes" }, "inheritMessages", '"yes"'],
  ["a number for a flag", { inheritMetadata: 1 }, "inheritMetadata", "1"],
  ["siblings by number", { includeSiblingResults: 3 }, "includeSiblingResults", "3"],
  [
    "constraints by list",
    { includeParentConstraints: ["steps"] },
    "includeParentConstraints",
    "an array",
  ],
  ["attempts by number", { includeFailedAttempts: 0 }, "includeFailedAttempts", "0"],
  ["null for a flag", { reportRemovedTools: null }, "reportRemovedTools", "null"],
  ["a selection that is a list", { selectMessages: [] }, "selectMessages", "an array"],
  ["no selection, said with null", { selectMessages: null }, "selectMessages", "null"],
  [
    "a selection with a window",
    { selectMessages: pick, messageWindowSize: 2 },
    "messageWindowSize",
    "2",
  ],
  [
    "a selection with a window and inheritance",
    { selectMessages: pick, inheritMessages: true, messageWindowSize: 2 },
    "messageWindowSize",
    "2",
  ],
  [
    "a selection of what is not shown",
    { selectMessages: pick, inheritMessages: false },
    "selectMessages",
    "a function",
  ],
  [
    "keys of metadata that is not inherited",
    { inheritMetadata: false, metadataKeys: ["a"] },
    "metadataKeys",
    "an array",
  ],
  ["an empty injection", { injectedTexts: [""] }, "injectedTexts[0]", '""'],
  ["an injection that is no text", { injectedTexts: ["a", 5] }, "injectedTexts[1]", "5"],
  [
    "a hole in a list",
    { injectedTexts: Array.from({ length: 1 }) },
    "injectedTexts[0]",
    "undefined",
  ],
  ["an injection without a list", { injectedTexts: "Be brief." }, "injectedTexts", '"Be brief."'],
  ["a blank key", { metadataKeys: [" "] }, "metadataKeys[0]", '" "'],
  ["a key that is null", { metadataKeys: [null] }, "metadataKeys[0]", "null"],
  ["a key without a list", { metadataKeys: "owner" }, "metadataKeys", '"owner"'],
  ["a tool without a list", { deniedTools: "write" }, "deniedTools", '"write"'],
  ["null for no tools", { allowedTools: null }, "allowedTools", "null"],
  ["a tool by itself", { allowedTools: [{ name: "read" }] }, "allowedTools[0]", "an object"],
  ["a wildcard", { deniedTools: ["read", "write_*"] }, "deniedTools[1]", '"write_*"'],
  ["an empty name", { allowedTools: [""] }, "allowedTools[0]", '""'],
  ["a tool twice", { deniedTools: ["write", "read", "write"] }, "deniedTools[2]", '"write"'],
  [
    "the tool by which an agent ends",
    { deniedTools: ["read", "Finish"] },
    "deniedTools[1]",
    '"Finish"',
  ],
  ["a field that does not exist", { inheritMessage: true }, "inheritMessage", '"inheritMessage"'],
  ["a field of the prototype", { constructor: 1 }, "constructor", '"constructor"'],
];

for (const [what, given, field, got] of BAD) {
  test(`refuses ${what} by name`, () => {
    const { code, data, message } = thrownBy(() => resolveContextPolicy("lead.context", given));
    expect([code, data["field"], data["got"]]).toEqual([
      "invalid_argument",
      `lead.context.${field}`,
      got,
    ]);
    expect(message).toMatch(/^Expected lead\.context\.\S+ to be .+, got .+\. \S.+\.$/s);
  });
}

test("refuses values that are not a policy", () => {
  const strange = [null, [], "none", new Map(), Promise.resolve({})];
  const codes = strange.map(
    (given) =>
      thrownBy(() => Reflect.apply(resolveContextPolicy, undefined, ["lead.context", given])).code,
  );
  expect(codes).toEqual(strange.map(() => "invalid_argument"));
});

test("documents every option, and no others", () => {
  const [, options = ""] = readFileSync("docs/context.md", "utf8").split("| option ");
  const table = options.split("\n\n")[0] ?? "";
  const rows = [...table.matchAll(/^\| `(\w+)`(?! of)/gm)].map(([, name]) => name);
  expect(new Set(rows)).toEqual(new Set(Object.keys(DEFAULTS)));
});
