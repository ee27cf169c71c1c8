// Goal: a folder of role files defines the same roles as code (X26).
// Method: compare whole roles with those of `defineAgent`, and the events of a run of each.

import { symlinkSync } from "node:fs";
import { pathToFileURL } from "node:url";

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { defineAgent } from "../../src/agent/define-agent.ts";
import { observe } from "../../src/hooks/hook.ts";
import type { Model } from "../../src/model/model.ts";
import { countedTracing } from "../support/local-tracing.ts";
import type { Message } from "../../src/protocol/message.ts";
import { hasToolCall } from "../../src/policies/stop-conditions.ts";
import { readRoles } from "../../src/roles/read-roles.ts";
import { asks, says, ScriptedModel } from "../../src/testing/scripted-model.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { fast, OPTIONS, parsed, roleFile, save, search, strong } from "./role-folder.ts";

const LEAD = `---
# A comment is for people.
model: strong
tools: [save]
subagents: [researcher, writer, lead]
limits: { maxDepth: 2, maxTotalSubagents: 4 }
showBudget: true
budget: { costUsd: 0.5, totalTokens: 50000, steps: 12, timeMs: 60000 }
contextPolicy:
  inheritMessages: true
  messageWindowSize: 6
  metadataKeys: [user]
  injectedTexts:
    - "Today is: Monday."
    - |
      Two
      lines.
delegation:
  background: true
  failurePolicy: { quorum: 2 }
  share: { type: weighted, weights: { researcher: 2 } }
wrapUp: true
compaction: { maxInputTokens: 8000, keepMessages: 10 }
---

Have it researched.

## Then

    write it down
`;

const RESEARCHER = `---
description: >
  Researches one question
  and names its sources
model: fast
tools:
  - search
  - save
toolDefaults: { timeoutMs: 2000, maxIdenticalCalls: unlimited, longResultPolicy: summarize, needsApproval: false }
errorBudget: { maxToolErrors: 1 }
errorPolicy: { blockedPolicy: stop }
maxOutputTokens: 1000
temperature: 0
wrapUp: "Stop: say what you have."
---
Search before you answer.`;

const WRITER = `---
name: writer
description: Writes
model: fast
---
Write.`;

function codeRoles(): readonly AgentRole[] {
  const lead = defineAgent({
    name: "lead",
    instructions: "Have it researched.\n\n## Then\n\n    write it down",
    model: strong,
    tools: [save],
    subagents: ["researcher", "writer", "lead"],
    limits: { maxDepth: 2, maxTotalSubagents: 4 },
    showBudget: true,
    budget: { costUsd: 0.5, totalTokens: 50_000, steps: 12, timeMs: 60_000 },
    contextPolicy: {
      inheritMessages: true,
      messageWindowSize: 6,
      metadataKeys: ["user"],
      injectedTexts: ["Today is: Monday.", "Two\nlines.\n"],
    },
    delegation: {
      background: true,
      failurePolicy: { quorum: 2 },
      share: { type: "weighted", weights: { researcher: 2 } },
    },
    wrapUp: true,
    compaction: { maxInputTokens: 8000, keepMessages: 10 },
  });
  const researcher = defineAgent({
    name: "researcher",
    description: "Researches one question and names its sources\n",
    instructions: "Search before you answer.",
    model: fast,
    tools: [search, save],
    toolDefaults: {
      timeoutMs: 2000,
      maxIdenticalCalls: "unlimited",
      longResultPolicy: "summarize",
      needsApproval: false,
    },
    errorBudget: { maxToolErrors: 1 },
    errorPolicy: { blockedPolicy: "stop" },
    maxOutputTokens: 1000,
    temperature: 0,
    wrapUp: "Stop: say what you have.",
  });
  const writer = defineAgent({
    name: "writer",
    description: "Writes",
    instructions: "Write.",
    model: fast,
  });
  return [lead, researcher, writer];
}

proves(["X26"], "reads the same roles from a folder as from code", async () => {
  using folder = temporaryFolder({
    "a-lead.md": LEAD.replace("---\n", "---\nname: lead\n"),
    "researcher.md": RESEARCHER,
    "the writer.md": WRITER,
  });
  const roles = await readRoles(folder.path, OPTIONS);
  expect(roles).toStrictEqual(codeRoles());
});

/** Runs a lead that delegates once, with roles that use these models. */
async function played(
  rolesOf: (models: Readonly<Record<string, Model>>) => Promise<readonly AgentRole[]>,
) {
  const slow = new ScriptedModel([
    asks("SpawnSubagent", { role: "helper", task: "Help." }),
    says("Done."),
  ]);
  const quick = new ScriptedModel([asks("search", {}), says("Found.")]);
  const roles = await rolesOf({ slow, quick });
  const tracing = countedTracing();
  const { sink, orchestrator, outcome } = newFixture({ roles, tracing });
  const [helper, lead] = roles;
  if (lead === undefined) throw new Error(`Expected a lead after ${helper?.name}.`);
  const result = await outcome(orchestrator.start(lead, "Do it."));
  return { result, events: sink.events, requests: [slow.requests, quick.requests] };
}

proves(["X26"], "runs a tree of roles from files like the same tree in code", async () => {
  using folder = temporaryFolder({
    "helper.md": "---\ndescription: Helps\nmodel: quick\ntools: [search]\n---\nHelp.",
    "lead.md": "---\nmodel: slow\nsubagents: [helper]\nbudget: {steps: 9}\n---\nLead.",
  });
  const files = await played((models) => readRoles(folder.path, { models, tools: [search] }));
  const code = await played(async ({ quick = fast, slow = strong }) => {
    const description = "Helps";
    const tools = [search];
    const helper = { name: "helper", description, instructions: "Help.", model: quick, tools };
    const budget = { steps: 9 };
    const lead = {
      name: "lead",
      instructions: "Lead.",
      model: slow,
      subagents: ["helper"],
      budget,
    };
    return [defineAgent(helper), defineAgent(lead)];
  });
  expect(files.result.status).toBe("completed");
  expect(files.result.agents.map(({ agentPath }) => agentPath)).toEqual(["lead", "lead/helper#1"]);
  expect(files).toEqual(code);
});

test("lets a role in a file refer to a role in code, and reports unknown names when a run starts", async () => {
  using folder = temporaryFolder({ "lead.md": roleFile("model: fast", "subagents: [critic]") });
  const [lead] = await readRoles(folder.path, {
    models: { fast: new ScriptedModel([says("Done.")]) },
  });
  if (lead === undefined) throw new Error("Expected a role.");
  const critic = defineAgent({
    name: "critic",
    description: "Finds faults",
    instructions: "Find faults.",
    model: fast,
  });
  expect(() => newFixture().start(lead)).toThrow("lead.subagents[0]");
  const { run } = newFixture({ roles: [critic] });
  expect((await run(lead)).status).toBe("completed");
});

test("reads only .md files that do not begin with a dot, in the order of their names", async () => {
  using folder = temporaryFolder({
    "b.md": roleFile("model: fast"),
    "B.md": roleFile("model: fast"),
    "a2.md": roleFile("model: fast"),
    "a10.md": roleFile("model: fast"),
    ".draft.md": "nothing",
    "notes.txt": "nothing",
    "x.MD": "nothing",
    "below/c.md": "nothing",
    "folder.md/d.md": "nothing",
  });
  symlinkSync(folder.at("below"), folder.at("link.md"));
  symlinkSync(folder.at("b.md"), folder.at("z.md"));
  for (const place of [folder.path, `${folder.path}/`, pathToFileURL(folder.path)]) {
    const roles = await readRoles(place, OPTIONS);
    expect(roles.map(({ name }) => name)).toEqual(["B", "a10", "a2", "b", "z"]);
    expect(Object.isFrozen(roles)).toBe(true);
  }
});

test("returns no roles for an empty folder", async () => {
  using folder = temporaryFolder();
  expect(await readRoles(folder.path, OPTIONS)).toEqual([]);
});

test("calls a function for the model of each name", async () => {
  using folder = temporaryFolder({
    "a.md": roleFile("model: gpt-5-mini"),
    "b.md": roleFile('model: "5"'),
  });
  const asked: (readonly unknown[])[] = [];
  const models = (...given: readonly [string]): Model => {
    asked.push(given);
    return fast;
  };
  const roles = await readRoles(folder.path, { models });
  expect(roles.map(({ model }) => model)).toEqual([fast, fast]);
  expect(asked).toEqual([["gpt-5-mini"], ["5"]]);
});

test("ignores a byte order mark and Windows line endings", async () => {
  const text = roleFile("model: fast", "description: |", "  One", "  two", "budget:", "  steps: 2");
  using folder = temporaryFolder({ "role.md": text });
  using windows = temporaryFolder({ "role.md": `\u{FEFF}${text.replaceAll("\n", "\r\n")}` });
  expect(await readRoles(windows.path, OPTIONS)).toEqual(await readRoles(folder.path, OPTIONS));
});

const nothing = (): readonly Message[] => [];

test("lets code override and extend the fields of a file, key by key", async () => {
  using folder = temporaryFolder({
    "lead.md": roleFile(
      "model: fast",
      "tools: [search]",
      "budget: { steps: 3, toolCalls: 4 }",
      "contextPolicy: { inheritMetadata: true, injectedTexts: [One.] }",
      "wrapUp: Stop.",
    ),
    "other.md": roleFile("description: Nothing changes here", "model: fast"),
  });
  const hooks = [observe(["tool.started"], () => {})];
  const output = z.object({ sum: z.number() });
  const stopWhen = hasToolCall("save");
  const extend = {
    lead: {
      model: strong,
      tools: [save],
      hooks,
      output,
      budget: { steps: 5, totalTokens: 6 },
      contextPolicy: { injectedTexts: ["Two."], selectMessages: nothing },
      delegation: { background: true },
      wrapUp: false,
      stopWhen,
    },
  };
  const [lead, other] = await readRoles(folder.path, { ...OPTIONS, extend });
  const expected = defineAgent({
    name: "lead",
    instructions: "Work.",
    model: strong,
    tools: [save],
    hooks,
    output,
    budget: { steps: 5, toolCalls: 4, totalTokens: 6 },
    contextPolicy: { inheritMetadata: true, injectedTexts: ["Two."], selectMessages: nothing },
    delegation: { background: true },
    stopWhen: [stopWhen],
  });
  // The tool Finish is created again for every role.
  expect({ ...lead, finish: undefined, tools: lead?.tools.map(({ name }) => name) }).toEqual({
    ...expected,
    finish: undefined,
    tools: ["save", "Finish"],
  });
  expect(other).toEqual(
    defineAgent({
      name: "other",
      description: "Nothing changes here",
      instructions: "Work.",
      model: fast,
    }),
  );
});

test("ignores undefined fields in code", () => {
  const lead = { budget: undefined, wrapUp: undefined };
  const text = roleFile("name: lead", "model: fast", "budget: { steps: 3 }", "wrapUp: Stop.");
  expect(parsed(text, { extend: { lead } })).toEqual(parsed(text));
});
