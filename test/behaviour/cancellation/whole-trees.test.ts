// Goal: cancelled agents end leaves first, within a bounded time, and every result has the reason;
// the others continue.
// Method: trees that wait at latches, or forever, at every place where an agent can wait; the clock
// is advanced by hand.

import { getEventListeners } from "node:events";

import { describe, expect, test } from "vitest";

import { findCancelReason } from "../../../src/kernel/cancel-signal.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { formatEventTree } from "../../../src/testing/event-tree.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import {
  aborted,
  byTask,
  calls,
  chain,
  ends,
  listens,
  part,
  quiet,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";
import { texts } from "../../support/texts.ts";

describe("cancelling a run", () => {
  proves(
    ["R148", "X33"],
    "ends all agents, leaves first, and each result names the cancelled agent and the reason",
    async () => {
      const s = newFixture();
      const tree = chain(listens("work"));
      const run = s.start(tree.root.role);
      await until(() => s.sink.ofType("tool.started").some((event) => event.toolName === "work"));
      const cancelled = run.cancel("Enough.");
      const result = await s.outcome(run);
      expect(await cancelled).toBe(result);
      expect(s.sink.ofType("agent.ended").map((event) => event.agentPath)).toEqual([
        "root/child#1/leaf#1",
        "root/child#1",
        "root",
      ]);
      const reason = { code: "cancelled", message: "Enough.", data: { agentId: "agent_1" } };
      expect(result.agents.map((agent) => [agent.status, agent.reason])).toEqual([
        ["cancelled", reason],
        ["cancelled", reason],
        ["cancelled", reason],
      ]);
      expect(formatEventTree(s.sink.events)).toBe(
        [
          "root cancelled (cancelled) 1 steps, 15 of 45 tokens",
          "└─ step 1 asked for 1",
          "   └─ SpawnSubagent cancelled (subagent_cancelled)",
          "      └─ root/child#1 cancelled (cancelled) 1 steps, 15 of 30 tokens",
          "         └─ step 1 asked for 1",
          "            └─ SpawnSubagent cancelled (subagent_cancelled)",
          "               └─ root/child#1/leaf#1 cancelled (cancelled) 1 steps, 15 of 15 tokens",
          "                  └─ step 1 asked for 1",
          "                     └─ work cancelled (cancelled)",
        ].join("\n"),
      );
    },
  );

  proves(
    ["X33"],
    "abandons a tool two levels down that ignores its signal after the grace period",
    async () => {
      for (const late of ["returns", "throws"] as const) {
        const stuck = latch();
        const s = newFixture({ graceMs: 200 });
        const work = tool("work", async () => {
          await stuck.opened;
          if (late === "throws") throw new Error("too late");
          return "too late";
        });
        const run = s.start(chain(work).root.role);
        await until(() => s.sink.ofType("tool.started").length === 3);
        s.clock.advance(1_000);
        void run.cancel("Enough.");
        s.clock.advance(199);
        await quiet();
        expect(s.sink.ofType("agent.ended")).toEqual([]);
        s.clock.advance(1);
        const result = await s.outcome(run);
        expect(result.durationMs).toBe(1_200);
        expect(ends(result)).toEqual(["cancelled", "cancelled", "cancelled"]);
        const written = JSON.stringify([result, s.sink.events]);
        stuck.open();
        await quiet();
        expect(JSON.stringify([await run.result, s.sink.events])).toBe(written);
        expect(written).not.toContain("too late");
      }
    },
  );

  test("abandons a hanging model that ignores its signal after the grace period", async () => {
    const s = newFixture({ graceMs: 200 });
    const tree = chain(listens("work"), { after: latch().opened, ignoresSignal: true });
    const run = s.start(tree.root.role);
    await until(() => tree.leaf.model.requests.length === 1);
    void run.cancel();
    await quiet();
    expect(s.sink.ofType("agent.ended")).toEqual([]);
    s.clock.advance(200);
    const result = await s.outcome(run);
    expect(ends(result)).toEqual(["cancelled", "cancelled", "cancelled"]);
    // The request was sent and may be billed, so its input is charged.
    expect(result.agents[2]?.usage.own).toMatchObject({
      modelCalls: 1,
      inputTokens: 10,
      estimatedCalls: 1,
    });
  });

  test("charges a reply that arrives after the cancel, and does not act on it", async () => {
    const late = latch();
    let worked = 0;
    const work = tool("work", () => void (worked += 1));
    const reply = { text: "Too late.", calls: [use("work")], usage: { outputTokens: 7 } };
    const s = newFixture();
    const tree = chain(work, { ...reply, after: late.opened, ignoresSignal: true });
    const run = s.start(tree.root.role);
    await until(() => tree.leaf.model.requests.length === 1);
    void run.cancel();
    await quiet();
    late.open();
    const result = await s.outcome(run);
    expect(ends(result)).toEqual(["cancelled", "cancelled", "cancelled"]);
    const leaf = result.agents[2] ?? expect.fail("no leaf");
    expect([leaf.text, leaf.steps[0]?.tools.calls, worked]).toEqual(["", [], 0]);
    expect(leaf.usage.own).toMatchObject({ modelCalls: 1, outputTokens: 7, estimatedCalls: 0 });
    expect(s.sink.ofType("model.failed").map((event) => event.error.code)).toEqual(["cancelled"]);
  });

  test("drops text that an abandoned model writes later", async () => {
    const late = latch();
    const pieces: string[] = [];
    const s = newFixture();
    const role = part("root", [
      says("late words", { after: late.opened, ignoresSignal: true }),
    ]).role;
    const run = s.start(role, "Do it.", { onStreamPart: texts((text) => void pieces.push(text)) });
    await quiet();
    void run.cancel();
    s.clock.advance(5_000);
    await s.outcome(run);
    late.open();
    await quiet();
    expect(pieces).toEqual([]);
  });

  test("gives a tool the reason in its signal, and records its exception as a cancelled call", async () => {
    const seen: unknown[] = [];
    const s = newFixture();
    const work = tool("work", async ({ signal }) => {
      await aborted(signal);
      seen.push(findCancelReason(signal));
      throw new Error("cleaned up");
    });
    const run = s.start(chain(work).root.role);
    await until(() => s.sink.ofType("tool.started").length === 3);
    void run.cancel("Enough.");
    const result = await s.outcome(run);
    expect(seen).toEqual([{ type: "cancelled", message: "Enough.", agentId: "agent_1" }]);
    expect(result.agents[2]?.steps[0]?.tools.executions[0]?.type).toBe("cancelled");
  });

  test("ends parallel waiting siblings before their parent", async () => {
    const helper = part("helper", () => ({ after: latch().opened }));
    const lead = part("lead", [calls(...Array.from({ length: 5 }, () => spawn("helper")))], {
      subagents: [helper.role],
    });
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => helper.model.requests.length === 5);
    void run.cancel();
    const result = await s.outcome(run);
    expect(ends(result)).toEqual(Array.from({ length: 6 }, () => "cancelled"));
    expect(s.sink.ofType("agent.ended").at(-1)?.agentPath).toBe("lead");
  });

  test("cancels fifty siblings without a warning about listeners", async () => {
    const limits = { maxBreadthPerParent: 50, maxTotalSubagents: 50 };
    const helper = part("helper", () => calls(use("work")), { tools: [listens("work")] });
    const lead = part("lead", [calls(...Array.from({ length: 50 }, () => spawn("helper")))], {
      subagents: [helper.role],
    });
    const s = newFixture({ limits, concurrency: { toolCalls: 10, modelCalls: 10 } });
    const run = s.start(lead.role);
    await until(
      () =>
        s.sink.ofType("tool.started").filter((event) => event.toolName === "work").length === 10,
    );
    void run.cancel();
    const result = await s.outcome(run);
    expect(new Set(ends(result))).toEqual(new Set(["cancelled"]));
  });

  test("removes the abort listeners of ended calls and agents from the signal of their living parent", async () => {
    const listening: number[] = [];
    const count = tool("count", ({ signal }) => {
      listening.push(getEventListeners(signal, "abort").length);
    });
    const helper = part("helper", () => says("Ok."));
    const many = calls(use("count"), spawn("helper"), spawn("helper"), spawn("helper"));
    const script = [calls(use("count")), many, calls(use("count")), says("Done.")];
    const lead = part("lead", script, { subagents: [helper.role], tools: [count] });
    await newFixture().run(lead.role);
    expect([listening.length, listening[2]]).toEqual([3, listening[0]]);
  });

  test("ends it without a model call before the first tick", async () => {
    const s = newFixture();
    const tree = chain(listens("work"));
    const run = s.start(tree.root.role);
    void run.cancel("Never mind.");
    const result = await s.outcome(run);
    expect([result.status, result.reason.message, result.steps]).toEqual([
      "cancelled",
      "Never mind.",
      [],
    ]);
    expect(tree.root.model.requests).toEqual([]);
  });

  test("changes nothing a second time or after its end", async () => {
    const s = newFixture();
    const run = s.start(chain(listens("work")).root.role);
    await until(() => s.sink.ofType("tool.started").length === 3);
    const first = run.cancel("First.");
    const second = run.cancel("Second.");
    const result = await s.outcome(run);
    expect(await Promise.all([first, second, run.cancel("Third.")])).toEqual([
      result,
      result,
      result,
    ]);
    expect(result.agents.map((agent) => agent.reason.message)).toEqual([
      "First.",
      "First.",
      "First.",
    ]);
    run.requestStop();
    run.cancelAgent(result.agents[1]?.agentId ?? expect.fail("no child"));
    await quiet();
    expect(s.sink.events.at(-1)?.type).toBe("run.ended");
    expect(ends(await run.result)).toEqual(["cancelled", "cancelled", "cancelled"]);
  });

  test("happens for the whole tree if the iteration is abandoned while a grandchild works", async () => {
    const s = newFixture();
    const run = s.start(chain(listens("work")).root.role);
    const phases: string[] = [];
    const iterated = (async () => {
      for await (const { phase } of run.iterate()) {
        phases.push(phase);
        if (phase === "evaluate") break;
      }
    })();
    await iterated;
    const result = await s.outcome(run);
    expect(phases).toEqual(["prepare", "infer", "evaluate"]);
    expect([result.status, result.agents.length]).toEqual(["cancelled", 1]);

    const working = s.start(chain(listens("work")).root.role);
    const iterator = working.iterate();
    for (let count = 0; count < 3; count += 1) await iterator.next();
    const execution = iterator.next();
    await until(
      () => s.sink.ofType("tool.started").filter((event) => event.toolName === "work").length === 1,
    );
    await iterator.return?.();
    expect((await execution).done).toBe(false);
    expect(ends(await s.outcome(working))).toEqual(["cancelled", "cancelled", "cancelled"]);
  });
});

describe("cancelling one agent", () => {
  proves(
    ["R148"],
    "ends its whole subtree, and its parent continues with a cancelled result",
    async () => {
      const s = newFixture();
      const tree = chain(listens("work"));
      const run = s.start(tree.root.role);
      await until(() => s.sink.ofType("tool.started").length === 3);
      run.cancelAgent(childOf(s), "Not needed.");
      const result = await s.outcome(run);
      expect(ends(result)).toEqual(["completed", "cancelled", "cancelled"]);
      expect(s.sink.ofType("agent.ended").map((event) => event.depth)).toEqual([2, 1, 0]);
      expect(
        receivedTexts(tree.root.model.requests[1]).map((text): unknown => JSON.parse(text)),
      ).toEqual([
        {
          subagent: "child#1",
          outcome: "cancelled",
          reason: "cancelled",
          explanation: "Not needed.",
          text: "",
          steps: 1,
          totalTokens: 30,
        },
      ]);
    },
  );

  test("does not affect its siblings", async () => {
    const late = latch();
    const helper = part(
      "helper",
      byTask({
        A: [{ after: latch().opened }],
        B: [says("B.", { after: late.opened })],
      }),
    );
    const lead = part("lead", [calls(spawn("helper", "A"), spawn("helper", "B")), says("Done.")], {
      subagents: [helper.role],
    });
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => helper.model.requests.length === 2);
    run.cancelAgent(childOf(s));
    await until(() => s.sink.ofType("subagent.ended").length === 1);
    late.open();
    expect(ends(await s.outcome(run))).toEqual(["completed", "cancelled", "completed"]);
  });

  test("throws `unknown_agent` for an id that the run does not contain", async () => {
    const s = newFixture();
    const other = s.start(part("other", [says("Ok.")]).role);
    const run = s.start(part("lead", [says("Ok.")]).role);
    const stranger = (await s.outcome(other)).agents[0]?.agentId ?? expect.fail("no agent");
    expect(() => run.cancelAgent(stranger)).toThrow(
      expect.objectContaining({ code: "unknown_agent" }),
    );
    await s.outcome(run);
  });
});

function childOf(s: Fixture): Parameters<Run["cancelAgent"]>[0] {
  return s.sink.ofType("subagent.spawned")[0]?.childId ?? expect.fail("no child");
}
