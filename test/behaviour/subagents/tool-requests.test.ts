// Goal: tool restrictions of a spawn request apply in addition to the policy, to all descendants,
// and across a pause.
// Method: delegations that pass lists on, in real runs; paused runs that are resumed in a fresh
// orchestrator.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { describe, expect, test } from "vitest";
import { z } from "zod";

import { SPAWN_TOOL_NAME } from "../../../src/agent/agent-role.ts";
import type { SubagentContextPolicy } from "../../../src/policies/subagent-context-policy.ts";
import { approve } from "../../../src/protocol/question.ts";
import type { SpawnRequest } from "../../../src/protocol/subagent.ts";
import { says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineDelegation, defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { questionOf } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import {
  calls,
  part,
  quiet,
  spawn,
  receivedTexts,
  tool,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";
import { offered, removed, removedByEvent, removedByReport, texts } from "./tool-audit.ts";
import { parsePausedRun } from "../../../src/orchestrator/durability/paused-run.ts";

const a = tool("a", () => "A.");
const b = tool("b", () => "B.");
const c = tool("c", () => "C.");

/** A delegation that passes on the model's lists unchecked. */
const delegate = defineDelegation({
  name: "delegate",
  description: "Delegates with lists.",
  inputSchema: z.object({
    allowedTools: z.array(z.string()).exactOptional(),
    deniedTools: z.array(z.string()).exactOptional(),
  }),
  execute: (lists, { spawn }) => {
    const request: SpawnRequest = { role: "helper", task: "Work.", ...lists };
    return spawn(request);
  },
});

function asking(
  lists: object,
  context: Partial<SubagentContextPolicy> = {},
): {
  readonly lead: Part;
  readonly helper: Part;
} {
  const helper = part("helper", [says("Ok.")], { tools: [a, b, c] });
  const lead = part("lead", [calls({ toolName: "delegate", arguments: lists }), says("Done.")], {
    subagents: [helper.role],
    tools: [delegate],
    contextPolicy: context,
  });
  return { lead, helper };
}

describe("the tool lists of a spawn request", () => {
  proves(
    ["R131", "R132"],
    "apply in addition to the policy's lists, and only tighten them",
    async () => {
      const lists = { allowedTools: ["a", "b"], deniedTools: [] };
      const { lead, helper } = asking(lists, { deniedTools: ["a"] });
      const s = newFixture();
      await s.run(lead.role);
      expect(offered(helper)).toEqual(["b"]);
      expect(removedByEvent(s)).toEqual([[removed("a", "denied"), removed("c", "not_allowed")]]);
    },
  );

  proves(["R133"], "deny and report a tool that is in both lists", async () => {
    const { lead, helper } = asking({ allowedTools: ["a"], deniedTools: ["a"] });
    const s = newFixture();
    await s.run(lead.role);
    expect(offered(helper)).toEqual([]);
    expect(removedByEvent(s)[0]).toContainEqual(removed("a", "conflict"));
  });

  test("cause a refusal that names the mistake if they allow a tool that the role does not have", async () => {
    const { lead, helper } = asking({ allowedTools: ["a", "shell"] });
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([helper.model.requests, result.refusalsByCode]).toEqual([
      [],
      { context_policy_failed: 1 },
    ]);
    expect(receivedTexts(lead.model.requests[1])).toEqual([
      'Not started: allowedTools[1] of the request by lead names "shell", and helper has no such tool. Its tools are: a, b, c. Correct the name.',
    ]);
  });

  proves(["S7.11"], "may deny a tool that the role does not have", async () => {
    const { lead, helper } = asking({ deniedTools: ["a", "shell"] });
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([offered(helper), result.refusalsByCode]).toEqual([["b", "c"], {}]);
  });

  test("bind all descendants of the child", async () => {
    const leaf = part("leaf", [says("Leaf.")], { tools: [a, b] });
    const helper = part("helper", [calls(spawn("leaf")), says("Ok.")], {
      subagents: [leaf.role],
      tools: [a],
    });
    const lead = part(
      "lead",
      [calls({ toolName: "delegate", arguments: { deniedTools: ["b"] } }), says("Done.")],
      { subagents: [helper.role], tools: [delegate] },
    );
    const s = newFixture();
    await s.run(lead.role);
    expect([offered(helper), offered(leaf)]).toEqual([["a", SPAWN_TOOL_NAME], ["a"]]);
    expect(removedByEvent(s)).toEqual([[], [removed("b", "denied")]]);
  });
});

describe("a paused run with restricted tools", () => {
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({}),
    needsApproval: true,
    execute: () => "Paid.",
  });

  proves(
    ["R131", "R132"],
    "keeps the restrictions in a fresh process, even for agents that start later",
    async () => {
      const leaf = part("leaf", [calls(use("b")), says("Leaf.")], { tools: [a, b] });
      const helper = part(
        "helper",
        [calls(use("pay")), calls(use("b"), use("c")), calls(spawn("leaf")), says("Ok.")],
        { subagents: [leaf.role], tools: [pay, a, b, c] },
      );
      const lead = part(
        "lead",
        [calls({ toolName: "delegate", arguments: { deniedTools: ["c"] } }), says("Done.")],
        { subagents: [helper.role], tools: [delegate], contextPolicy: { deniedTools: ["b"] } },
      );
      const s = newFixture();
      const paused = await s.run(lead.role);
      expect(paused.status).toBe("paused");
      const run = s.resume(lead.role, paused.pausedRun, [approve(questionOf(paused))]);
      const result = await s.outcome(run);
      expect(receivedTexts(helper.model.requests[2])).toEqual([
        "Not executed: you cannot use b (denied by lead). Your tools are: pay, a, SpawnSubagent.",
        "Not executed: you cannot use c (denied by lead). Your tools are: pay, a, SpawnSubagent.",
      ]);
      expect(helper.model.requests.map(({ tools }) => tools.map(({ name }) => name))).toEqual(
        Array.from({ length: 4 }, () => ["pay", "a", SPAWN_TOOL_NAME]),
      );
      expect(offered(leaf)).toEqual(["a"]);
      const both = [removed("b", "denied"), removed("c", "denied")];
      expect(removedByReport(result)).toEqual([[], both, [removed("b", "denied")]]);
      expect(removedByReport(paused)).toEqual([[], both]);
    },
  );

  test("contains the tool rules, and is refused without them", async () => {
    const helper = part("helper", [calls(use("pay")), says("Ok.")], { tools: [pay, b] });
    const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
      contextPolicy: { allowedTools: ["pay"] },
    });
    const s = newFixture();
    const paused = await s.run(lead.role);
    expect(parsePausedRun(paused.pausedRun).agents.map(({ toolRules }) => toolRules)).toEqual([
      [],
      [{ source: "lead", allowed: ["pay"], denied: [] }],
    ]);
    const text = JSON.stringify(paused.pausedRun).replaceAll(/"toolRules":\[[^\]]*?\],/g, "");
    const { code } = thrownBy(() =>
      s.orchestrator.resume(readPausedRun(text), { role: lead.role }),
    );
    expect(code).toBe("invalid_paused_run");
    await quiet();
  });
});

describe("tool restrictions of an agent that starts later", () => {
  const again = {
    toolName: SPAWN_TOOL_NAME,
    arguments: { role: "helper", task: "More.", continue: "helper#1" },
  };

  test("bind a role that a model writes", async () => {
    const written = new ScriptedModel([says("Written.")]);
    const newRole = { instructions: "Do as you like.", tools: ["a", "b"] };
    const middle = part(
      "middle",
      [
        calls({ toolName: SPAWN_TOOL_NAME, arguments: { role: "own", task: "Work.", newRole } }),
        says("Ok."),
      ],
      { dynamicRoles: { tools: [a, b], models: { small: written } } },
    );
    const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
      subagents: [middle.role],
      contextPolicy: { deniedTools: ["b"] },
    });
    const s = newFixture();
    await s.run(lead.role);
    expect(written.requests[0]?.tools.map(({ name }) => name)).toEqual(["a"]);
    expect(removedByEvent(s)).toEqual([[], [removed("b", "denied")]]);
  });

  test("bind and inform a background subagent", async () => {
    const helper = part("helper", [says("Ok.")], { tools: [a, b] });
    const call = {
      toolName: SPAWN_TOOL_NAME,
      arguments: { role: "helper", task: "Work.", background: true },
    };
    const lead = part("lead", [calls(call), says("Waiting."), says("Done.")], {
      subagents: [helper.role],
      delegation: { background: true },
      contextPolicy: { deniedTools: ["b"] },
    });
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([offered(helper), texts(helper).length]).toEqual([["a"], 1]);
    expect(removedByReport(result)).toEqual([[], [removed("b", "denied")]]);
  });

  test("bind a second execution of a subagent", async () => {
    const helper = part("helper", [says("One."), says("Two.")], { tools: [a, b, c] });
    const once = { toolName: "delegate", arguments: { deniedTools: ["c"] } };
    const lead = part("lead", [calls(once), calls(again), says("Done.")], {
      subagents: [helper.role],
      tools: [delegate],
      contextPolicy: { deniedTools: ["b"] },
    });
    const result = await newFixture().run(lead.role);
    const names = helper.model.requests.map(({ tools }) => tools.map(({ name }) => name));
    expect(names).toEqual([["a"], ["a"]]);
    expect(removedByReport(result)).toEqual([[], [removed("b", "denied"), removed("c", "denied")]]);
  });

  test("bind both continued and restarted subagents of a fork", async () => {
    const helper = part("helper", [says("One."), says("Two.")], { tools: [a, b, c] });
    const once = { toolName: "delegate", arguments: { deniedTools: ["c"] } };
    const script = [calls(once), says("Done."), calls(spawn("helper")), says("Done once more.")];
    const lead = part("lead", script, {
      subagents: [helper.role],
      tools: [delegate],
      contextPolicy: { deniedTools: ["b"] },
    });
    const s = newFixture({ roles: [lead.role] });
    const run = s.start(lead.role);
    await s.outcome(run);
    const fork = s.orchestrator.fork(run.snapshot(), { atStep: 1, message: "Again." });
    const result = await s.outcome(fork);
    const names = helper.model.requests.map(({ tools }) => tools.map(({ name }) => name));
    expect(names).toEqual([["a"], ["a", "c"]]);
    const [denied, asked] = [removed("b", "denied"), removed("c", "denied")];
    expect(removedByReport(result)).toEqual([[], [denied, asked], [denied]]);
  });
});
