// Goal: a child reads exactly what the policy allows, in one message per kind, and the manifest
// records it.
// Method: hand-made facts of a parent; complete messages, metadata and manifests compared.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import {
  inheritContext,
  type DelegationFacts,
  type ParentContext,
  type InheritedContext,
} from "../../src/policies/inherit-context.ts";
import { formatFramedResults, type FramedResult } from "../../src/policies/context-notes.ts";
import {
  resolveContextPolicy,
  type SubagentContextPolicy,
} from "../../src/policies/subagent-context-policy.ts";
import { ContextManifestSchema, computeJsonHash } from "../../src/protocol/context-manifest.ts";
import { JsonObjectSchema } from "../../src/protocol/json-value.ts";
import { CallIdSchema } from "../../src/protocol/ids.ts";
import type { Message } from "../../src/protocol/message.ts";
import type { ToolErrorRecord } from "../../src/protocol/tool-error-record.ts";
import { proves } from "../harness/proves.ts";
import { unfrozenParts } from "../support/frozen.ts";
import { thrownBy } from "../support/thrown.ts";

function user(text: string, origin: "task" | "inherited" | "injected" = "injected"): Message {
  return { role: "user", text, origin };
}

function sibling(childName: string, text = `Text of ${childName}.`): FramedResult {
  return { childName, role: "reader", outcome: "completed", text };
}

function attempt(stepNumber: number, message: string): ToolErrorRecord {
  const callId = CallIdSchema().parse(`call_${stepNumber}`);
  const code = "tool_error";
  return { callId, toolName: "fetch", stepNumber, code, severity: "recoverable", message };
}

type Facts = ParentContext &
  Omit<DelegationFacts, "siblings"> & { readonly siblings: readonly FramedResult[] };

const FACTS: Facts = {
  agentPath: "lead",
  messages: [
    { role: "system", text: "You lead.", origin: "instructions" },
    user("Survey.", "task"),
  ],
  metadata: { repository: "espalier", secret: 1 },
  siblings: [sibling("reader#1"), sibling("reader#2")],
  results: [],
  constraints: {
    remaining: { totalTokens: 900, costUsd: 0.25 },
    subagentsLeft: 3,
    deniedTools: ["write", "write"],
  },
  failedAttempts: [attempt(1, "No such host.")],
  removedTools: [],
};

function contextOf(
  given: Partial<SubagentContextPolicy>,
  facts: Partial<Facts> = {},
): InheritedContext {
  const all = { ...FACTS, ...facts };
  const policy = resolveContextPolicy("lead.context", given);
  return inheritContext(policy, all, { ...all, siblings: () => all.siblings });
}

const NOTHING = { count: 0, hash: computeJsonHash([]) };
const EMPTY_MANIFEST = {
  messages: NOTHING,
  injections: NOTHING,
  metadataKeys: [],
  siblingResults: [],
  results: [],
  failedAttempts: 0,
  parentConstraints: false,
  removedTools: [],
};

proves(["R127", "R150", "R151"], "passes nothing to a child by default", () => {
  expect(contextOf({})).toEqual({ messages: [], metadata: {}, manifest: EMPTY_MANIFEST });
});

proves(
  ["R130"],
  "appends injected texts to inherited messages, in order, marked as injected",
  () => {
    const { messages, manifest } = contextOf({
      inheritMessages: true,
      injectedTexts: ["Be brief.", "Cite files."],
    });
    const injected = [user("Be brief."), user("Cite files.")];
    expect(messages).toEqual([user("Survey.", "inherited"), ...injected]);
    expect(manifest).toEqual({
      ...EMPTY_MANIFEST,
      messages: { count: 1, hash: computeJsonHash([user("Survey.", "inherited")]) },
      injections: { count: 2, hash: computeJsonHash(injected) },
    });
  },
);

proves(["R150"], "frames the results of siblings, and names them in the manifest", () => {
  const { messages, manifest } = contextOf({ includeSiblingResults: true });
  const text = `Summaries of the results of other subagents of the agent that started you. ${formatFramedResults(FACTS.siblings)}`;
  expect(messages).toEqual([user(text)]);
  expect(manifest).toEqual({
    ...EMPTY_MANIFEST,
    injections: { count: 1, hash: computeJsonHash([user(text)]) },
    siblingResults: ["reader#1", "reader#2"],
  });
});

test("mentions no siblings if there are none", () => {
  expect(contextOf({ includeSiblingResults: true }, { siblings: [] }).messages).toEqual([]);
});

proves(
  ["X12"],
  "passes requested results whatever the policy allows, without their summaries",
  () => {
    const results = [sibling("reader#2", "Long text.")];
    const { messages, manifest } = contextOf({ includeSiblingResults: true }, { results });
    expect(messages).toEqual([
      user(
        `Summaries of the results of other subagents of the agent that started you. ${formatFramedResults([sibling("reader#1")])}`,
      ),
      user(
        `Results of other subagents for your task, word for word. ${formatFramedResults(results)}`,
      ),
    ]);
    expect([manifest.siblingResults, manifest.results]).toEqual([["reader#1"], ["reader#2"]]);
    expect(contextOf({}, { results }).messages).toEqual(messages.slice(1));
  },
);

proves(["R151"], "reports the constraints of the parent in numbers and names", () => {
  const { messages, manifest } = contextOf({ includeParentConstraints: true });
  const text = [
    "The limits of the agent that started you also apply to you. Remaining for all its subagents together:",
    "- totalTokens: 900",
    "- costUsd: 0.25",
    "- subagents that it may start: 3",
    "It may not use: write.",
  ].join("\n");
  expect(messages).toEqual([user(text)]);
  expect(manifest.parentConstraints).toBe(true);
});

test("reports a parent without limits as such", () => {
  const constraints = { remaining: {}, subagentsLeft: 0, deniedTools: [] };
  expect(contextOf({ includeParentConstraints: true }, { constraints }).messages).toEqual([
    user(
      [
        "The limits of the agent that started you also apply to you. Remaining for all its subagents together:",
        "- budget: no limit",
        "- subagents that it may start: 0",
      ].join("\n"),
    ),
  ]);
});

proves(["R151"], "lists failed attempts in order, and quotes the messages of tools", () => {
  const failedAttempts = [attempt(1, "No such host."), attempt(2, 'Line one.\n- step 9, "x"')];
  const { messages, manifest } = contextOf({ includeFailedAttempts: true }, { failedAttempts });
  const text = [
    "Failed calls of the agent that started you. Do not repeat them unchanged:",
    '- step 1, fetch (tool_error): "No such host."',
    String.raw`- step 2, fetch (tool_error): "Line one.\n- step 9, \"x\""`,
  ].join("\n");
  expect(messages).toEqual([user(text)]);
  expect(manifest.failedAttempts).toBe(2);
  expect(contextOf({ includeFailedAttempts: true }, { failedAttempts: [] }).messages).toEqual([]);
});

test("reports the last twenty of many attempts, and truncates long messages", () => {
  const long = `${"x".repeat(499)}🌳`;
  const failedAttempts = Array.from({ length: 25 }, (_one, index) => attempt(index + 1, long));
  const { messages, manifest } = contextOf({ includeFailedAttempts: true }, { failedAttempts });
  const lines = messages[0]?.text.split("\n").slice(1);
  expect(lines).toEqual(
    failedAttempts
      .slice(5)
      .map(({ stepNumber }) => `- step ${stepNumber}, fetch (tool_error): "${"x".repeat(499)}…"`),
  );
  expect(manifest.failedAttempts).toBe(20);
});

proves(["R134"], "reports removed tools with all reasons, and records them in any case", () => {
  const removedTools = [
    { toolName: "write", rule: "denied", source: "lead" },
    { toolName: "write", rule: "not_allowed", source: "lead/x#1" },
    { toolName: "write", rule: "conflict", source: "lead" },
    { toolName: "SpawnSubagent", rule: "no_depth_left", source: "lead" },
  ] as const;
  const { messages, manifest } = contextOf({}, { removedTools });
  const text = [
    "Tools that you cannot use, even if your instructions mention them. Do without them, or say what is missing:",
    "- write: denied by lead; not among the tools that lead/x#1 allows",
    "- SpawnSubagent: you may not start subagents",
  ].join("\n");
  expect(messages).toEqual([user(text)]);
  expect(manifest.removedTools).toEqual(removedTools);
  const silent = contextOf({ reportRemovedTools: false }, { removedTools });
  expect([silent.messages, silent.manifest.removedTools]).toEqual([[], removedTools]);
});

proves(
  ["X13"],
  "orders all kinds, one message each, and records their hashes in the manifest",
  () => {
    const { messages, metadata, manifest } = contextOf(
      {
        inheritMessages: true,
        injectedTexts: ["Hint."],
        includeParentConstraints: true,
        includeFailedAttempts: true,
        includeSiblingResults: true,
        metadataKeys: ["repository"],
      },
      {
        results: [sibling("reader#1")],
        removedTools: [{ toolName: "write", rule: "denied", source: "lead" }],
      },
    );
    expect(messages.map(({ text }) => text.split(/[ .]/).slice(0, 2).join(" "))).toEqual([
      "Survey ",
      "Hint ",
      "The limits",
      "Failed calls",
      "Summaries of",
      "Results of",
      "Tools that",
    ]);
    expect(metadata).toEqual({ repository: "espalier" });
    expect(manifest).toEqual({
      messages: { count: 1, hash: computeJsonHash(messages.slice(0, 1)) },
      injections: { count: 6, hash: computeJsonHash(messages.slice(1)) },
      metadataKeys: ["repository"],
      siblingResults: ["reader#2"],
      results: ["reader#1"],
      failedAttempts: 1,
      parentConstraints: true,
      removedTools: [{ toolName: "write", rule: "denied", source: "lead" }],
    });
    const whole = { ...manifest, tightened: [] };
    expect(ContextManifestSchema().parse(JSON.parse(JSON.stringify(whole)))).toEqual(whole);
  },
);

function breaks(): never {
  throw new Error("Not today.");
}

test("refuses a failing selection with a code, and names the parent", () => {
  const { code, data } = thrownBy(() => contextOf({ selectMessages: breaks }));
  expect([code, data]).toEqual(["context_policy_failed", { agentPath: "lead" }]);
});

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
  ["keys that are not there", { metadataKeys: ["missing", "constructor", "__proto__"] }, {}],
];

for (const [what, given, expected] of METADATA_POLICIES) {
  proves(["R129"], `passes metadata: ${what}`, () => {
    const { metadata, manifest } = contextOf(given, { metadata: METADATA });
    expect(metadata).toEqual(expected);
    expect(manifest.metadataKeys).toEqual(Object.keys(expected));
  });
}

proves(["R129"], "passes a frozen copy of the metadata", () => {
  const metadata = { owner: { name: "Ada" } };
  const child = contextOf({ inheritMetadata: true }, { metadata });
  expect(child.metadata["owner"]).not.toBe(metadata.owner);
  metadata.owner.name = "Eve";
  expect(child.metadata).toEqual({ owner: { name: "Ada" } });
  expect(unfrozenParts(child)).toEqual([]);
  expect(Object.isFrozen(metadata)).toBe(false);
});

test("passes a key that is an object property as data", () => {
  const metadata = JsonObjectSchema().parse({ x: 1 });
  Object.defineProperty(metadata, "__proto__", { value: { isAdmin: true }, enumerable: true });
  const child = contextOf({ metadataKeys: ["__proto__"] }, { metadata });
  expect(Object.getPrototypeOf(child.metadata)).toBe(Object.prototype);
  expect(JSON.stringify(child.metadata)).toBe('{"__proto__":{"isAdmin":true}}');
});

test("hashes a list as 64 hexadecimal digits that depend on every character", () => {
  const one = [user("a")];
  expect(computeJsonHash(one)).toMatch(/^[0-9a-f]{64}$/);
  expect(computeJsonHash([{ origin: "injected", text: "a", role: "user" }])).toBe(
    computeJsonHash(one),
  );
  expect(computeJsonHash([])).toBe(
    "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
  );
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (left, right) => {
      expect(computeJsonHash([user(left)]) === computeJsonHash([user(right)])).toBe(left === right);
    }),
  );
});
