// Goal: arguments that are not a JSON object are persisted as the model wrote them, but never sent
// in that form, wherever their history goes.
// Method: a server that refuses requests with such arguments; one history that is paused, resumed,
// inherited, continued in a session and forked.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { modelAt } from "../../support/openai-calls.ts";
import { calls, OpenAiServer, says, type Handler } from "../../support/openai-server.ts";

const WRITTEN = ["{not json", '["a"]', '"a"', "null", "{}"];

const tools = [
  defineTool({
    name: "go",
    description: "Goes.",
    inputSchema: z.object({}),
    execute: () => "gone",
  }),
  defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({}),
    needsApproval: true,
    execute: () => "paid",
  }),
];

const answer: Handler = ({ bodyText }) => {
  if (bodyText.includes("You read.")) return says("Read.");
  if (bodyText.includes("And now?")) return says("Still done.");
  if (bodyText.includes('\\"outcome\\":\\"completed\\"')) return says("Done.");
  if (bodyText.includes("paid"))
    return calls(["SpawnSubagent", { role: "reader", task: "Read on." }]);
  return calls(...WRITTEN.map((text) => ["go", text] as const), ["pay", {}]);
};

function writtenIn(messages: readonly Message[]): readonly string[] {
  return messages.flatMap((message) =>
    message.role === "assistant"
      ? message.toolCalls.flatMap(({ toolName, argumentsText }) =>
          toolName === "go" ? [argumentsText] : [],
        )
      : [],
  );
}

proves(
  ["S7.25"],
  "preserves invalid arguments in a history that is resumed, inherited, continued in a session and forked",
  async () => {
    await using server = await OpenAiServer.start(answer);
    const model = modelAt(server);
    const reader = defineAgent({
      name: "reader",
      description: "Reads.",
      instructions: "You read.",
      model,
    });
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      model,
      tools,
      subagents: [reader],
      contextPolicy: { inheritMessages: true },
    });
    const store = memoryStore();
    const first = new Orchestrator({ store });
    const { pausedRun, questions } = await first.start(role, "Go.", {
      session: await first.openSession("talk"),
    }).result;
    const stored = JSON.stringify(pausedRun);

    const later = new Orchestrator({ store, roles: [role] });
    const resumed = later.resume(readPausedRun(stored), {
      answers: questions.map((question) => approve(question)),
      role,
    });
    const result = await resumed.orThrow();
    expect(result.agents.map(({ agentPath, text }) => [agentPath, text])).toEqual([
      ["lead", "Done."],
      ["lead/reader#1", "Read."],
    ]);
    expect(writtenIn(result.messages)).toEqual(WRITTEN);
    const again = await later
      .start(role, "And now?", { session: await later.openSession("talk") })
      .orThrow();
    const forked = await later.fork(resumed.snapshot(), { role, message: "And now?" }).orThrow();
    expect([again.text, forked.text]).toEqual(["Still done.", "Still done."]);
    expect([again, forked].map(({ messages }) => writtenIn(messages))).toEqual([WRITTEN, WRITTEN]);
    const carried = server.requests.map(
      ({ bodyText }) => bodyText.split("not_a_json_object").length - 1,
    );
    expect(carried).toEqual([0, 4, 4, 4, 4, 4]);
  },
);
