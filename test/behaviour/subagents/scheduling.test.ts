// Goal: a tree never runs more calls in parallel than allowed, and never deadlocks.
// Method: models and tools that count their parallel calls; chains deeper than the concurrency
// limit.

import { describe, expect, test } from "vitest";

import type { Model } from "../../../src/model/model.ts";
import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { z } from "zod";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import {
  byTask,
  calls,
  ends,
  part,
  quiet,
  spawn,
  tool,
  until,
  UNWATCHED,
  use,
} from "../../harness/scripted-agents.ts";

const DEEP = { maxDepth: 10, maxBreadthPerParent: 10, maxTotalSubagents: 50 };

describe("a tree deeper than its concurrency limits", () => {
  proves(
    ["X19"],
    "completes at depth five with one model call and one tool call at a time",
    async () => {
      const meter = { models: peak(), tools: peak() };
      const role = digger(meter, 5);
      const s = newFixture({ limits: DEEP, concurrency: { modelCalls: 1, toolCalls: 1 } });
      const result = await s.run(role);
      expect(result.subagentsByDepth).toEqual({ 1: 1, 2: 1, 3: 1, 4: 1, 5: 1 });
      expect(new Set(ends(result))).toEqual(new Set(["completed"]));
      expect([meter.models.most, meter.tools.most]).toEqual([1, 1]);
    },
  );

  test("completes with a budget that allows one call at a time", async () => {
    const meter = { models: peak(), tools: peak() };
    const role = digger(meter, 5, 2);
    const s = newFixture({ limits: DEEP, concurrency: { modelCalls: 1, toolCalls: 1 } });
    const budget = { totalTokens: 63 * 30 + 20, steps: 1_000 };
    const result = await s.run(role, { budget });
    expect(result.agents.length).toBeGreaterThan(30);
    expect(new Set(ends(result))).toEqual(new Set(["completed"]));
    expect(meter.models.most).toBe(1);
  });

  test("lets other agents use the slots while parents wait for children", async () => {
    const late = latch();
    const slow = part("slow", [says("Slow.", { after: late.opened })]);
    const quick = part("quick", () => says("Quick."));
    const manager = part("manager", [calls(spawn("slow")), says("Managed.")], {
      subagents: [slow.role],
    });
    const lead = part("lead", [calls(spawn("manager"), spawn("quick")), says("Done.")], {
      subagents: [manager.role, quick.role],
    });
    const s = newFixture({ concurrency: { modelCalls: 2, toolCalls: 1 } });
    const run = s.start(lead.role);
    // The lead and the manager wait for children, and the slow one holds one of the two slots, so
    // quick gets the other.
    await until(() => s.sink.ofType("subagent.ended").length === 1);
    expect(s.sink.ofType("subagent.ended")[0]?.role).toBe("quick");
    late.open();
    expect(new Set(ends(await s.outcome(run)))).toEqual(new Set(["completed"]));
  });
});

describe("the concurrency of a tree", () => {
  for (const width of [1, 2, 3]) {
    proves(
      ["X19"],
      `reaches and never exceeds ${width} calls at a time with eight children`,
      async () => {
        const meter = { models: peak(), tools: peak() };
        const helper = digger(meter, 1);
        const lead = part(
          "lead",
          [calls(...Array.from({ length: 8 }, () => spawn("digger"))), says("Done.")],
          {
            subagents: [helper],
          },
        );
        const s = newFixture({
          limits: DEEP,
          concurrency: { modelCalls: width, toolCalls: width },
        });
        await s.run(lead.role);
        expect([meter.models.most, meter.tools.most]).toEqual([width, width]);
        expect([meter.models.running, meter.tools.running]).toEqual([0, 0]);
      },
    );
  }

  test("is shared by the calls of one reply and those of other agents", async () => {
    const tools = peak();
    const work = tool("work", () => tools.during());
    const helper = part(
      "helper",
      byTask({ "Work.": [calls(use("work"), use("work"), use("work")), says("Ok.")] }),
      {
        tools: [work],
      },
    );
    const lead = part(
      "lead",
      [calls(spawn("helper"), use("work"), spawn("helper"), use("work")), says("Done.")],
      {
        subagents: [helper.role],
        tools: [work],
      },
    );
    const s = newFixture({ concurrency: { toolCalls: 3 } });
    await s.run(lead.role);
    expect(tools.most).toBe(3);
    expect(tools.count).toBe(8);
  });

  test("is limited per run of an orchestrator", async () => {
    const late = latch();
    const role = part("lead", () => says("Done.", { after: late.opened })).role;
    const s = newFixture({ concurrency: { modelCalls: 1 } });
    const runs = [s.start(role), s.start(role)];
    await until(() => s.sink.ofType("model.requested").length === 2);
    late.open();
    for (const run of runs) expect((await s.outcome(run)).status).toBe("completed");
  });

  test("serves waiting calls in order, and reports their waiting time", async () => {
    const late = latch();
    const helper = part("helper", () => says("Ok.", { after: late.opened }));
    const lead = part(
      "lead",
      [calls(spawn("helper", "1"), spawn("helper", "2"), spawn("helper", "3")), says("Done.")],
      {
        subagents: [helper.role],
      },
    );
    const s = newFixture({ concurrency: { modelCalls: 1 } });
    const run = s.start(lead.role);
    await until(() => helper.model.requests.length === 1);
    await quiet();
    s.clock.advance(40);
    late.open();
    await s.outcome(run);
    expect(helper.model.requests.map((request) => request.messages.at(-1)?.text)).toEqual([
      "1",
      "2",
      "3",
    ]);
    expect(s.sink.ofType("model.replied").map((event) => event.queuedMs)).toEqual([
      0, 0, 40, 40, 0,
    ]);
  });
});

interface Peak {
  running: number;
  most: number;
  count: number;
  /** Counts as running for some turns of the event loop. */
  during(): Promise<void>;
}

function peak(): Peak {
  return {
    running: 0,
    most: 0,
    count: 0,
    async during() {
      this.running += 1;
      this.count += 1;
      this.most = Math.max(this.most, this.running);
      await flushEventLoop();
      await flushEventLoop();
      this.running -= 1;
    },
  };
}

/**
 * A role whose agents use a tool and start `width` of the same role in one reply, down to the given
 * depth, and then answer.
 */
function digger(
  meter: { readonly models: Peak; readonly tools: Peak },
  depth: number,
  width = 1,
): AgentRole {
  const script = new ScriptedModel((request) => {
    const level = Number(/^\d+/.exec(request.messages[1]?.text ?? "")?.[0] ?? depth);
    if (request.messages.at(-1)?.role === "tool") return says("Dug.");
    const below = Array.from({ length: width }, () => spawn("digger", `${level - 1} to go`));
    return level === 0 ? calls(use("dig")) : calls(use("dig"), ...below);
  });
  const model: Model = {
    provider: "scripted",
    id: "digger-model",
    countTokens: () => 10,
    generate: async (request, options) => {
      await meter.models.during();
      return await script.generate(request, options);
    },
  };
  const dig = defineTool({
    name: "dig",
    description: "Digs.",
    inputSchema: z.object({}),
    maxIdenticalCalls: "unlimited",
    execute: () => meter.tools.during(),
  });
  return defineAgent({
    name: "digger",
    description: "Digs.",
    instructions: "Dig.",
    model,
    tools: [dig],
    subagents: ["digger"],
    delegation: UNWATCHED,
    maxOutputTokens: 10,
  });
}

describe("a tool call that has just got its slot", () => {
  proves(["D713"], "does not begin once its agent was cancelled", async () => {
    const late: string[] = [];
    let begun = 0;
    for (let microtasks = 0; microtasks < 40; microtasks += 1) {
      const work = tool("work", () => Promise.resolve("Worked."));
      const lead = part("lead", [calls(use("work"), use("work")), says("Done.")], {
        tools: [work],
      });
      const { promise: firstEnded, resolve: endFirst } = Promise.withResolvers<void>();
      let isCancelled = false;
      const watch = ({ type }: EspalierEvent): void => {
        if (type === "tool.ended") endFirst();
        if (type !== "tool.started") return;
        begun += 1;
        if (isCancelled) late.push(`a call began ${microtasks} microtasks after the first ended`);
      };
      const s = newFixture({
        concurrency: { modelCalls: 1, toolCalls: 1 },
        sinks: [{ emit: watch }],
      });
      const run = s.start(lead.role);
      await firstEnded;
      for (let at = 0; at < microtasks; at += 1) await Promise.resolve();
      isCancelled = true;
      await run.cancel();
      await s.outcome(run);
    }
    expect(late).toEqual([]);
    expect(begun).toBeGreaterThan(40);
    expect(begun).toBeLessThan(80);
  });
});
