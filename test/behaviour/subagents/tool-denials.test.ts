// Goal: no agent uses a tool that an ancestor denied, whatever roles, requests and pauses come in
// between. Each removal is recorded with its reason, and the agent is told about it.
// Method: real runs with scripted models; offered tools, events, reports and results compared in
// full.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { SPAWN_TOOL_NAME } from "../../../src/agent/agent-role.ts";
import { FINISH_TOOL_NAME } from "../../../src/protocol/tool-rule.ts";
import type { SubagentContextPolicy } from "../../../src/policies/subagent-context-policy.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { thrownBy } from "../../support/thrown.ts";
import {
  calls,
  part,
  spawn,
  receivedTexts,
  tool,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";
import { offered, removed, removedByEvent, removedByReport, texts } from "./tool-audit.ts";

const a = tool("a", () => "A.");
const b = tool("b", () => "B.");
const c = tool("c", () => "C.");

/** A lead with the given policy, and a helper with the tools a, b and c. */
function pair(context: Partial<SubagentContextPolicy>): {
  readonly lead: Part;
  readonly helper: Part;
} {
  const helper = part("helper", [says("Ok.")], { tools: [a, b, c] });
  const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
    subagents: [helper.role],
    tools: [a],
    contextPolicy: context,
  });
  return { lead, helper };
}

const CANNOT =
  "Tools that you cannot use, even if your instructions mention them. Do without them, or say what is missing:";

describe("the tool lists of one parent", () => {
  proves(
    ["R131", "R132", "R133", "R134"],
    "leave a child only `a` if `a` and `b` are allowed and `b` is denied",
    async () => {
      const { lead, helper } = pair({ allowedTools: ["a", "b"], deniedTools: ["b"] });
      const s = newFixture();
      const result = await s.run(lead.role);
      const gone = [removed("b", "conflict"), removed("c", "not_allowed")];
      expect(offered(helper)).toEqual(["a"]);
      expect(removedByEvent(s)).toEqual([gone]);
      expect(removedByReport(result)).toEqual([[], gone]);
      expect(texts(helper)).toEqual([
        [CANNOT, "- b: denied by lead", "- c: not among the tools that lead allows"].join("\n"),
      ]);
    },
  );

  proves(["R131"], "leave a child all tools of its role if there are none", async () => {
    const { lead, helper } = pair({});
    const s = newFixture();
    await s.run(lead.role);
    expect([offered(helper), removedByEvent(s), texts(helper)]).toEqual([
      ["a", "b", "c"],
      [[]],
      [],
    ]);
  });

  proves(["R131"], "leave a child no tools if the allowed list is empty", async () => {
    const { lead, helper } = pair({ allowedTools: [] });
    const s = newFixture();
    await s.run(lead.role);
    const gone = ["a", "b", "c"].map((name) => removed(name, "not_allowed"));
    expect([offered(helper), removedByEvent(s)]).toEqual([[], [gone]]);
  });

  test("leave a child no tools if all of them are denied", async () => {
    const { lead, helper } = pair({ deniedTools: ["c", "b", "a"] });
    const s = newFixture();
    await s.run(lead.role);
    const gone = ["a", "b", "c"].map((name) => removed(name, "denied"));
    expect([offered(helper), removedByEvent(s)]).toEqual([[], [gone]]);
  });

  proves(
    ["R134"],
    "are not reported to the child with `reportRemovedTools: false`, but still apply",
    async () => {
      const { lead, helper } = pair({ deniedTools: ["b"], reportRemovedTools: false });
      const s = newFixture();
      await s.run(lead.role);
      expect([offered(helper), texts(helper), removedByEvent(s)]).toEqual([
        ["a", "c"],
        [],
        [[removed("b", "denied")]],
      ]);
    },
  );

  test("bind the descendants and not the parent itself", async () => {
    const helper = part("helper", [says("Ok.")], { tools: [a] });
    const lead = part("lead", [calls(use("a")), calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
      tools: [a],
      contextPolicy: { deniedTools: ["a"] },
    });
    const result = await newFixture().run(lead.role);
    expect(offered(lead)).toEqual(["a", SPAWN_TOOL_NAME]);
    expect(offered(helper)).toEqual([]);
    expect(result.agents[0]?.toolsUsed).toEqual({ a: 1, [SPAWN_TOOL_NAME]: 1 });
  });

  proves(["R131"], "never remove the `Finish` tool", async () => {
    const helper = part("helper", [calls({ toolName: FINISH_TOOL_NAME, arguments: { n: 1 } })], {
      tools: [a],
      output: z.object({ n: z.number() }),
    });
    const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
      contextPolicy: { allowedTools: [] },
    });
    const result = await newFixture().run(lead.role);
    expect(offered(helper)).toEqual([FINISH_TOOL_NAME]);
    expect(result.agents[1]?.output).toEqual({ n: 1 });
  });

  test("apply to each of two parallel children by the tools of its role", async () => {
    const left = part("left", [says("Left.")], { tools: [a, b] });
    const right = part("right", [says("Right.")], { tools: [b, c] });
    const lead = part("lead", [calls(spawn("left"), spawn("right")), says("Done.")], {
      subagents: [left.role, right.role],
      contextPolicy: { deniedTools: ["b"] },
    });
    const s = newFixture();
    await s.run(lead.role);
    expect([offered(left), offered(right)]).toEqual([["a"], ["c"]]);
    expect(removedByEvent(s)).toEqual([[removed("b", "denied")], [removed("b", "denied")]]);
  });

  test("do not change the role for agents that they do not bind", async () => {
    const helper = part("helper", [says("Free."), says("Bound.")], { tools: [a, b] });
    const boss = part("boss", [calls(spawn("helper")), says("Ok.")], {
      subagents: [helper.role],
      contextPolicy: { deniedTools: ["b"] },
    });
    const lead = part("lead", [calls(spawn("helper")), calls(spawn("boss")), says("Done.")], {
      subagents: [helper.role, boss.role],
    });
    await newFixture().run(lead.role);
    expect(helper.model.requests.map(({ tools }) => tools.map(({ name }) => name))).toEqual([
      ["a", "b"],
      ["a"],
    ]);
  });
});

describe("tools of a grandchild", () => {
  proves(
    ["R131", "R132"],
    "remain denied by the grandparent, whatever its parent allows",
    async () => {
      const leaf = part("leaf", [calls(use("b")), says("Leaf.")], { tools: [a, b, c] });
      const middle = part("middle", [calls(spawn("leaf")), says("Middle.")], {
        subagents: [leaf.role],
        tools: [b],
        contextPolicy: { allowedTools: ["a", "b"] },
      });
      const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
        subagents: [middle.role],
        contextPolicy: { deniedTools: ["b"] },
      });
      const s = newFixture();
      await s.run(lead.role);
      expect([offered(middle), offered(leaf)]).toEqual([[SPAWN_TOOL_NAME], ["a"]]);
      expect(removedByEvent(s)).toEqual([
        [removed("b", "denied")],
        [removed("b", "denied"), removed("c", "not_allowed", "lead/middle#1")],
      ]);
      expect(receivedTexts(leaf.model.requests[1])).toEqual([
        "Not executed: you cannot use b (denied by lead). Your tools are: a.",
      ]);
    },
  );

  test("do not exist if its parent may not start subagents", async () => {
    const leaf = part("leaf", [says("Leaf.")]);
    const middle = part("middle", [calls(spawn("leaf")), says("Alone, then.")], {
      subagents: [leaf.role],
    });
    const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
      subagents: [middle.role],
      contextPolicy: { deniedTools: [SPAWN_TOOL_NAME] },
    });
    const result = await newFixture().run(lead.role);
    expect([offered(middle), leaf.model.requests]).toEqual([[], []]);
    expect(result.agents.map(({ agentPath }) => agentPath)).toEqual(["lead", "lead/middle#1"]);
    expect(receivedTexts(middle.model.requests[1])).toEqual([
      "Not executed: you cannot use SpawnSubagent (denied by lead). You have no tools in this step; answer in text.",
    ]);
  });

  test("exclude spawn tools at the depth limit, and the removal names the limit", async () => {
    const node = part(
      "node",
      (request) =>
        request.messages.some(({ role }) => role === "tool") ? says("Up.") : calls(spawn("node")),
      { subagents: ["node"], tools: [a] },
    );
    const s = newFixture({ limits: { maxDepth: 2 } });
    const result = await s.run(node.role);
    expect(removedByEvent(s)).toEqual([[], [removed(SPAWN_TOOL_NAME, "no_depth_left", "node")]]);
    expect(node.model.requests[2]?.tools.map(({ name }) => name)).toEqual(["a"]);
    expect(node.model.requests[2]?.messages[1]?.text).toBe(
      [CANNOT, "- SpawnSubagent: you may not start subagents"].join("\n"),
    );
    expect(result.refusalsByCode).toEqual({ depth_limit: 1 });
    expect(receivedTexts(node.model.requests[3])).toEqual([
      "Not started: subagents may be at depth 2 at most and you are at depth 2. Do this part yourself with your own tools.",
    ]);
  });

  test("exclude spawn tools at the depth limit of a role, and the removal names the agent that set it", async () => {
    const leaf = part("leaf", [says("Leaf.")], { subagents: ["leaf"] });
    const middle = part("middle", [calls(spawn("leaf")), says("Middle.")], {
      subagents: [leaf.role],
      limits: { maxDepth: 2 },
    });
    const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
      subagents: [middle.role],
    });
    const s = newFixture();
    await s.run(lead.role);
    expect(removedByEvent(s)).toEqual([
      [],
      [removed(SPAWN_TOOL_NAME, "no_depth_left", "lead/middle#1")],
    ]);
  });

  test("exclude the background tools together with `SpawnSubagent`", async () => {
    const helper = part("helper", [says("Ok.")], {
      subagents: ["helper"],
      delegation: { background: true },
    });
    const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
    });
    const s = newFixture({ limits: { maxDepth: 1 } });
    await s.run(lead.role);
    expect(offered(helper)).toEqual([]);
    expect(removedByEvent(s)[0]?.map(({ toolName, rule }) => [toolName, rule])).toEqual(
      [
        SPAWN_TOOL_NAME,
        "ListSubagents",
        "WaitForSubagents",
        "MessageSubagent",
        "CancelSubagent",
      ].map((name) => [name, "no_depth_left"]),
    );
  });
});

describe("a call of a removed tool", () => {
  test("returns an explanation, counts as an error, and reaches neither guard nor tool", async () => {
    const guarded: string[] = [];
    const guard = toolGuard(({ toolName }, { agentPath }) => {
      guarded.push(`${agentPath} ${toolName}`);
      return { type: "allow" };
    });
    const helper = part("helper", [calls(use("b"), use("a")), says("Ok.")], { tools: [a, b] });
    const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
      contextPolicy: { deniedTools: ["b"] },
      guards: [guard],
    });
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(guarded).toEqual(["lead SpawnSubagent", "lead/helper#1 a"]);
    expect(receivedTexts(helper.model.requests[1])).toEqual([
      "Not executed: you cannot use b (denied by lead). Your tools are: a.",
      "A.",
    ]);
    expect(
      result.agents[1]?.toolErrors.map(({ toolName, code, severity }) => [
        toolName,
        code,
        severity,
      ]),
    ).toEqual([["b", "tool_not_available", "recoverable"]]);
    const [rejected] = s.sink.ofType("tool.rejected").filter(({ toolName }) => toolName === "b");
    expect([rejected?.outcome, rejected?.error.code, rejected?.blockedBy]).toEqual([
      "refused",
      "tool_not_available",
      "lead",
    ]);
    expect(result.agents[1]?.toolsUsed).toEqual({ a: 1 });
  });

  test("is still an unknown tool if no tool has its name", async () => {
    const helper = part("helper", [calls(use("x")), says("Ok.")], { tools: [a, b] });
    const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
      contextPolicy: { deniedTools: ["b"] },
    });
    await newFixture().run(lead.role);
    expect(receivedTexts(helper.model.requests[1])).toEqual([
      'There is no tool named "x". Your tools are: a.',
    ]);
  });
});

describe("an unknown name in a tool list", () => {
  const helper = part("helper", [], { tools: [a, b] });

  const SLIPS: readonly (readonly [string, Partial<SubagentContextPolicy>, string])[] = [
    ["denied", { deniedTools: ["a", "B"] }, "deniedTools[1]"],
    ["allowed", { allowedTools: ["x"] }, "allowedTools[0]"],
    ["that only the parent itself has", { deniedTools: ["c"] }, "deniedTools[0]"],
  ];

  for (const [what, context, field] of SLIPS) {
    test(`${what} is refused before the run starts, with the field and the path`, () => {
      const middle = part("middle", [], {
        subagents: [helper.role],
        tools: [c],
        contextPolicy: context,
      });
      const lead = part("lead", [], { subagents: [middle.role] });
      const s = newFixture();
      const { code, data, message } = thrownBy(() => s.start(lead.role));
      const [got] = [...(context.allowedTools ?? []), ...(context.deniedTools ?? [])].slice(-1);
      expect([code, data]).toEqual([
        "unknown_tool",
        { field: `middle.contextPolicy.${field}`, path: "lead/middle", got },
      ]);
      expect(message).toBe(
        `Expected middle.contextPolicy.${field} to be a tool of an agent below lead/middle (a, b), got "${got}". Name tools as the model calls them, or leave it out.`,
      );
      expect(s.sink.events).toEqual([]);
    });
  }

  test("is not reported for tools of grandchildren, `SpawnSubagent` and `Finish`, or without subagents", async () => {
    const middle = part("middle", [says("Middle.")], { subagents: [helper.role] });
    const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
      subagents: [middle.role],
      contextPolicy: { allowedTools: ["a", FINISH_TOOL_NAME], deniedTools: [SPAWN_TOOL_NAME] },
    });
    expect((await newFixture().run(lead.role)).status).toBe("completed");
    const alone = part("alone", [says("Alone.")], { contextPolicy: { deniedTools: ["x"] } });
    expect((await newFixture().run(alone.role)).status).toBe("completed");
  });

  test("is not reported for own tools of a role that can start itself", async () => {
    const node = part("node", [says("Done.")], {
      subagents: ["node"],
      tools: [a],
      contextPolicy: { deniedTools: ["a", SPAWN_TOOL_NAME] },
    });
    expect((await newFixture().run(node.role)).status).toBe("completed");
  });
});
