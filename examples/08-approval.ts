// A call that needs approval and a tool that another program executes. The run pauses, is saved as
// JSON and resumes in a new process.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";

import { z } from "zod";

import {
  approve,
  defineAgent,
  defineTool,
  provideResult,
  Orchestrator,
  readPausedRun,
} from "espalier";
import { asks, says, ScriptedModel } from "espalier/testing";

const sent: string[] = [];
const isOutside = (address: string): boolean => !address.endsWith("@example.org");

const sendMail = defineTool({
  name: "sendMail",
  description: "Sends a mail.",
  inputSchema: z.object({ to: z.string(), text: z.string() }),
  needsApproval: ({ to }) => isOutside(to) && `${to} is outside.`,
  execute: ({ to }) => {
    sent.push(to);
    return "sent";
  },
});
const askUser = defineTool({
  name: "askUser",
  description: "Asks the user a question.",
  inputSchema: z.object({ question: z.string() }),
});

const clerk = defineAgent({
  name: "clerk",
  instructions: "Answer the mail.",
  model: new ScriptedModel([
    {
      calls: [
        { toolName: "sendMail", arguments: { to: "ann@example.org", text: "Yes." } },
        { toolName: "sendMail", arguments: { to: "bob@example.com", text: "Yes." } },
        { toolName: "askUser", arguments: { question: "Shall I archive both?" } },
      ],
    },
    says("Both are answered."),
  ]),
  tools: [sendMail, askUser],
});

const task = "Answer Ann and Bob.";

// The first process: calls that need no answer run at once, and the run is stored.
const paused = await new Orchestrator().start(clerk, task).result;
const stored = JSON.stringify(paused.pausedRun);
assert.equal(paused.status, "paused");
assert.deepEqual(sent, ["ann@example.org"]);

// A person looks at the questions and answers them.
const answers = paused.questions.map((question) => {
  if (question.kind === "approval") return approve(question);
  return provideResult(question, "No, keep them.");
});
for (const { agentPath, toolName, reason } of paused.questions)
  console.log(`${agentPath} asks for ${toolName}: ${reason}`);

// Another process, later: the same run continues. What ran before does not run again.
const orchestrator = new Orchestrator({ roles: [clerk] });
const saved = readPausedRun(stored);
const result = await orchestrator.resume(saved, { answers }).result;
console.log(result.text);
assert.equal(result.status, "completed");
assert.deepEqual(sent, ["ann@example.org", "bob@example.com"]);
assert.equal(result.agents[0]?.executionId, paused.agents[0]?.executionId);

// With an approver in the process nothing pauses.
const asked: string[] = [];
const attended = new Orchestrator({
  approver: (question) => {
    asked.push(question.toolName);
    return approve(question);
  },
});
const mailer = defineAgent({
  name: "mailer",
  instructions: "Send a mail.",
  model: new ScriptedModel([
    asks("sendMail", { to: "eve@example.com", text: "Hello." }),
    says("Sent."),
  ]),
  tools: [sendMail],
});
assert.equal((await attended.start(mailer, "Write to Eve.").result).status, "completed");
assert.deepEqual(asked, ["sendMail"]);

// With a signing key a stored run that was altered is refused. The first key signs, and all verify.
const [newKey, oldKey] = [randomBytes(32), randomBytes(32)];
const signing = new Orchestrator({
  signingKey: [newKey, oldKey],
});
const asking = defineAgent({
  name: "asking",
  instructions: "Send a mail.",
  model: new ScriptedModel([asks("sendMail", { to: "eve@example.com", text: "Hello." })]),
  tools: [sendMail],
});
const { pausedRun } = await signing.start(asking, "Write to Eve.").result;
assert.ok(pausedRun);
const altered = { ...pausedRun, pausedAtMs: pausedRun.pausedAtMs - 60_000 };
assert.throws(() => signing.resume(altered, { role: asking }), { code: "invalid_signature" });
