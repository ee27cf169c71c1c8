// Goal: every message of a history records where it came from, and no model and no provider ever
// receives that.
// Method: whole histories of scripted runs; the bytes that a real client sends.

import { expect, test } from "vitest";

import type { AgentState } from "../../../src/agent/agent-state.ts";
import { openai } from "../../../src/model/openai/openai-model.ts";
import { StoredMessageSchema } from "../../../src/protocol/message.ts";
import { says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { placesOf, said, newSessionFixture } from "../../support/session-fixture.ts";
import { parsePausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { agentStateOf } from "../../support/agent-state-of.ts";
import { calls as wireCalls, OpenAiServer, says as wireSays } from "../../support/openai-server.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

const TWO_STEPS = [calls(use("search")), says("One."), calls(use("search")), says("Two.")];

proves(
  ["R98"],
  "records message, agent, execution and step for every message of a session of two executions",
  async () => {
    const s = newSessionFixture();
    const session = await s.session();
    const { role, model } = soloist(TWO_STEPS, { tools: [spyTool("search")] });
    await s.outcome(s.start(role, "First?", { session }));
    const result = await s.outcome(s.start(role, "Second?", { session }));
    expect(placesOf(result.messages)).toEqual([
      "system execution_2.m1 agent_2 execution_2 -",
      "user execution_1.m2 agent_1 execution_1 -",
      "assistant execution_1.m3 agent_1 execution_1 execution_1.1",
      "tool execution_1.m4 agent_1 execution_1 execution_1.1",
      "assistant execution_1.m5 agent_1 execution_1 execution_1.2",
      "user execution_2.m2 agent_2 execution_2 -",
      "assistant execution_2.m3 agent_2 execution_2 execution_2.1",
      "tool execution_2.m4 agent_2 execution_2 execution_2.1",
      "assistant execution_2.m5 agent_2 execution_2 execution_2.2",
    ]);
    expect(session.messages).toEqual(result.messages.slice(1));
    for (const message of result.messages) StoredMessageSchema().parse(message);
    const sent = model.requests.flatMap(({ messages }) => messages.flatMap(Object.keys));
    expect(new Set(sent)).toEqual(
      new Set(["role", "text", "origin", "toolCalls", "callId", "toolName"]),
    );
  },
);

proves(["R98"], "sends none of its ids to a provider, in either execution", async () => {
  await using server = await OpenAiServer.start((request) =>
    JSON.stringify(request.body).includes('"tool_call_id"')
      ? wireSays("Found.")
      : wireCalls(["search", {}]),
  );
  const s = newSessionFixture();
  const session = await s.session();
  const model = openai("test-model", { baseUrl: server.baseUrl, apiKey: "secret-key" });
  const role = defineAgent({
    name: "solo",
    instructions: "Work.",
    model,
    tools: [spyTool("search")],
  });
  await s.start(role, "First?", { session }).result;
  const result = await s.start(role, "Second?", { session }).result;
  expect(result.status).toBe("completed");
  const bodies = server.requests.map(({ body }) => JSON.stringify(body));
  expect(bodies.length).toBe(3);
  for (const word of ["messageId", "executionId", "agentId", "stepId", "execution_", "agent_"])
    expect(bodies.filter((body) => body.includes(word))).toEqual([]);
});

test("begins the first request of an execution with the bytes of the last request of the previous one", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const { role, model } = soloist(TWO_STEPS, { tools: [spyTool("search")] });
  await s.outcome(s.start(role, "First?", { session }));
  await s.outcome(s.start(role, "Second?", { session }));
  const texts = model.requests.map(({ messages }) => JSON.stringify(messages).slice(0, -1));
  for (const [index, text] of texts.entries())
    expect(texts[index + 1]?.startsWith(text) ?? true, `request ${index + 2}`).toBe(true);
});

test("counts and leases the first request of a session like the same request without a session", async () => {
  const s = newSessionFixture();
  const session = await s.session();
  const estimating = { countTokens: null } as const;
  const { role } = soloist([says("One."), says("Two.")], {}, estimating);
  await s.outcome(s.start(role, "First?", { session }));
  await s.outcome(s.start(role, "Second?", { session }));
  const [first, second] = s.sink.ofType("budget.reserved").map(({ inputTokens }) => inputTokens);
  const alone = newFixture();
  const lone = soloist([says("One.")], {}, estimating);
  await alone.outcome(alone.start(lone.role, "First?"));
  expect(alone.sink.ofType("budget.reserved").map(({ inputTokens }) => inputTokens)).toEqual([
    first,
  ]);
  expect((second ?? 0) - (first ?? 0)).toBeLessThan(30);
});

test("preserves the identity of messages and tags in a history", async () => {
  const s = newFixture();
  const { role } = soloist(TWO_STEPS.slice(0, 2), { tools: [spyTool("search")] });
  const run = s.start(role);
  const states: AgentState[] = [];
  for await (const { state } of run.iterate()) states.push(agentStateOf(state));
  await s.outcome(run);
  for (const [index, { conversation }] of states.slice(1).entries()) {
    const before = states[index]?.conversation;
    expect(conversation.tags).toHaveLength(conversation.messages.length);
    for (const [place, message] of (before?.messages ?? []).entries()) {
      expect(conversation.messages[place]).toBe(message);
      expect(conversation.tags[place]).toBe(before?.tags[place]);
    }
  }
});

test("assigns a message between two steps to the step before, and to none before the first step", async () => {
  const s = newFixture();
  const { role } = soloist([calls(use("search")), says("Done.")], { tools: [spyTool("search")] });
  const run = s.start(role);
  void run.steer("Hurry.");
  for await (const { phase, state } of run.iterate())
    if (phase === "decide" && state.log.steps.length === 1) void run.steer("Stop soon.");
  const { messages } = await s.outcome(run);
  expect(messages.map(({ text, stepId = "-" }) => `${text} ${stepId}`)).toEqual([
    "Work. -",
    "Do it. -",
    "Hurry. -",
    " execution_1.1",
    "search done execution_1.1",
    "Stop soon. execution_1.1",
    "Done. execution_1.2",
  ]);
});

proves(["R98"], "gives the messages that a subagent inherits ids of its own", async () => {
  const s = newFixture();
  const child = part("child", [says("Read.")]);
  const lead = part("lead", [calls(spawn("child", "Read it.")), says("Done.")], {
    subagents: [child.role],
    contextPolicy: { inheritMessages: true },
  });
  const run = s.start(lead.role);
  const result = await s.outcome(run);
  expect(placesOf(result.messages)).toEqual([
    "system execution_1.m1 agent_1 execution_1 -",
    "user execution_1.m2 agent_1 execution_1 -",
    "assistant execution_1.m3 agent_1 execution_1 execution_1.1",
    "tool execution_1.m4 agent_1 execution_1 execution_1.1",
    "assistant execution_1.m5 agent_1 execution_1 execution_1.2",
  ]);
  const [, inChild] = parsePausedRun(run.snapshot()).agents;
  expect(inChild?.state.conversation.tags).toEqual([
    { executionId: "execution_2", stepNumber: 0, number: 1 },
    { executionId: "execution_2", stepNumber: 0, number: 2 },
    { executionId: "execution_2", stepNumber: 0, number: 3 },
    { executionId: "execution_2", stepNumber: 1, number: 4 },
  ]);
  expect(said(result.newMessages)).toEqual([
    "user Do it.",
    "assistant ",
    expect.stringContaining("tool "),
    "assistant Done.",
  ]);
});

test("preserves the ids of earlier messages in a fork, and adds messages under its own ids", async () => {
  const s = newFixture();
  const { role } = soloist([calls(use("search")), says("One."), says("Other.")], {
    tools: [spyTool("search")],
  });
  const run = s.start(role);
  await s.outcome(run);
  const forked = await s.outcome(s.fork(role, run.snapshot(), { atStep: 1, message: "Else?" }));
  expect(placesOf(forked.messages)).toEqual([
    "system execution_1.m1 agent_1 execution_1 -",
    "user execution_1.m2 agent_1 execution_1 -",
    "assistant execution_1.m3 agent_1 execution_1 execution_1.1",
    "tool execution_1.m4 agent_1 execution_1 execution_1.1",
    "user execution_3.m6 agent_2 execution_3 -",
    "assistant execution_3.m7 agent_2 execution_3 execution_3.1",
  ]);
  expect(said(forked.newMessages)).toEqual(["user Else?", "assistant Other."]);
});

test("rejects a reply in which a model sets a message id", async () => {
  const s = newFixture();
  const model = new ScriptedModel([says("Hi.")]);
  const forger = {
    provider: model.provider,
    id: model.id,
    generate: async (...asked: Parameters<ScriptedModel["generate"]>) => {
      const reply = await model.generate(...asked);
      return { ...reply, message: { ...reply.message, messageId: "execution_9.m9" } };
    },
  };
  const role = defineAgent({ name: "solo", instructions: "Work.", model: forger });
  const result = await s.outcome(s.start(role));
  expect([result.status, result.reason.data]).toEqual(["failed", { error: "model_invalid_reply" }]);
});
