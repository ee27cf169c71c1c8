// Goal: an empty or cut-off answer is not a success. The parent's model and the result of the run
// report its outcome.
// Method: one child for each way to end, in foreground and background; the messages to the parent's
// model are compared in full.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { beside, heard, outcomes, waitFor } from "../../support/life-agents.ts";
import {
  calls,
  listens,
  part,
  spawn,
  receivedTexts,
  tool,
  use,
} from "../../harness/scripted-agents.ts";

interface End {
  readonly replies: readonly ScriptStep[];
  readonly more?: Partial<Omit<AgentDefinition, "name" | "model">>;
  readonly outcome: string;
  readonly status: string;
  readonly text?: string;
  readonly output?: unknown;
}

const look = tool("look", () => "seen");
const finish = (value: unknown) => calls({ toolName: "Finish", arguments: { value } });
const NUMBER = { output: z.object({ value: z.number() }) };

const ENDS: Readonly<Record<string, End>> = {
  "a text": { replies: [says("Text.")], outcome: "completed", status: "completed", text: "Text." },
  "a typed result": {
    replies: [finish(1)],
    more: NUMBER,
    outcome: "completed",
    status: "completed",
    output: { value: 1 },
  },
  "a text that is cut off": {
    replies: [{ text: "Half a", finishReason: "length" }],
    outcome: "partial",
    status: "stopped",
    text: "Half a",
  },
  "a text that is filtered": {
    replies: [{ text: "Half a", finishReason: "content_filter" }],
    outcome: "partial",
    status: "stopped",
    text: "Half a",
  },
  "nothing, cut off": {
    replies: [{ finishReason: "length" }],
    outcome: "no_output",
    status: "stopped",
    text: "",
  },
  "white space, cut off": {
    replies: [{ text: " \n", finishReason: "length" }],
    outcome: "no_output",
    status: "stopped",
    text: " \n",
  },
  "a limit after a text": {
    replies: [{ text: "So far.", calls: [use("look")] }],
    more: { budget: { steps: 1 }, tools: [look] },
    outcome: "partial",
    status: "stopped",
    text: "So far.",
  },
  "a limit before any text": {
    replies: [calls(use("look"))],
    more: { budget: { steps: 1 }, tools: [look] },
    outcome: "no_output",
    status: "stopped",
    text: "",
  },
  "no step at all": {
    replies: [],
    more: { budget: { steps: 0 } },
    outcome: "no_output",
    status: "stopped",
    text: "",
  },
  "empty replies": {
    replies: Array.from({ length: 5 }, () => ({ text: "" })),
    outcome: "failed",
    status: "failed",
    text: "",
  },
  "a refusal": {
    replies: [{ refusal: "I will not." }],
    outcome: "no_output",
    status: "stopped",
    text: "",
  },
  "an error after a text": {
    replies: [{ text: "So far.", calls: [use("look")] }, { error: new Error("gone") }],
    more: { tools: [look] },
    outcome: "failed",
    status: "failed",
    text: "So far.",
  },
};

const SOME_TEXT: unknown = expect.any(String);

describe("the outcome of a subagent", () => {
  for (const [name, end] of Object.entries(ENDS))
    proves(["X15"], `is reported for ${name}: ${end.outcome}`, async () => {
      const child = part("child", end.replies, end.more ?? {});
      const lead = part("lead", [calls(spawn("child")), says("Done.")], {
        subagents: [child.role],
      });
      const s = newFixture();
      const result = await s.run(lead.role);
      const said = end.output === undefined ? { text: end.text } : { output: end.output };
      const why = end.outcome === "completed" ? {} : { reason: SOME_TEXT, explanation: SOME_TEXT };
      const broke = end.status === "failed" ? { error: SOME_TEXT } : {};
      expect(outcomes(receivedTexts(lead.model.requests[1]))).toEqual([
        { subagent: "child#1", outcome: end.outcome, ...said, ...why, ...broke },
      ]);
      expect(
        s.sink.ofType("subagent.ended").map(({ outcome, status }) => [outcome, status]),
      ).toEqual([[end.outcome, end.status]]);
      const [execution] = result.steps[0]?.tools.executions ?? [];
      expect(execution?.type === "succeeded").toBe(end.outcome === "completed");
      expect(result.status).toBe("completed");
    });

  proves(
    ["X15"],
    "is the same in the background, in the report and in the result of a wait",
    async () => {
      for (const [name, end] of Object.entries(ENDS)) {
        const child = part("child", end.replies, end.more ?? {});
        const waiting = part(
          "lead",
          [calls(beside("child")), calls(waitFor("child#1")), says("Done.")],
          {
            delegation: { background: true },
            subagents: [child.role],
          },
        );
        await newFixture().run(waiting.role);
        expect([name, outcomes(receivedTexts(waiting.model.requests[2]))]).toMatchObject([
          name,
          [{ outcome: end.outcome }],
        ]);
        const other = part("child", end.replies, end.more ?? {});
        const lead = part("lead", [calls(beside("child")), says("Early."), says("Late.")], {
          delegation: { background: true },
          subagents: [other.role],
        });
        await newFixture().run(lead.role);
        const [report = ""] = heard(lead.model.requests.at(-1), "report");
        expect([name, report]).toEqual([
          name,
          expect.stringContaining(`"outcome":"${end.outcome}"`),
        ]);
      }
    },
  );
});

test("a cancelled subagent has the outcome `cancelled`, even if it had written text", async () => {
  const child = part("child", [{ text: "So far.", calls: [use("listen")] }], {
    tools: [listens("listen")],
  });
  const lead = part("lead", [calls(spawn("child")), says("Done.")], { subagents: [child.role] });
  const s = newFixture();
  const run = s.start(lead.role);
  const events = run.events();
  for await (const event of events) {
    if (event.type === "tool.started" && event.toolName === "listen")
      run.cancelAgent(event.agentId, "Enough.");
    if (event.type === "run.ended") break;
  }
  await s.outcome(run);
  expect(outcomes(receivedTexts(lead.model.requests[1]))).toEqual([
    {
      subagent: "child#1",
      outcome: "cancelled",
      reason: "cancelled",
      explanation: "Enough.",
      text: "So far.",
    },
  ]);
});

test("a typed result given before a limit counts as completed", async () => {
  const child = part(
    "child",
    [{ calls: [use("look"), { toolName: "Finish", arguments: { value: 1 } }] }],
    {
      ...NUMBER,
      tools: [look],
      budget: { steps: 1 },
    },
  );
  const lead = part("lead", [calls(spawn("child")), says("Done.")], { subagents: [child.role] });
  await newFixture().run(lead.role);
  expect(outcomes(receivedTexts(lead.model.requests[1]))).toEqual([
    { subagent: "child#1", outcome: "completed", output: { value: 1 } },
  ]);
});
