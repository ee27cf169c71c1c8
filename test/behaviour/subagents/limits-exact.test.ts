// Goal: limits of a tree are exact. The last allowed subagent runs and the next one is refused
// before an approval and a model call; a failed start uses no place.
// Method: several values for each limit, with as many requests as fit and one more, in parallel and
// in sequence, at one and at several levels. Agents, refusals and counts are compared in full.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { approve } from "../../../src/protocol/question.ts";
import { says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { BreakingWorld, throwingAt } from "../../support/peers-broken-world.ts";
import { another, byTurn, several } from "../../support/peers-agents.ts";
import {
  byTask,
  calls,
  ends,
  part,
  spawn,
  until,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";
import { removed, removedByReport } from "./tool-audit.ts";

/** Requires an approval for every delegation. */
const ASKS = toolGuard(() => ({ type: "ask", reason: "Somebody has to say so." }), {
  tools: ["SpawnSubagent"],
});

describe("the depth limit", () => {
  for (const maxDepth of [0, 1, 2, 3]) {
    proves(
      ["R137"],
      `${maxDepth} allows that depth, and refuses one deeper before an approval and a model call`,
      async () => {
        const node = chainOf("node");
        const askedBy: string[] = [];
        const s = newFixture({
          limits: { maxDepth },
          guards: [ASKS],
          approver: (question) => {
            askedBy.push(question.agentPath);
            return approve(question);
          },
        });
        const result = await s.run(node.role);
        const paths = [0, 1, 2, 3].map((depth) => `node${"/node#1".repeat(depth)}`);
        expect(result.agents.map(({ agentPath, depth }) => [agentPath, depth])).toEqual(
          paths.slice(0, maxDepth + 1).map((path, depth) => [path, depth]),
        );
        expect(refusals(s)).toEqual([[paths[maxDepth], "depth_limit", maxDepth, maxDepth]]);
        expect(askedBy).toEqual(paths.slice(0, maxDepth));
        expect(s.sink.ofType("question.asked").map(({ agentPath }) => agentPath)).toEqual(askedBy);
        expect(node.model.requests).toHaveLength(2 * (maxDepth + 1));
        expect(result.accounts.map(({ agentPath: path }) => path)).toEqual(
          paths.slice(0, maxDepth + 1),
        );
      },
    );
  }

  test("causes a refusal instead of a pause if the delegation is impossible", async () => {
    const node = chainOf("node");
    const s = newFixture({ limits: { maxDepth: 0 }, guards: [ASKS] });
    const result = await s.run(node.role);
    expect([result.status, result.questions, result.refusalsByCode]).toEqual([
      "completed",
      [],
      { depth_limit: 1 },
    ]);
  });

  for (const [whose, options, limits] of [
    ["the run", { limits: { maxDepth: 0 } }, {}],
    ["the role", {}, { maxDepth: 0 }],
  ] as const)
    test(`hides the spawn tools of a root if that of ${whose} is 0, also after a pause`, async () => {
      const pay = payTool();
      const helper = part("helper", []);
      const script = [
        calls({ toolName: "pay", arguments: { amount: 1 } }),
        calls(spawn("helper")),
        says("Done."),
      ];
      const lead = part("lead", script, { subagents: [helper.role], tools: [pay], limits });
      const s = newFixture(options);
      const paused = await s.run(lead.role);
      const result = await s.outcome(s.resume(lead.role, paused.pausedRun, approveAll(paused)));
      const tools = lead.model.requests.map((request) => request.tools.map(({ name }) => name));
      expect(tools).toEqual([["pay"], ["pay"], ["pay"]]);
      const hidden = [removed("SpawnSubagent", "no_depth_left")];
      expect([removedByReport(paused), removedByReport(result)]).toEqual([[hidden], [hidden]]);
      expect([result.status, result.refusalsByCode]).toEqual(["completed", { depth_limit: 1 }]);
    });
});

describe("the breadth limit", () => {
  for (const limit of [1, 2, 5]) {
    for (const how of ["at once", "one after the other"] as const) {
      proves(
        ["R138"],
        `${limit} refuses each parent one child more, ${how}, and counts per parent`,
        async () => {
          const helper = part("helper", () => says("Ok."));
          const [replies, callsOfEach] = how === "at once" ? [1, limit + 1] : [limit + 1, 1];
          const asking = (role: string): ReturnType<typeof byTurn> => {
            const ask = (): ScriptedReply => several(callsOfEach, role);
            return byTurn([...times(replies, ask), says("Done.")]);
          };
          const manager = part("manager", asking("helper"), { subagents: [helper.role] });
          const lead = part("lead", asking("manager"), { subagents: [manager.role] });
          const s = newFixture({ limits: { maxBreadthPerParent: limit, maxTotalSubagents: 100 } });
          const result = await s.run(lead.role);
          const managers = Array.from({ length: limit }, (_one, at) => `lead/manager#${at + 1}`);
          expect(refusals(s).toSorted(byPath)).toEqual(
            ["lead", ...managers].map((path) => [path, "breadth_limit", limit, limit]),
          );
          expect([result.subagentsByDepth, helper.model.requests.length]).toEqual([
            { 1: limit, 2: limit * limit },
            limit * limit,
          ]);
        },
      );
    }
  }
});

describe("the total limit", () => {
  for (const limit of [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]) {
    proves(
      ["R139", "R141"],
      `${limit} starts the first of eight parallel spawns, and refuses the rest`,
      async () => {
        const s = newFixture({ limits: { maxTotalSubagents: limit, maxBreadthPerParent: 8 } });
        const held = latch();
        const helper = part("helper", () => says("Ok.", { after: held.opened }));
        const lead = part("lead", [calls(...times(8, spawn("helper"))), says("Done.")], {
          subagents: [helper.role],
        });
        const run = s.start(lead.role);
        const started = Math.min(limit, 8);
        await until(() => helper.model.requests.length === started);
        held.open();
        const result = await s.outcome(run);
        expect(result.agents.slice(1).map(({ agentPath }) => agentPath)).toEqual(
          Array.from({ length: started }, (_one, index) => `lead/helper#${index + 1}`),
        );
        expect(refusals(s)).toEqual(times(8 - started, ["lead", "total_limit", limit, limit]));
        expect(helper.model.requests).toHaveLength(started);
      },
    );
  }

  proves(
    ["R139", "R141"],
    "is shared by parents at two levels that spawn in parallel",
    async () => {
      const rows: unknown[] = [];
      for (const maxTotalSubagents of [0, 1, 2, 3, 5, 7, 8, 9]) {
        const helper = part("helper", () => says("Ok."));
        const manager = part("manager", byTurn([() => several(2, "helper"), says("Managed.")]), {
          subagents: [helper.role],
        });
        const four = calls(...times(2, spawn("manager")), ...times(2, spawn("helper")));
        const lead = part("lead", [four, says("Done.")], {
          subagents: [manager.role, helper.role],
        });
        const result = await newFixture({ limits: { maxTotalSubagents } }).run(lead.role);
        expect(new Set(ends(result))).toEqual(new Set(["completed"]));
        rows.push([maxTotalSubagents, result.subagentsByDepth, result.refusalsByCode]);
      }
      expect(rows).toEqual([
        [0, {}, { total_limit: 4 }],
        [1, { 1: 1 }, { total_limit: 5 }],
        [2, { 1: 2 }, { total_limit: 6 }],
        [3, { 1: 3 }, { total_limit: 5 }],
        [5, { 1: 4, 2: 1 }, { total_limit: 3 }],
        [7, { 1: 4, 2: 3 }, { total_limit: 1 }],
        [8, { 1: 4, 2: 4 }, {}],
        [9, { 1: 4, 2: 4 }, {}],
      ]);
    },
  );
});

describe("a failed setup of a subagent", () => {
  proves(["R141"], "frees its place once for the next spawn of the same reply", async () => {
    // Of eight calls the first and the fourth fail; the second, third and fifth fill the total.
    const s = newFixture({
      limits: { maxTotalSubagents: 3, maxBreadthPerParent: 8 },
      ids: throwingAt("agent_2", "agent_5"),
    });
    const helper = part("helper", () => says("Ok."));
    const lead = part("lead", [calls(...times(8, spawn("helper"))), says("Done.")], {
      subagents: [helper.role],
    });
    const result = await s.run(lead.role);
    expect(refusals(s).map((refusal) => refusal[1])).toEqual([
      "setup_failed",
      "setup_failed",
      ...times(3, "total_limit"),
    ]);
    expect([result.subagentsByDepth, result.refusalsByCode]).toEqual([
      { 1: 3 },
      { setup_failed: 2, total_limit: 3 },
    ]);
    const paths = ["lead", "lead/helper#2", "lead/helper#3", "lead/helper#5"];
    expect(result.agents.map(({ agentPath }) => agentPath)).toEqual(paths);
    expect(result.accounts.map(({ agentPath: path }) => path)).toEqual(paths);
  });

  for (const [what, breaks] of [
    ["the agent's id was given out before, which the ledger refuses,", "ids"],
    ["the clock breaks when its deadline is to be watched, its account being open,", "setTimer"],
  ] as const) {
    proves(
      ["R141"],
      `since ${what} leaves no account and no count, and the run can pause and resume`,
      async () => {
        const world = new BreakingWorld();
        const pay = payTool();
        const helper = part("helper", () => says("Ok."), { budget: { timeMs: 1_000 } });
        const breaker = defineDelegation({
          name: "break",
          description: "Starts a helper while something is broken.",
          inputSchema: z.object({}),
          execute: async (_input, context) => {
            world.breaks = breaks;
            return await context.spawn({ role: "helper", task: "Work." });
          },
        });
        const script = [
          calls(use("break")),
          calls(spawn("helper"), { toolName: "pay", arguments: { amount: 1 } }),
          calls(spawn("helper")),
          says("Done."),
        ];
        const lead = part("lead", script, { subagents: [helper.role], tools: [breaker, pay] });
        const s = newFixture({ clock: world, ids: world.ids, limits: { maxTotalSubagents: 1 } });
        const paused = await s.run(lead.role);
        expect([paused.status, paused.refusalsByCode, paused.subagentsByDepth]).toEqual([
          "paused",
          { setup_failed: 1 },
          { 1: 1 },
        ]);
        expect(paused.accounts.map(({ agentPath: path }) => path)).toEqual(
          paused.agents.map(({ agentPath }) => agentPath),
        );
        const resumed = s.resume(lead.role, paused.pausedRun, approveAll(paused));
        const result = await s.outcome(resumed);
        expect([ends(result), result.refusalsByCode, pay.paid]).toEqual([
          ["completed", "completed"],
          { setup_failed: 1, total_limit: 1 },
          [1],
        ]);
      },
    );
  }
});

describe("counts of subagents per depth", () => {
  proves(
    ["R140"],
    "appear in every spawn event, the pause, the end and the result, without refused ones",
    async () => {
      const pay = payTool();
      const three = part("three", () => says("Three."));
      const two = part(
        "two",
        byTask({
          "Start two.": [calls(spawn("three"), spawn("three")), says("Two.")],
          "Start one.": [calls(spawn("three"), spawn("ghost")), says("Two.")],
        }),
        { subagents: [three.role] },
      );
      const one = part(
        "one",
        [calls(spawn("two", "Start two."), spawn("two", "Start one.")), says("One.")],
        { subagents: [two.role] },
      );
      const script = [
        calls(spawn("one")),
        calls({ toolName: "pay", arguments: { amount: 1 } }),
        calls(spawn("nobody")),
        says("Done."),
      ];
      const root = part("root", script, { subagents: [one.role], tools: [pay] });
      const s = newFixture();
      const paused = await s.run(root.role);
      const counts = { 1: 1, 2: 2, 3: 3 };
      expect(paused.subagentsByDepth).toEqual(counts);
      const result = await s.outcome(s.resume(root.role, paused.pausedRun, approveAll(paused)));
      expect([result.subagentsByDepth, result.refusalsByCode]).toEqual([
        counts,
        { unknown_role: 2 },
      ]);
      expect(s.sink.ofType("run.ended")[0]?.subagentsByDepth).toEqual(counts);
      expect(
        s.sink.ofType("subagent.spawned").map(({ subagentsByDepth }) => subagentsByDepth),
      ).toEqual([
        { 1: 1 },
        { 1: 1, 2: 1 },
        { 1: 1, 2: 2 },
        { 1: 1, 2: 2, 3: 1 },
        { 1: 1, 2: 2, 3: 2 },
        { 1: 1, 2: 2, 3: 3 },
      ]);
    },
  );
});

/** A role whose agents start one of the same role each, as deep as allowed. */
function chainOf(name: string): Part {
  const script = byTurn([() => calls(another(name)), says("Done.")]);
  return part(name, script, { subagents: [name] });
}

function refusals({ sink }: Fixture): readonly (readonly unknown[])[] {
  return sink
    .ofType("subagent.refused")
    .map(({ agentPath, error }) => [agentPath, error.code, error.current, error.maximum]);
}

function byPath(left: readonly unknown[], right: readonly unknown[]): number {
  return String(left[0]).localeCompare(String(right[0]));
}

function times<T>(count: number, value: T): readonly T[] {
  return Array.from({ length: count }, () => value);
}
