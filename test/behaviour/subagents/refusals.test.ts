// Goal: a forbidden delegation is refused at once without asking an approver. The model reads an
// alternative, and the refusal is counted by its code.
// Method: trees that cause every kind of refusal; texts, events, counters and questions compared in
// full.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { approve } from "../../../src/protocol/question.ts";
import type { SpawnOutcome } from "../../../src/protocol/subagent.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { another, byTurn } from "../../support/peers-agents.ts";
import {
  calls,
  part,
  spawn,
  receivedTexts,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";

describe("refusals of delegations", () => {
  const LIMITS = { maxDepth: 2, maxBreadthPerParent: 3, maxTotalSubagents: 5 };
  const TEXTS = {
    unknown_role:
      'Not started: there is no subagent "ghost". You can start: poor, manager. Call again with one of these.',
    budget_exhausted:
      "Not started: 1 of 1 of the steps budget of lead/poor#1 are spent. Answer with what you have.",
    depth_limit:
      "Not started: subagents may be at depth 2 at most and you are at depth 2. Do this part yourself with your own tools.",
    breadth_limit:
      "Not started: you have started 3 of at most 3 subagents. Work with the results you have, or do this part yourself.",
    total_limit:
      "Not started: this run has started 5 of at most 5 subagents. Do this part yourself, or leave it out and say so.",
  };

  const COUNTERS = {
    unknown_role: 1,
    budget_exhausted: 1,
    breadth_limit: 1,
    depth_limit: 3,
    total_limit: 1,
  };

  proves(["D223"], "state a cost limit in dollars", async () => {
    const price = { inputUsdPerMillion: 10, outputUsdPerMillion: 10 };
    const helper = part("helper", [says("Done.")], { scripted: { price } });
    const lead = part("lead", [calls(spawn("helper")), says("Done.")], {
      subagents: [helper.role],
      scripted: { price },
      maxOutputTokens: 5,
      delegation: { reserve: { costUsd: 0.000_15 } },
    });
    const s = newFixture();
    await s.run(lead.role, { budget: { costUsd: 0.000_3 } });
    expect(s.sink.ofType("subagent.refused").map(({ error }) => error)).toEqual([
      {
        code: "budget_exhausted",
        message:
          "Not started: 0.00015 of 0.0003 of the costUsd budget of lead are spent. The rest is reserved for the answer of lead. Answer with what you have.",
        maximum: 0.000_3,
        current: 0.000_15,
      },
    ]);
  });

  proves(
    ["X14"],
    "contain limit, current value and advice in five kinds, and are counted by code",
    async () => {
      const { lead, manager, helper } = fiveKinds();
      const s = newFixture({ limits: LIMITS });
      const result = await s.run(lead.role);
      const events = s.sink.ofType("subagent.refused");
      expect(events.map(({ agentPath, role, error }) => [agentPath, role, error.code])).toEqual([
        ["lead", "ghost", "unknown_role"],
        ["lead/poor#1", "helper", "budget_exhausted"],
        ["lead/manager#1", "helper", "breadth_limit"],
        ...[1, 2, 3].map((number) => [`lead/manager#1/helper#${number}`, "helper", "depth_limit"]),
        ["lead", "manager", "total_limit"],
      ]);
      expect(Object.fromEntries(events.map(({ error }) => [error.code, error.message]))).toEqual(
        TEXTS,
      );
      expect(
        Object.fromEntries(events.map(({ error }) => [error.code, [error.current, error.maximum]])),
      ).toEqual({
        unknown_role: [undefined, undefined],
        budget_exhausted: [1, 1],
        depth_limit: [2, 2],
        breadth_limit: [3, 3],
        total_limit: [5, 5],
      });
      expect(result.refusalsByCode).toEqual(COUNTERS);
      expect(s.sink.ofType("run.ended")[0]?.refusalsByCode).toEqual(COUNTERS);
      expect(receivedTexts(lead.model.requests[1])[0]).toBe(TEXTS.unknown_role);
      expect(receivedTexts(manager.model.requests[1])[3]).toBe(TEXTS.breadth_limit);
      expect(receivedTexts(helper.model.requests.at(-1))).toEqual([TEXTS.depth_limit]);
      expect(receivedTexts(lead.model.requests[3])).toEqual([TEXTS.total_limit]);
    },
  );

  test("precede approvals in five kinds, so only possible spawns cause questions", async () => {
    const { lead } = fiveKinds();
    const asked: string[] = [];
    const s = newFixture({
      limits: LIMITS,
      guards: [toolGuard(() => ({ type: "ask", reason: "May it?" }), { tools: ["SpawnSubagent"] })],
      approver: (question) => {
        asked.push(question.agentPath);
        return approve(question);
      },
    });
    const result = await s.run(lead.role);
    expect(result.refusalsByCode).toEqual(COUNTERS);
    // The fourth of the manager's four calls does not fit after the first three.
    expect(asked).toEqual(["lead", "lead", ...times(3, "lead/manager#1")]);
  });

  test("are the same, and counted, for a custom delegation", async () => {
    const outcomes: SpawnOutcome[] = [];
    const helper = part("helper", [says("Ok.")]);
    const research = defineDelegation({
      name: "research",
      description: "Starts three.",
      inputSchema: z.object({}),
      execute: async (_input, { spawn: start }) => {
        for (const role of ["helper", "helper", "ghost"])
          outcomes.push(await start({ role, task: "Work." }));
        return outcomes.at(-1) ?? expect.fail("no outcome");
      },
    });
    const lead = part("lead", [calls(use("research")), says("Done.")], {
      subagents: [helper.role],
      tools: [research],
    });
    const s = newFixture({ limits: { maxTotalSubagents: 1 } });
    const result = await s.run(lead.role);
    expect(
      outcomes.map((one) => (one.type === "refused" ? [one.type, one.refusal.code] : [one.type])),
    ).toEqual([["ended"], ["refused", "total_limit"], ["refused", "unknown_role"]]);
    expect(result.refusalsByCode).toEqual({ total_limit: 1, unknown_role: 1 });
  });

  test("are short for unknown role names, even for `__proto__` and a very long one", async () => {
    const helper = part("helper", []);
    const names = ["__proto__", "constructor", "Helper", " helper", "x".repeat(1_000_000)];
    const lead = part("lead", [calls(...names.map((name) => spawn(name))), says("Done.")], {
      subagents: [helper.role],
    });
    const s = newFixture();
    const result = await s.run(lead.role);
    expect(result.refusalsByCode).toEqual({ unknown_role: names.length });

    for (const text of receivedTexts(lead.model.requests[1]))
      expect(text.length).toBeLessThan(51_000);
  });
});

/** A lead whose tree causes five kinds of refusals. */
function fiveKinds(): Readonly<Record<"lead" | "manager" | "helper", Part>> {
  const helper = chainOf("helper");
  const poor = part("poor", [calls(spawn("helper"))], {
    subagents: [helper.role],
    budget: { steps: 1 },
  });
  const manager = part("manager", [calls(...times(4, spawn("helper"))), says("Managed.")], {
    subagents: [helper.role],
  });
  const script = [
    calls(spawn("ghost"), another("poor")),
    calls(another("manager")),
    calls(another("manager")),
    says("Done."),
  ];
  const lead = part("lead", script, { subagents: [poor.role, manager.role] });
  return { lead, manager, helper };
}

/** A role whose agents start one of the same role each, as deep as allowed. */
function chainOf(name: string): Part {
  const script = byTurn([() => calls(another(name)), says("Done.")]);
  return part(name, script, { subagents: [name] });
}

function times<T>(count: number, value: T): readonly T[] {
  return Array.from({ length: count }, () => value);
}
