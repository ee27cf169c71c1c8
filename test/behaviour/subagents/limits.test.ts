// Goal: no tree exceeds its limits, whichever agents spawn and however many in parallel; a refusal
// is an instruction.
// Method: real runs that request one subagent more than allowed; refusals, counts and requests
// compared in full.

import { describe, expect, test } from "vitest";

import type { IdSource } from "../../../src/kernel/id-source.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { SubagentLimits } from "../../../src/policies/subagent-limits.ts";
import { formatEventTree } from "../../../src/testing/event-tree.ts";
import { says, type ScriptedCall } from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import {
  byTask,
  calls,
  part,
  spawn,
  receivedTexts,
  type Part,
} from "../../harness/scripted-agents.ts";

describe("the limits of a tree", () => {
  proves(["R137"], "allow a subagent at the maximum depth, and refuse one below it", async () => {
    const node = chainOf("node");
    const s = newFixture();
    const result = await s.run(node.role);
    expect(formatEventTree(s.sink.events)).toBe(
      [
        "node completed (completed) 2 steps, 30 of 120 tokens",
        "├─ step 1 asked for 1",
        "│  └─ SpawnSubagent succeeded",
        "│     └─ node/node#1 completed (completed) 2 steps, 30 of 90 tokens",
        "│        ├─ step 1 asked for 1",
        "│        │  └─ SpawnSubagent succeeded",
        "│        │     └─ node/node#1/node#1 completed (completed) 2 steps, 30 of 60 tokens",
        "│        │        ├─ step 1 asked for 1",
        "│        │        │  └─ SpawnSubagent succeeded",
        "│        │        │     └─ node/node#1/node#1/node#1 completed (completed) 2 steps, 30 of 30 tokens",
        "│        │        │        ├─ step 1 asked for 1",
        "│        │        │        │  └─ SpawnSubagent refused (depth_limit)",
        "│        │        │        └─ step 2 answered",
        "│        │        └─ step 2 answered",
        "│        └─ step 2 answered",
        "└─ step 2 answered",
      ].join("\n"),
    );
    expect(node.model.requests).toHaveLength(8);
    expect(result.agents.map((agent) => agent.depth)).toEqual([0, 1, 2, 3]);
  });

  proves(
    ["R138"],
    "refuse the sixth child of one parent while another parent still starts one",
    async () => {
      const helper = part("helper", () => says("Ok."));
      const manager = part("manager", [calls(spawn("helper")), says("Managed.")], {
        subagents: [helper.role],
      });
      const six = [spawn("manager"), ...times(5, spawn("helper"))];
      const lead = part("lead", [calls(...six), says("Done.")], {
        subagents: [manager.role, helper.role],
      });
      const s = newFixture();
      const result = await s.run(lead.role);
      expect(refusals(s)).toEqual([["lead", "breadth_limit", 5, 5]]);
      expect(result.agents.map((agent) => agent.agentPath)).toEqual([
        "lead",
        "lead/manager#1",
        "lead/helper#1",
        "lead/helper#2",
        "lead/helper#3",
        "lead/helper#4",
        "lead/manager#1/helper#1",
      ]);
    },
  );

  proves(
    ["R139"],
    "refuse the eleventh subagent anywhere, even after the first ten have ended",
    async () => {
      const helper = part("helper", () => says("Ok."));
      const manager = part("manager", [calls(spawn("helper")), says("Alone, then.")], {
        subagents: [helper.role],
      });
      const oneByOne = times(9, calls(spawn("helper")));
      const script = [...oneByOne, calls(spawn("manager")), calls(spawn("helper")), says("Done.")];
      const lead = part("lead", script, { subagents: [helper.role, manager.role] });
      const s = newFixture({ limits: { maxBreadthPerParent: 20 } });
      const result = await s.run(lead.role);
      expect(result.agents).toHaveLength(11);
      expect(refusals(s)).toEqual([
        ["lead/manager#1", "total_limit", 10, 10],
        ["lead", "total_limit", 10, 10],
      ]);
      expect(helper.model.requests).toHaveLength(9);
    },
  );

  proves(["R140"], "count subagents by depth in spawn events and in the result", async () => {
    const leaf = part("leaf", () => says("Leaf."));
    const middle = part("middle", () => says("Middle."), { subagents: [leaf.role] });
    const top = part("top", byTask({ "Work.": [calls(spawn("middle")), says("Top.")] }), {
      subagents: [middle.role],
    });
    const busy = part("busy", [calls(spawn("leaf"), spawn("leaf")), says("Busy.")], {
      subagents: [leaf.role],
    });
    const lead = part(
      "lead",
      [calls(spawn("top"), spawn("top")), calls(spawn("busy")), says("Done.")],
      {
        subagents: [top.role, busy.role],
      },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(result.subagentsByDepth).toEqual({ 1: 3, 2: 4 });
    expect(s.sink.ofType("subagent.spawned").map((event) => event.subagentsByDepth)).toEqual([
      { 1: 1 },
      { 1: 2 },
      { 1: 2, 2: 1 },
      { 1: 2, 2: 2 },
      { 1: 3, 2: 2 },
      { 1: 3, 2: 3 },
      { 1: 3, 2: 4 },
    ]);
    expect(s.sink.ofType("run.ended").map((event) => event.subagentsByDepth)).toEqual([
      { 1: 3, 2: 4 },
    ]);
  });

  test("apply to each run separately", async () => {
    const helper = part("helper", () => says("Ok."));
    const lead = part(
      "lead",
      byTask({ "Do it.": [calls(spawn("helper"), spawn("helper")), says("Done.")] }),
      {
        subagents: [helper.role],
      },
    );
    const s = newFixture({ limits: { maxTotalSubagents: 1 } });
    const runs = [s.start(lead.role), s.start(lead.role)];
    const results = await Promise.all(runs.map((run) => s.outcome(run)));
    expect(results.map((result) => [result.agents.length, result.refusalsByCode])).toEqual([
      [2, { total_limit: 1 }],
      [2, { total_limit: 1 }],
    ]);
  });
});

describe("limits under parallel spawns", () => {
  proves(
    ["R141"],
    "allow exactly three of eight spawns in one reply under a total of three",
    async () => {
      const { result, s, helper, lead } = await leadAsksFor(times(8, spawn("helper")), {
        maxTotalSubagents: 3,
        maxBreadthPerParent: 8,
      });
      expect(result.agents.map((agent) => agent.agentPath)).toEqual([
        "lead",
        "lead/helper#1",
        "lead/helper#2",
        "lead/helper#3",
      ]);
      expect(refusals(s)).toEqual(times(5, ["lead", "total_limit", 3, 3]));
      expect(result.refusalsByCode).toEqual({ total_limit: 5 });
      expect(helper.model.requests).toHaveLength(3);
      expect(
        receivedTexts(lead.model.requests[1]).map((text) => text.startsWith("Not started")),
      ).toEqual([...times(3, false), ...times(5, true)]);
    },
  );

  proves(["R141"], "are shared by parents that spawn in parallel", async () => {
    const leaf = part("leaf", () => says("Leaf."));
    const twice = calls(spawn("leaf"), spawn("leaf"));
    const pair = part("pair", byTask({ "Work.": [twice, says("Pair.")] }), {
      subagents: [leaf.role],
    });
    const lead = part("lead", [calls(...times(3, spawn("pair"))), says("Done.")], {
      subagents: [pair.role],
    });
    const s = newFixture({ limits: { maxTotalSubagents: 7 } });
    const result = await s.run(lead.role);
    expect([result.subagentsByDepth, result.refusalsByCode]).toEqual([
      { 1: 3, 2: 4 },
      { total_limit: 2 },
    ]);
    expect(leaf.model.requests).toHaveLength(4);
  });

  for (const [what, failing] of [
    ["the child's agent id", "agent_2"],
    ["the child's execution id", "execution_2"],
  ] as const) {
    for (const limit of ["maxTotalSubagents", "maxBreadthPerParent"] as const) {
      proves(
        ["R141"],
        `release the slot once if the setup fails at ${what} (${limit})`,
        async () => {
          const ids = throwingAt(failing);
          const four = times(4, spawn("helper"));
          const { result, s, helper, lead } = await leadAsksFor(four, { [limit]: 2 }, ids);
          expect(helper.model.requests).toHaveLength(2);
          const code = limit === "maxTotalSubagents" ? "total_limit" : "breadth_limit";
          expect(refusals(s)).toEqual([
            ["lead", "setup_failed", undefined, undefined],
            ["lead", code, 2, 2],
          ]);
          expect(result.refusalsByCode).toEqual({ setup_failed: 1, [code]: 1 });
          expect(result.subagentsByDepth).toEqual({ 1: 2 });
          const paths = result.accounts.map((account) => account.agentPath);
          expect(paths).toEqual(["lead", "lead/helper#2", "lead/helper#3"]);
          expect(receivedTexts(lead.model.requests[1])[0]).toBe(
            "Not started: setting helper up failed (no more ids). Do this part yourself.",
          );
        },
      );
    }
  }

  test("report a duplicate agent id as a failed setup", async () => {
    const sequential = sequentialIds();
    const ids: IdSource = {
      next: (kind) => (kind === "agent" ? "agent_always" : sequential.next(kind)),
    };
    const { result, s } = await leadAsksFor([spawn("helper")], {}, ids);
    expect(result.agents.map((agent) => [agent.agentPath, agent.status])).toEqual([
      ["lead", "completed"],
    ]);
    expect(refusals(s)).toEqual([["lead", "setup_failed", undefined, undefined]]);
  });

  test("let `start` throw if the id source fails for the root", () => {
    const helper = part("helper", []);
    const ids = throwingAt("agent_1");
    expect(() => newFixture({ ids }).start(helper.role)).toThrow("no more ids");
    expect(helper.model.requests).toEqual([]);
  });
});

describe("limits of zero", () => {
  for (const [limit, code] of [
    ["maxDepth", "depth_limit"],
    ["maxBreadthPerParent", "breadth_limit"],
    ["maxTotalSubagents", "total_limit"],
  ] as const) {
    test(`allow no subagent with ${limit} 0, and the root works alone`, async () => {
      const { result, s, helper } = await leadAsksFor([spawn("helper")], { [limit]: 0 });
      expect(refusals(s)).toEqual([["lead", code, 0, 0]]);
      expect([result.status, result.agents.length]).toEqual(["completed", 1]);
      expect(helper.model.requests).toEqual([]);
      expect(s.sink.ofType("subagent.spawned")).toEqual([]);
      expect(result.accounts.map((account) => account.agentPath)).toEqual(["lead"]);
    });
  }
});

describe("refusals", () => {
  proves(
    ["X14"],
    "contain the limit, the current count and an alternative for the model",
    async () => {
      const deep = await leadAsksFor([spawn("helper")], { maxDepth: 0 });
      expect(refused(deep)).toEqual({
        code: "depth_limit",
        message:
          "Not started: subagents may be at depth 0 at most and you are at depth 0. Do this part yourself with your own tools.",
        maximum: 0,
        current: 0,
      });
      const broad = await leadAsksFor(times(2, spawn("helper")), { maxBreadthPerParent: 1 });
      expect(refused(broad)).toEqual({
        code: "breadth_limit",
        message:
          "Not started: you have started 1 of at most 1 subagents. Work with the results you have, or do this part yourself.",
        maximum: 1,
        current: 1,
      });
      const many = await leadAsksFor(times(2, spawn("helper")), { maxTotalSubagents: 1 });
      expect(refused(many)).toEqual({
        code: "total_limit",
        message:
          "Not started: this run has started 1 of at most 1 subagents. Do this part yourself, or leave it out and say so.",
        maximum: 1,
        current: 1,
      });
      const unknown = await leadAsksFor([spawn("ghost")], {});
      expect(refused(unknown)).toEqual({
        code: "unknown_role",
        message:
          'Not started: there is no subagent "ghost". You can start: helper. Call again with one of these.',
      });
      for (const { lead, s } of [deep, broad, many, unknown]) {
        const message = s.sink.ofType("subagent.refused")[0]?.error.message;
        expect(receivedTexts(lead.model.requests[1]).at(-1)).toBe(message);
      }
    },
  );

  proves(["X14"], "name the exhausted budget if none is left for a child", async () => {
    const helper = part("helper", []);
    const lead = part("lead", [calls(spawn("helper"))], { subagents: [helper.role] });
    const s = newFixture();
    const result = await s.run(lead.role, { budget: { steps: 1 } });
    expect(s.sink.ofType("subagent.refused").map((event) => event.error)).toEqual([
      {
        code: "budget_exhausted",
        message:
          "Not started: 1 of 1 of the steps budget of lead are spent. Answer with what you have.",
        maximum: 1,
        current: 1,
      },
    ]);
    expect(result.refusalsByCode).toEqual({ budget_exhausted: 1 });
    expect([result.status, result.reason.code, result.agents.length]).toEqual([
      "stopped",
      "step_limit",
      1,
    ]);
    expect(helper.model.requests).toEqual([]);
    expect(result.subagentsByDepth).toEqual({});
  });

  proves(["X14"], "are counted by code over the whole tree", async () => {
    const node = part(
      "node",
      (request) =>
        request.messages.at(-1)?.role === "tool"
          ? says("Done.")
          : calls(spawn("ghost"), spawn("node"), spawn("node")),
      { subagents: ["node"] },
    );
    const s = newFixture({ limits: { maxDepth: 2, maxBreadthPerParent: 2, maxTotalSubagents: 5 } });
    const result = await s.run(node.role);
    expect(result.subagentsByDepth).toEqual({ 1: 2, 2: 3 });
    expect(result.refusalsByCode).toEqual({ unknown_role: 6, total_limit: 1, depth_limit: 6 });
    expect(s.sink.ofType("run.ended")[0]?.refusalsByCode).toEqual(result.refusalsByCode);
    expect(s.sink.ofType("subagent.refused")).toHaveLength(13);
  });
});

function times<T>(count: number, value: T): readonly T[] {
  return Array.from({ length: count }, () => value);
}

/** A role whose agents start one of the same role each, as deep as allowed. */
function chainOf(name: string): Part {
  const script = {
    "Do it.": [calls(spawn(name)), says("Done.")],
    "Work.": [calls(spawn(name)), says("Done.")],
  };
  return part(name, byTask(script), { subagents: [name] });
}

interface Asked {
  readonly s: Fixture;
  readonly result: RunResult;
  readonly lead: Part;
  readonly helper: Part;
}

/** Runs a lead that makes the given calls in one reply and then answers. */
async function leadAsksFor(
  list: readonly ScriptedCall[],
  limits: Partial<SubagentLimits>,
  ids: IdSource = sequentialIds(),
): Promise<Asked> {
  const helper = part("helper", () => says("Ok."));
  const lead = part("lead", [calls(...list), says("Done.")], { subagents: [helper.role] });
  const s = newFixture({ limits, ids });
  return { s, lead, helper, result: await s.run(lead.role) };
}

function refused({ s }: Asked): unknown {
  const events = s.sink.ofType("subagent.refused");
  expect(events).toHaveLength(1);
  return events[0]?.error;
}

function refusals(s: Fixture): readonly unknown[] {
  return s.sink
    .ofType("subagent.refused")
    .map(({ agentPath, error }) => [agentPath, error.code, error.current, error.maximum]);
}

function throwingAt(failing: string): IdSource {
  const sequential = sequentialIds();
  return {
    next: (kind) => {
      const id = sequential.next(kind);
      if (id === failing) throw new Error("no more ids");
      return id;
    },
  };
}
