// Goal: the record of a child's inherited context equals its first request, to the character.
// Method: real runs; counts and hashes of the manifest compared with the first request, for one
// rich policy and for random ones.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import type { SubagentContextPolicy } from "../../../src/policies/subagent-context-policy.ts";
import { computeJsonHash, type InheritanceRecord } from "../../../src/protocol/context-manifest.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { openTelemetry } from "../../../src/telemetry/otel.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { recorder } from "../../support/telemetry/recorded-spans.ts";
import { calls, part, spawn, tool, use, type Part } from "../../harness/scripted-agents.ts";

const look = tool("look", () => "Seen.");
const breaks = tool("breaks", () => {
  throw new Error("Out of order.");
});

/** A lead that looks, fails, delegates to a scout and then to a helper with the scout's result. */
function leadOf(context: Partial<SubagentContextPolicy>): {
  readonly lead: Part;
  readonly helper: Part;
} {
  const scout = part("scout", () => says("Scouted."));
  const helper = part("helper", () => says("Helped."), { tools: [look, breaks] });
  const script = [
    calls(use("look"), use("breaks")),
    calls(spawn("scout", "Look around.")),
    calls({
      toolName: "SpawnSubagent",
      arguments: { role: "helper", task: "Help.", includeResultsFrom: ["scout#1"] },
    }),
    says("Done."),
  ];
  const subagents = [scout.role, helper.role];
  return {
    helper,
    lead: part("lead", script, { subagents, tools: [look, breaks], contextPolicy: context }),
  };
}

/** Returns the inheritance record in the spawn event of the helper. */
function manifestOf(s: Fixture): InheritanceRecord {
  const event = s.sink.ofType("subagent.spawned").find(({ role }) => role === "helper");
  return event?.inherited ?? expect.fail("the helper was not started");
}

function firstRequest({ model }: Part): readonly Message[] {
  return model.requests[0]?.messages ?? [];
}

const METADATA = { repository: "espalier", secret: 1 };

function framedNames(text: string): readonly string[] {
  return [...text.matchAll(/<subagent-result name="([^"]+)"/g)].map(([, name = ""]) => name);
}

/** Returns the parts of a manifest that a request alone determines. */
function readOff(messages: readonly Message[], inherited: number): object {
  const [kept, injected] = [messages.slice(1, 1 + inherited), messages.slice(1 + inherited, -1)];
  const texts = injected.map(({ text }) => text);
  const has = (start: string): string => texts.find((text) => text.startsWith(start)) ?? "";
  return {
    messages: { count: kept.length, hash: computeJsonHash(kept) },
    injections: { count: injected.length, hash: computeJsonHash(injected) },
    siblingResults: framedNames(has("Summaries of the results of other subagents")),
    results: framedNames(has("Results of other subagents")),
    failedAttempts: has("Failed calls of the agent").split("\n- ").length - 1,
    parentConstraints: has("The limits of the agent") !== "",
  };
}

proves(["X13"], "the manifest equals the child's first request under a rich policy", async () => {
  const { lead, helper } = leadOf({
    inheritMessages: true,
    messageWindowSize: 3,
    injectedTexts: ["Hint one.", "Hint two."],
    metadataKeys: ["repository"],
    includeSiblingResults: true,
    includeParentConstraints: true,
    includeFailedAttempts: true,
    deniedTools: ["breaks"],
  });
  const s = newFixture();
  const result = await s.run(lead.role, { metadata: METADATA });
  const messages = firstRequest(helper);
  const manifest = manifestOf(s);
  expect(messages.map((one) => (one.role === "user" ? one.origin : one.role))).toEqual([
    "system",
    "assistant",
    "tool",
    ...Array.from({ length: 6 }, () => "injected"),
    "task",
  ]);
  expect(manifest).toEqual({
    messages: { count: 2, hash: computeJsonHash(messages.slice(1, 3)) },
    injections: { count: 6, hash: computeJsonHash(messages.slice(3, 9)) },
    metadataKeys: ["repository"],
    siblingResults: [],
    results: ["scout#1"],
    failedAttempts: 1,
    parentConstraints: true,
    removedTools: [{ toolName: "breaks", rule: "denied", source: "lead" }],
    tightened: [],
  });
  expect(manifest).toMatchObject(readOff(messages, 2));
  expect(result.agents[2]?.metadata).toEqual({ repository: "espalier" });
  expect(helper.model.requests[0]?.tools.map(({ name }) => name)).toEqual(["look"]);
});

proves(
  ["X13", "R127"],
  "the manifest is empty by default except for results requested by name",
  async () => {
    const { lead, helper } = leadOf({});
    const s = newFixture();
    await s.run(lead.role, { metadata: METADATA });
    const injected = firstRequest(helper).slice(1, 2);
    const [scout] = s.sink.ofType("subagent.spawned");
    const nothing = {
      messages: { count: 0, hash: computeJsonHash([]) },
      injections: { count: 0, hash: computeJsonHash([]) },
      metadataKeys: [],
      siblingResults: [],
      results: [],
      failedAttempts: 0,
      parentConstraints: false,
      removedTools: [],
      tightened: [],
    };
    expect(scout?.inherited).toEqual(nothing);
    expect(manifestOf(s)).toEqual({
      ...nothing,
      injections: { count: 1, hash: computeJsonHash(injected) },
      results: ["scout#1"],
    });
  },
);

const policies: fc.Arbitrary<Partial<SubagentContextPolicy>> = fc
  .record({
    inheritMessages: fc.boolean(),
    messageWindowSize: fc.nat({ max: 8 }),
    injectedTexts: fc.array(fc.constantFrom("Be brief.", "Ünï 🌳", "<subagent-result")),
    inheritMetadata: fc.boolean(),
    includeSiblingResults: fc.boolean(),
    includeParentConstraints: fc.boolean(),
    includeFailedAttempts: fc.boolean(),
    allowedTools: fc.option(fc.subarray(["look", "breaks"]), { nil: undefined }),
    deniedTools: fc.subarray(["look", "breaks"]),
    reportRemovedTools: fc.boolean(),
  })
  .map(({ messageWindowSize, allowedTools, ...policy }) => ({
    ...policy,
    ...(policy.inheritMessages ? { messageWindowSize } : {}),
    ...(allowedTools === undefined ? {} : { allowedTools }),
  }));

proves(
  ["X13", "R132"],
  "the manifest equals the child's first request under random policies",
  async () => {
    await fc.assert(
      fc.asyncProperty(policies, async (policy) => {
        const { lead, helper } = leadOf(policy);
        const s = newFixture();
        const result = await s.run(lead.role, { metadata: METADATA });
        const manifest = manifestOf(s);
        expect(manifest).toMatchObject(readOff(firstRequest(helper), manifest.messages.count));
        const report = result.agents.find(({ role }) => role === "helper");
        expect(manifest.metadataKeys).toEqual(Object.keys(report?.metadata ?? {}));
        expect(manifest.removedTools).toEqual(report?.removedTools);
        const offered = helper.model.requests[0]?.tools.map(({ name }) => name);
        const gone = new Set(manifest.removedTools.map(({ toolName }) => toolName));
        expect(offered).toEqual(["look", "breaks"].filter((name) => !gone.has(name)));
      }),
      { numRuns: 150 },
    );
  },
);

proves(["X13", "R132"], "the span of the delegation contains the manifest", async () => {
  const { tracer, spans } = recorder();
  const { lead } = leadOf({
    inheritMessages: true,
    messageWindowSize: 2,
    metadataKeys: ["repository"],
    includeFailedAttempts: true,
    allowedTools: ["look"],
    deniedTools: ["look"],
  });
  const s = newFixture({ tracing: openTelemetry({ tracer }) });
  await s.run(lead.role, { metadata: METADATA });
  const { messages, injections } = manifestOf(s);
  const span = spans().find(({ name }) => name === "spawn helper#1");
  const attributes = Object.entries(span?.attributes ?? {}).filter(([name]) =>
    /^espalier\.spawn\.(?!role|agent|outcome|mode)/.test(name),
  );
  expect(Object.fromEntries(attributes)).toEqual({
    "espalier.spawn.inherited_messages": 2,
    "espalier.spawn.inherited_hash": messages.hash,
    "espalier.spawn.injected_messages": 3,
    "espalier.spawn.injected_hash": injections.hash,
    "espalier.spawn.metadata_keys": ["repository"],
    "espalier.spawn.results": ["scout#1"],
    "espalier.spawn.failed_attempts": 1,
    "espalier.spawn.parent_constraints": false,
    "espalier.spawn.removed_tools": ["look", "breaks"],
    "espalier.spawn.removal_rules": ["conflict", "not_allowed"],
    "espalier.spawn.removal_sources": ["lead", "lead"],
  });
});

proves(
  ["X13", "X16"],
  "the manifest records limits that the role requested and did not get",
  async () => {
    const leaf = part("leaf", [says("Leaf.")], {
      limits: { maxDepth: 9, maxBreadthPerParent: 2, maxTotalSubagents: 50 },
    });
    const middle = part("middle", [calls(spawn("leaf")), says("Middle.")], {
      subagents: [leaf.role],
      limits: { maxDepth: 2 },
    });
    const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
      subagents: [middle.role],
    });
    const s = newFixture();
    await s.run(lead.role);
    expect(
      s.sink.ofType("subagent.spawned").map(({ inherited: context }) => context.tightened),
    ).toEqual([
      [],
      [
        { field: "limits.maxDepth", requested: 9, granted: 2, source: "lead/middle#1" },
        { field: "limits.maxTotalSubagents", requested: 50, granted: 10, source: "lead/middle#1" },
      ],
    ]);
  },
);

test("a continued child does not get a second manifest", async () => {
  const helper = part("helper", [says("One."), says("Two.")], { tools: [look] });
  const again = {
    toolName: "SpawnSubagent",
    arguments: { role: "helper", task: "More.", continue: "helper#1" },
  };
  const lead = part("lead", [calls(spawn("helper")), calls(again), says("Done.")], {
    subagents: [helper.role],
    contextPolicy: { deniedTools: ["look"] },
  });
  const s = newFixture();
  await s.run(lead.role);
  expect(s.sink.ofType("subagent.spawned")).toHaveLength(1);
  expect(helper.model.requests.map(({ tools }) => tools)).toEqual([[], []]);
  expect(helper.model.requests[1]?.messages.slice(0, 3)).toEqual(firstRequest(helper));
});
