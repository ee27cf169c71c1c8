// Guards that allow, deny or ask for an agent and its subagents, and filters that select tools step
// by step.

import assert from "node:assert/strict";

import { z } from "zod";

import { defineAgent, defineTool, Orchestrator, toolFilter, toolGuard, approve } from "espalier";
import { transform, wrapModelCall } from "espalier/hooks";
import { asks, says, ScriptedModel } from "espalier/testing";

const written: string[] = [];
const write = defineTool({
  name: "write",
  description: "Writes a file.",
  inputSchema: z.object({ path: z.string(), text: z.string() }),
  execute: ({ path }) => {
    written.push(path);
    return "written";
  },
});

// Deny beats ask beats allow, in any order of the guards. A guard that throws denies the call.
const PathSchema = z.object({ path: z.string() });
const onlyDocs = toolGuard(
  function onlyDocs({ arguments: input }) {
    const { path } = PathSchema.parse(input);
    if (path.includes("..")) {
      return { type: "deny", reason: "Stay in the folder." };
    }
    if (path.startsWith("docs/")) return { type: "allow" };
    return { type: "ask", reason: `${path} is not in docs/.` };
  },
  { tools: ["write"] },
);
// Asks before a subagent starts.
const askFirst = toolGuard(() => ({ type: "ask", reason: "It costs money." }), {
  tools: ["SpawnSubagent"],
});

const writer = defineAgent({
  name: "writer",
  description: "Writes files",
  instructions: "Write what you are told.",
  model: new ScriptedModel([
    asks("write", { path: "../secret", text: "…" }),
    asks("write", { path: "docs/roses.md", text: "…" }),
    asks("write", { path: "readme.md", text: "…" }),
    says("Two of three are written."),
  ]),
  tools: [write],
});

// The guard stands at the lead, and binds the writer below it: no agent below may do what is forbidden above.
const lead = defineAgent({
  name: "lead",
  instructions: "Let the writer write.",
  model: new ScriptedModel([
    asks("SpawnSubagent", { role: "writer", task: "Write three files." }),
    says("Done."),
  ]),
  subagents: [writer],
  guards: [onlyDocs, askFirst],
});
const orchestrator = new Orchestrator({
  approver: (question) => {
    console.log(`${question.agentPath} asks: ${question.reason}`);
    return approve(question);
  },
});
const result = await orchestrator.start(lead, "Document the garden.").result;
const [blocked] = result.agents[1]?.toolErrors ?? [];
console.log(`${blocked?.code}: ${blocked?.message}`);
assert.deepEqual(written, ["docs/roses.md", "readme.md"]);
assert.deepEqual([blocked?.code, blocked?.severity], ["blocked", "fatal"]);
assert.equal(result.status, "completed");

// A filter takes a tool out of the request, step by step, and what is not offered cannot be called either.
const confirm = defineTool({
  name: "confirm",
  description: "Confirms that something may be written.",
  inputSchema: z.object({}),
  execute: () => "confirmed",
});
const afterConfirmation = toolFilter(
  (_toolName, { steps }) =>
    steps.some(({ tools }) =>
      tools.executions.some(
        ({ call, type }) => call.toolName === "confirm" && type === "succeeded",
      ),
    ),
  { name: "after-confirmation", tools: ["write"] },
);
const script = [
  asks("write", { path: "docs/tulips.md", text: "…" }), // not offered yet: refused, and the model reads so
  asks("confirm", {}),
  asks("write", { path: "docs/tulips.md", text: "…" }),
  says("Written."),
];
const model = new ScriptedModel(script, { allowUnknownTools: true });
const careful = defineAgent({
  name: "careful",
  instructions: "Confirm before you write.",
  model,
  tools: [write, confirm],
  toolFilters: [afterConfirmation],
});
await new Orchestrator().start(careful, "Write about tulips.").result;
const offered = model.requests.map(({ tools }) => tools.map(({ name }) => name).join(" "));
console.log(offered);
assert.deepEqual(offered, ["confirm", "confirm", "write confirm", "write confirm"]);
assert.deepEqual(written, ["docs/roses.md", "readme.md", "docs/tulips.md"]);

// Hooks check the task and the answer.
const refusePasswords = transform("userInput", ({ task }) =>
  task.includes("password") ? { refuse: "Ask me about gardens." } : undefined,
);
// Asks for another answer, at most three times.
const askAgain = transform("stop", ({ text }) =>
  text.includes("guarantee") ? { continueWith: "Promise nothing." } : undefined,
);
// Replaces what must never leave, in each reply.
const maskKeys = wrapModelCall(async (_call, next) => {
  const reply = await next();
  const text = reply.message.text.replaceAll(/sk-\w+/g, "[secret]");
  return { ...reply, message: { ...reply.message, text } };
});
const talker = new ScriptedModel([
  says("I guarantee roses."),
  says("Roses may grow. Your key is sk-123."),
]);
const gardener = defineAgent({
  name: "gardener",
  instructions: "Answer questions about gardens.",
  model: talker,
  hooks: [refusePasswords, askAgain, maskKeys],
});
const refused = await new Orchestrator().start(gardener, "What is the password?").result;
const checked = await new Orchestrator().start(gardener, "Do roses grow here?").result;
console.log(checked.text);
assert.deepEqual(
  [refused.status, refused.reason.code, refused.reason.message, refused.newMessages],
  ["stopped", "input_refused", "Ask me about gardens.", []],
);
assert.equal(checked.text, "Roses may grow. Your key is [secret].");
assert.equal(talker.requests.length, 2);
