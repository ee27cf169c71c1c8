// Goal: a request begins with the bytes of the previous one, so that prompt caches of providers
// hit, unless something changed the earlier part. Every request reports whether its prefix is
// unchanged.
// Method: runs over the OpenAI adapter against a server that records the bytes, with one change of
// the requests at a time.

import { z } from "zod";
import { expect, test } from "vitest";

import { defineAgent, type AgentDefinition } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { asks, says as replies, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { countEphemeralTail, compareRequests } from "../../../src/model/request-prefix.ts";
import { toolFilter } from "../../../src/tools/tool-filter.ts";
import { CallIdSchema } from "../../../src/protocol/ids.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { spyTool } from "../../harness/tools.ts";
import { modelAt } from "../../support/openai-calls.ts";
import { calls, OpenAiServer, says, type WireRequest } from "../../support/openai-server.ts";

const tools = [spyTool("work", () => "w".repeat(300)), spyTool("rest")];
const STEPS = 4;

type Prefix = EspalierEvent<"model.requested">["prefix"];

interface Sent {
  readonly requests: readonly WireRequest[];
  readonly prefixes: readonly Prefix[];
}

/** Runs an agent that works three times and answers. */
async function sent(more: Partial<Omit<AgentDefinition, "model">>): Promise<Sent> {
  const server = await OpenAiServer.start((_request, count) => {
    if (count >= STEPS) return says("Done.");
    const [call] = calls(["work", {}]).toolCalls ?? [];
    return {
      type: "says",
      toolCalls: call === undefined ? [] : [{ ...call, id: `call_${count}` }],
    };
  });
  await using _closed = server;
  const role = defineAgent({
    name: "solo",
    instructions: "Work.",
    model: modelAt(server),
    tools,
    ...more,
  });
  const fixture = newFixture();
  const result = await fixture.run(role, { budget: { steps: STEPS } });
  expect(result.steps).toHaveLength(STEPS);
  const requests = [...server.requests];
  return { requests, prefixes: fixture.sink.ofType("model.requested").map(({ prefix }) => prefix) };
}

const BodySchema = z.object({ messages: z.array(z.unknown()) });

/**
 * Returns the bytes of a request up to the end of its messages, without the last `ephemeral` of
 * them.
 */
function bytesOf({ bodyText, body }: WireRequest, ephemeral: number): string {
  const end = bodyText.lastIndexOf('],"max_tokens"');
  const { messages } = BodySchema.parse(body);
  const tail = messages.slice(messages.length - ephemeral).map((one) => `,${JSON.stringify(one)}`);
  const cut = bodyText.slice(0, end - (ephemeral === 0 ? 0 : tail.join("").length));
  expect(`${cut}${ephemeral === 0 ? "" : tail.join("")}`).toBe(bodyText.slice(0, end));
  return cut;
}

/**
 * Returns for each request from the second on whether it begins with the bytes of the previous one.
 */
function held(requests: readonly WireRequest[], ephemeral: number): readonly boolean[] {
  return requests
    .slice(1)
    .map((request, index) =>
      request.bodyText.startsWith(bytesOf(requests[index] ?? request, ephemeral)),
    );
}

interface Case {
  readonly more: Partial<Omit<AgentDefinition, "model">>;
  /** The number of messages at the end of each request that belong to its step alone. */
  readonly ephemeral: number;
  /**
   * For each request from the second on: true if it begins like the previous one, otherwise the
   * cause.
   */
  readonly expected: readonly (true | "tools" | "messages")[];
}

const KEPT: Readonly<Record<string, Case>> = {
  "nothing else": { more: {}, ephemeral: 0, expected: [true, true, true] },
  "a line that tells the budget": {
    more: { showBudget: true },
    ephemeral: 1,
    expected: [true, true, true],
  },
  "a section that changes with each step, at its place by default": {
    more: {
      sections: [
        { name: "state", lifetime: "step", text: ({ stepNumber }) => `State ${stepNumber}.` },
      ],
    },
    ephemeral: 1,
    expected: [true, true, true],
  },
  "sections that are made once": {
    more: {
      sections: [
        {
          name: "rules",
          lifetime: "execution",
          after: "instructions",
          messageRole: "system",
          text: "Rules.",
        },
        { name: "memory", lifetime: "execution", text: () => "Memory." },
        { name: "day", lifetime: "persistent", text: () => "Monday." },
      ],
    },
    ephemeral: 0,
    expected: [true, true, true],
  },
  "a hook that changes every request alike": {
    more: {
      hooks: [
        transform("beforeModel", ({ messages }) => ({
          messages: messages.map((one) => ({ ...one, text: one.text.toUpperCase() })),
        })),
      ],
    },
    ephemeral: 0,
    expected: [true, true, true],
  },
};

const BROKEN: Readonly<Record<string, Case>> = {
  "a section before the history that changes with each step": {
    more: {
      sections: [
        {
          name: "state",
          lifetime: "step",
          before: "history",
          text: ({ stepNumber }) => `State ${stepNumber}.`,
        },
      ],
    },
    ephemeral: 0,
    expected: ["messages", "messages", "messages"],
  },
  "a compaction": {
    more: { compaction: { maxInputTokens: 100, keepMessages: 2 } },
    ephemeral: 0,
    expected: [true, "messages", "messages"],
  },
  "a hook that changes one request": {
    more: {
      hooks: [
        transform("beforeModel", ({ messages }, { stepNumber }) =>
          stepNumber === 3 ? { messages: messages.slice(-2) } : undefined,
        ),
      ],
    },
    ephemeral: 0,
    expected: [true, "messages", "messages"],
  },
  "a filter that takes a tool away": {
    more: {
      toolFilters: [toolFilter((_name, { stepNumber }) => stepNumber !== 3, { tools: ["rest"] })],
    },
    ephemeral: 0,
    expected: [true, "tools", "tools"],
  },
  "a last step without tools": {
    more: { wrapUp: true },
    ephemeral: 0,
    expected: [true, true, "tools"],
  },
};

for (const [what, { more, ephemeral, expected }] of Object.entries(KEPT))
  proves(
    ["X31"],
    `begins each request with the bytes of the previous one, and reports that, with ${what}`,
    async () => {
      const { requests, prefixes } = await sent(more);
      expect(held(requests, ephemeral)).toEqual(expected);
      expect(prefixes[0]).toBeUndefined();
      expect(prefixes.slice(1).map((prefix) => prefix?.isUnchanged)).toEqual(expected);
    },
  );

for (const [what, { more, ephemeral, expected }] of Object.entries(BROKEN))
  proves(["X31"], `reports the cause of a changed prefix: ${what}`, async () => {
    const { requests, prefixes } = await sent(more);
    expect(held(requests, ephemeral)).toEqual(expected.map((one) => one === true));
    expect(
      prefixes.slice(1).map((prefix) => (prefix?.isUnchanged === true ? true : prefix?.changed)),
    ).toEqual(expected);
  });

test("reports how many messages at the beginning are the same", async () => {
  const { prefixes } = await sent({ compaction: { maxInputTokens: 100, keepMessages: 2 } });
  expect(prefixes).toEqual([
    undefined,
    { isUnchanged: true, messageCount: 2 },
    { isUnchanged: false, messageCount: 2, changed: "messages" },
    { isUnchanged: false, messageCount: 2, changed: "messages" },
  ]);
});

const user = (text: string): Message => ({ role: "user", text, origin: "notice" });
const request = (...messages: readonly Message[]) => ({ messages, tools: [], maxOutputTokens: 1 });

test("compares messages as a provider receives them: by their calls, but not by their origins", () => {
  const callId = CallIdSchema().parse("call_1");
  const call = { callId, toolName: "work", argumentsText: "{}" };
  const reply = (argumentsText: string): Message => ({
    role: "assistant",
    text: "",
    toolCalls: [{ ...call, argumentsText }],
  });
  const task: Message = { role: "user", text: "A", origin: "task" };
  expect(
    compareRequests({ request: request(user("A")), ephemeralCount: 0 }, request(task, user("B"))),
  ).toEqual({
    isUnchanged: true,
    messageCount: 1,
  });
  expect(
    compareRequests(
      { request: request(task, reply("{}")), ephemeralCount: 0 },
      request(task, reply("{ }")),
    ),
  ).toEqual({ isUnchanged: false, messageCount: 1, changed: "messages" });
  const shorter = compareRequests(
    { request: request(task, user("B")), ephemeralCount: 0 },
    request(task),
  );
  expect(shorter).toEqual({ isUnchanged: false, messageCount: 1, changed: "messages" });
});

test("counts ephemeral messages at the end only if all of them are there", () => {
  const list = [user("A"), user("B"), user("C")];
  expect([
    countEphemeralTail(list, [user("B"), user("C")]),
    countEphemeralTail(list, [user("A"), user("B")]),
    countEphemeralTail(list, []),
    countEphemeralTail([user("C")], list),
  ]).toEqual([2, 0, 0, 0]);
});

test("reports no prefix with the first request that a listener receives, and one with each later request", async () => {
  const heard: Prefix[] = [];
  let listening: Promise<void> | undefined;
  const listen = async (): Promise<void> => {
    for await (const event of run.events())
      if (event.type === "model.requested") heard.push(event.prefix);
  };
  const look = spyTool("look", () => {
    listening ??= listen();
    return "seen";
  });
  const role = defineAgent({
    name: "solo",
    instructions: "Look.",
    model: new ScriptedModel([asks("look", {}), asks("look", {}), replies("Done.")]),
    tools: [look],
  });
  const run = new Orchestrator().start(role, "Look twice.");
  await run.settled;
  await listening;
  expect(heard).toEqual([undefined, { isUnchanged: true, messageCount: 4 }]);
});
