// Goal: a subagent starts with its instructions, its task, and exactly those parts of its parent's
// context that the policy names.
// Method: real runs with scripted models; the first request of a child compared in full.

import { expect, test } from "vitest";

import { isRecord, type JsonObject } from "../../../src/kernel/json.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import type { Message } from "../../../src/protocol/message.ts";
import type { SubagentContextPolicy } from "../../../src/policies/subagent-context-policy.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { calls, part, spawn, tool, use } from "../../harness/scripted-agents.ts";

const look = tool("look", ({ callId }) => `Seen by ${callId}.`);

proves(["R127"], "a child sees only its own instructions and its task by default", async () => {
  const helper = part("helper", [says("Ok.")], { temperature: 0.5, maxOutputTokens: 99 });
  const script = [calls(use("look")), calls(spawn("helper", "Help me.")), says("Done.")];
  const lead = part("lead", script, { subagents: [helper.role], tools: [look] });
  await newFixture().run(lead.role, { metadata: { secret: 1 } });
  expect(helper.model.requests).toEqual([
    {
      messages: [
        { role: "system", text: "You are helper.", origin: "instructions" },
        { role: "user", text: "Help me.", origin: "task" },
      ],
      tools: [],
      maxOutputTokens: 99,
      temperature: 0.5,
    },
  ]);
});

proves(
  ["R128"],
  "a child inherits the parent's last exchanges in full, up to `messageWindowSize`",
  async () => {
    const task: Message = { role: "user", text: "Do it.", origin: "inherited" };
    const one = [looks("", "call_1"), seen("call_1")];
    const pair = [looks("Twice.", "call_2", "call_3"), seen("call_2"), seen("call_3")];
    expect(await inherited({ inheritMessages: true })).toEqual([task, ...one, ...pair]);
    expect(await inherited({ inheritMessages: true, messageWindowSize: 6 })).toEqual([
      task,
      ...one,
      ...pair,
    ]);
    expect(await inherited({ inheritMessages: true, messageWindowSize: 5 })).toEqual([
      ...one,
      ...pair,
    ]);
    expect(await inherited({ inheritMessages: true, messageWindowSize: 4 })).toEqual(pair);
    expect(await inherited({ inheritMessages: true, messageWindowSize: 3 })).toEqual(pair);
    expect(await inherited({ inheritMessages: true, messageWindowSize: 2 })).toEqual([]);
    expect(await inherited({ inheritMessages: false })).toEqual([]);
  },
);

test("a grandchild inherits its parent's inherited messages as full exchanges", async () => {
  const leaf = part("leaf", [says("Leaf.")]);
  const context = { inheritMessages: true };
  const middle = part("middle", [calls(spawn("leaf", "Deep.")), says("Middle.")], {
    subagents: [leaf.role],
    contextPolicy: context,
  });
  const script = [calls(use("look")), calls(spawn("middle", "Down.")), says("Lead.")];
  const lead = part("lead", script, {
    subagents: [middle.role],
    contextPolicy: context,
    tools: [look],
  });
  await newFixture().run(lead.role);
  expect(leaf.model.requests[0]?.messages).toEqual([
    { role: "system", text: "You are leaf.", origin: "instructions" },
    { role: "user", text: "Do it.", origin: "inherited" },
    looks("", "call_1"),
    seen("call_1"),
    { role: "user", text: "Down.", origin: "inherited" },
    { role: "user", text: "Deep.", origin: "task" },
  ]);
});

proves(
  ["R129"],
  "a child receives a frozen copy of the metadata that the policy names",
  async () => {
    const whole = { a: { list: [1] }, b: 2 };
    expect(await metadataUnder({})).toEqual({ before: whole, child: {}, after: whole });
    expect(await metadataUnder({ inheritMetadata: true })).toEqual({
      before: whole,
      child: whole,
      after: whole,
    });
    const some = { before: whole, child: { a: { list: [1] } }, after: whole };
    expect(await metadataUnder({ metadataKeys: ["a", "none"] })).toEqual(some);
    expect(await metadataUnder({ metadataKeys: [] })).toEqual({
      before: whole,
      child: {},
      after: whole,
    });
  },
);

proves(["R130"], "injected texts precede the child's task with the origin `injected`", async () => {
  const helper = part("helper", [says("Ok.")]);
  const lead = part("lead", [calls(spawn("helper", "Help.")), says("Done.")], {
    subagents: [helper.role],
    contextPolicy: { injectedTexts: ["Be brief.", "Be kind."] },
  });
  const s = newFixture();
  await s.run(lead.role);
  expect(helper.model.requests[0]?.messages).toEqual([
    { role: "system", text: "You are helper.", origin: "instructions" },
    { role: "user", text: "Be brief.", origin: "injected" },
    { role: "user", text: "Be kind.", origin: "injected" },
    { role: "user", text: "Help.", origin: "task" },
  ]);
  const [spawned] = s.sink.ofType("subagent.spawned");
  const { messages, injections } = spawned?.inherited ?? {};
  expect([messages?.count, injections?.count]).toEqual([0, 2]);
});

function looks(text: string, ...ids: readonly string[]): Message {
  const toolCalls = ids.map((id) => {
    return { callId: CallIdSchema().parse(id), toolName: "look", argumentsText: "{}" };
  });
  return { role: "assistant", text, toolCalls };
}

function seen(id: string): Message {
  const callId = CallIdSchema().parse(id);
  return { role: "tool", callId, toolName: "look", text: `Seen by ${id}.` };
}

/**
 * Returns the child's messages between its instructions and its task, after its parent took two
 * steps with tools.
 */
async function inherited(context: Partial<SubagentContextPolicy>): Promise<readonly Message[]> {
  const helper = part("helper", [says("Ok.")]);
  const script = [
    calls(use("look")),
    says("Twice.", { calls: [use("look"), use("look")] }),
    says("Now you.", { calls: [spawn("helper", "Go.")] }),
    says("Done."),
  ];
  const lead = part("lead", script, {
    subagents: [helper.role],
    tools: [look],
    contextPolicy: context,
  });
  await newFixture().run(lead.role);
  const messages = helper.model.requests[0]?.messages ?? [];
  expect([messages[0]?.text, messages.at(-1)?.text]).toEqual(["You are helper.", "Go."]);
  return messages.slice(1, -1);
}

/** Returns the metadata that tools of parent and child receive; the child tries to change it. */
async function metadataUnder(
  context: Partial<SubagentContextPolicy>,
): Promise<Readonly<Record<"before" | "child" | "after", unknown>>> {
  const given: JsonObject[] = [];
  const read = tool("read", ({ metadata }) => void given.push(metadata));
  const spoil = tool("spoil", ({ metadata }) => {
    given.push(metadata);
    const targets = [metadata, metadata["a"]].filter((target) => isRecord(target));
    expect(targets.map((target) => Reflect.set(target, "list", "spoilt"))).not.toContain(true);
  });
  const helper = part("helper", [calls(use("spoil")), says("Ok.")], { tools: [spoil] });
  const script = [calls(use("read")), calls(spawn("helper")), calls(use("read")), says("Done.")];
  const lead = part("lead", script, {
    subagents: [helper.role],
    tools: [read],
    contextPolicy: context,
  });
  const outcome = await newFixture().run(lead.role, { metadata: { a: { list: [1] }, b: 2 } });
  expect(outcome.agents[1]?.metadata).toEqual(given[1]);
  expect(given[1]).not.toBe(given[0]);
  expect(given[1]?.["a"] ?? {}).not.toBe(given[0]?.["a"]);
  return { before: given[0], child: given[1], after: given[2] };
}
