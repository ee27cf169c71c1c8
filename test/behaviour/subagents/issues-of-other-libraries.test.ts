// Goal: bugs and wishes reported by users of comparable systems do not apply here.
// Method: the program of each report, as small as possible.

import { describe, expect, test } from "vitest";
import { z } from "zod";

import { processStep, transform, wrapModelCall, wrapToolCall } from "../../../src/hooks/hook.ts";
import type { HookContext } from "../../../src/hooks/hook-points.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { Budget } from "../../../src/policies/budget.ts";
import { approve } from "../../../src/protocol/question.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { defineDelegation, defineTool } from "../../../src/tools/define-tool.ts";
import type { DelegationTool } from "../../../src/tools/tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { approveAll, asked, ending, leaveOpen, payTool } from "../../support/pause-stories.ts";
import { POINTS } from "../../support/hook-sites.ts";
import {
  aborted,
  byTask,
  calls,
  chain,
  ends,
  part,
  quiet,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
  type Part,
} from "../../harness/scripted-agents.ts";

const pays = (amount: number): ScriptedReply => asks("pay", { amount });

describe("an exhausted budget inside a subagent", () => {
  const AXES: readonly (keyof Budget)[] = [
    "steps",
    "totalTokens",
    "inputTokens",
    "cachedInputTokens",
    "outputTokens",
    "costUsd",
    "toolCalls",
    "timeMs",
  ];
  const priced = { scripted: { price: { inputUsdPerMillion: 1, outputUsdPerMillion: 2 } } };

  for (const axis of AXES) {
    test(`ends every delegation once, and the parent answers: ${axis}`, async () => {
      const ended: string[] = [];
      for (const amount of [0, 1, 2, 11, 16, 27, 31]) {
        const s = newFixture();
        const limit = axis === "costUsd" ? amount / 1_000_000 : amount;
        const work = tool("work", () => s.clock.advance(5));
        const leaf = part("leaf", byTask(endless()), { tools: [work], ...priced });
        const child = part(
          "child",
          byTask({ "Work.": [calls(spawn("leaf", "a"), spawn("leaf", "b")), says("Child.")] }),
          { subagents: [leaf.role], budget: { [axis]: limit }, ...priced },
        );
        const root = part("root", [calls(spawn("child"), spawn("child")), says("Root.")], {
          subagents: [child.role],
          ...priced,
        });
        const result = await s.run(root.role);
        expect([ending(result), result.text, root.model.requests.length]).toEqual([
          ["completed", "completed"],
          "Root.",
          2,
        ]);
        const delegations = (type: "tool.started" | "tool.ended"): readonly string[] =>
          s.sink
            .ofType(type)
            .filter(({ toolName }) => toolName === "SpawnSubagent")
            .map(({ callId, agentId }) => `${agentId} ${callId}`);
        expect(delegations("tool.ended").toSorted()).toEqual(
          delegations("tool.started").toSorted(),
        );
        expect(
          s.sink
            .ofType("subagent.ended")
            .map(({ childId }) => childId)
            .toSorted(),
        ).toEqual(s.sink.ofType("subagent.spawned").map(({ childId }) => childId));
        ended.push(...ends(result).slice(1));
      }
      expect(new Set(ended)).toContain("stopped");
    });
  }

  test("ends siblings that wait for its reservation as well", async () => {
    const held = latch();
    const reply = calls(use("nothing"));
    const all = { ...reply, usage: { outputTokens: 30 }, after: held.opened };
    const leaf = part("leaf", byTask({ a: [all] }), { maxOutputTokens: 30 });
    const child = part("child", [calls(spawn("leaf", "a"), spawn("leaf", "b"))], {
      subagents: [leaf.role],
      budget: { totalTokens: 60 },
    });
    const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
    const s = newFixture();
    const run = s.start(root.role);
    await until(() => leaf.model.requests.length === 1);
    await quiet();
    held.open();
    const result = await s.outcome(run);
    expect(ends(result)).toEqual(["completed", "stopped", "stopped", "stopped"]);
  });
});

describe("an approval inside a child", () => {
  test("can be resumed through nested custom delegations", async () => {
    const pay = payTool();
    const leaf = part("leaf", [pays(1), says("Paid.")], { tools: [pay] });
    const child = part("child", [calls(use("askLeaf")), says("Child.")], {
      tools: [nested("askLeaf", "leaf")],
      subagents: [leaf.role],
    });
    const root = part("root", [calls(use("askChild")), says("Root.")], {
      tools: [nested("askChild", "child")],
      subagents: [child.role],
    });
    const s = newFixture();
    const paused = await s.run(root.role);
    expect([asked(paused), pay.paid]).toEqual([[["root/child#1/leaf#1", "pay"]], []]);
    const result = await s.outcome(s.resume(root.role, paused.pausedRun, approveAll(paused)));
    expect([ends(result), pay.paid]).toEqual([["completed", "completed", "completed"], [1]]);
  });

  test("is followed by the approved call and further steps without a second execution", async () => {
    const pay = payTool();
    const work = tool("work", () => "worked");
    const script = [pays(1), calls(use("work")), calls(use("work")), says("After three steps.")];
    const child = part("child", script, { tools: [pay, work] });
    const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
    const s = newFixture();
    const paused = await s.run(root.role);
    const before = child.model.requests.at(-1)?.messages ?? [];
    const result = await s.outcome(s.resume(root.role, paused.pausedRun, approveAll(paused)));
    const after = child.model.requests[1]?.messages ?? [];
    expect(after.slice(0, before.length)).toEqual(before);
    expect(after.slice(before.length).map(({ role, text }) => [role, text])).toEqual([
      ["assistant", ""],
      ["tool", "paid 1"],
    ]);
    expect([ends(result), pay.paid]).toEqual([["completed", "completed"], [1]]);
    const asking = s.sink.ofType("model.requested").map(({ agentPath }) => agentPath);
    expect(asking).toEqual(["root", ...Array.from({ length: 4 }, () => "root/child#1"), "root"]);
    const executions = s.sink.ofType("agent.started").map(({ agentPath }) => agentPath);
    expect(executions).toEqual(["root", "root/child#1"]);
  });

  test("does not repeat its finished siblings or their calls", async () => {
    const pay = payTool();
    const did: string[] = [];
    const act = tool("act", ({ agentPath }) => void did.push(agentPath));
    const helper = part(
      "helper",
      byTask({
        ask: [{ calls: [...(pays(1).calls ?? []), use("act")] }, says("Asked.")],
        act: [calls(use("act")), says("Acted.")],
      }),
      { tools: [pay, act] },
    );
    const root = part(
      "root",
      [calls(spawn("helper", "act"), use("act"), spawn("helper", "ask")), says("Root.")],
      { subagents: [helper.role], tools: [act] },
    );
    const s = newFixture();
    const paused = await s.run(root.role);
    const before = [...did];
    expect(before.toSorted()).toEqual(["root", "root/helper#1", "root/helper#2"]);
    const seen = helper.model.requests.length;
    const result = await s.outcome(s.resume(root.role, paused.pausedRun, approveAll(paused)));
    expect([did, pay.paid, helper.model.requests.length - seen]).toEqual([before, [1], 1]);
    expect([ends(result), receivedTexts(root.model.requests[1]).length]).toEqual([
      ["completed", "completed", "completed"],
      3,
    ]);
    const written = s.sink.ofType("tool.ended").filter(({ toolName }) => toolName === "act");
    expect(written).toHaveLength(3);
  });
});

describe("a cancel ends", () => {
  const NAMES = ["root", "one", "two", "three"] as const;
  type Wait = "a tool" | "a model" | "an approver" | "a model's next attempt";

  /**
   * A chain of agents down to `depth`, the last of which waits. `heard` lists the waits that were
   * aborted.
   */
  function waitingAt(depth: number, wait: Wait) {
    const heard: string[] = [];
    const listen = async (signal: AbortSignal, who: string): Promise<string> => {
      await aborted(signal);
      heard.push(who);
      return "late";
    };
    const work = tool("work", ({ signal }) => listen(signal, "a tool"));
    const pay = payTool(wait === "an approver");
    const busy = new ModelError({ code: "model_overloaded", message: "Busy." });
    const last: Readonly<Record<Wait, ScriptedReply>> = {
      "a tool": calls(use("work")),
      "a model": { after: latch().opened },
      "an approver": pays(1),
      "a model's next attempt": { error: busy },
    };
    const chain: Part[] = [];
    for (const name of NAMES.slice(0, depth + 1).toReversed()) {
      const [below] = chain;
      const made =
        below === undefined
          ? part(name, () => last[wait], { tools: [work, pay] })
          : part(name, [calls(spawn(below.role.name))], { subagents: [below.role] });
      chain.unshift(made);
    }
    const s = newFixture({
      approver: (_question, { signal }) => listen(signal, "an approver").then(() => undefined),
    });
    return { s, heard, root: chain[0]?.role ?? expect.fail("no chain") };
  }

  function waits(s: Fixture, wait: Wait, depth: number): boolean {
    const types = {
      "a tool": "tool.started",
      "a model": "model.requested",
      "an approver": "question.asked",
      "a model's next attempt": "model.retried",
    } as const;
    return s.sink.ofType(types[wait]).some((event) => event.depth === depth);
  }

  for (const depth of [0, 1, 2, 3]) {
    for (const wait of ["a tool", "a model", "an approver", "a model's next attempt"] as const) {
      test(`the whole tree with ${wait} at depth ${depth}`, async () => {
        const { s, heard, root } = waitingAt(depth, wait);
        const run = s.start(root);
        await until(() => waits(s, wait, depth));
        await quiet();
        await run.cancel("Enough.");
        const result = await s.outcome(run);
        expect(result.agents.map(({ status, reason }) => [status, reason.message])).toEqual(
          Array.from({ length: depth + 1 }, () => ["cancelled", "Enough."]),
        );
        expect(s.sink.ofType("agent.ended").map((event) => event.depth)).toEqual(
          Array.from({ length: depth + 1 }, (_one, index) => depth - index),
        );
        expect(heard).toEqual(wait === "a tool" || wait === "an approver" ? [wait] : []);
      });
    }
  }

  for (const told of [1, 2, 3]) {
    test(`the agent at depth ${told} and its descendants, and its ancestors continue`, async () => {
      const s = newFixture();
      const work = tool("work", ({ signal }) => aborted(signal));
      const three = part("three", [calls(use("work"))], { tools: [work] });
      const two = part("two", [calls(spawn("three")), says("Two.")], { subagents: [three.role] });
      const one = part("one", [calls(spawn("two")), says("One.")], { subagents: [two.role] });
      const root = part("root", [calls(spawn("one")), says("Root.")], { subagents: [one.role] });
      const run = s.start(root.role);
      await until(() => s.sink.ofType("tool.started").length === 4);
      const target = s.sink.ofType("agent.started").find((event) => event.depth === told);
      run.cancelAgent(target?.agentId ?? expect.fail("no such agent"));
      expect(ends(await s.outcome(run))).toEqual(
        [0, 1, 2, 3].map((depth) => (depth < told ? "completed" : "cancelled")),
      );
    });
  }
});

describe("the context of hooks, guards, approvers and tools", () => {
  test("contains path, depth, role and run two levels down", async () => {
    const seen = new Map<string, Set<string>>();
    const note = (
      who: string,
      at: Pick<HookContext, "runId" | "agentPath" | "depth"> & { role?: string },
    ): void => {
      const known = seen.get(at.agentPath) ?? new Set();
      seen.set(at.agentPath, known.add(`${who}: ${at.runId} ${at.depth} ${at.role ?? ""}`.trim()));
    };
    const hooks = [
      ...POINTS.map((point) =>
        transform(point, (_input: unknown, context: HookContext) => note(point, context)),
      ),
      processStep((_step, context) => note("processStep", context)),
      wrapModelCall(({ context }, next) => {
        note("wrapModelCall", context);
        return next();
      }),
      wrapToolCall(({ context }, next) => {
        note("wrapToolCall", context);
        return next();
      }),
    ];
    const guard = toolGuard((_call, context) => {
      note("guard", context);
      return { type: "allow" };
    });
    const work = defineTool({
      name: "work",
      description: "Works.",
      inputSchema: z.object({}),
      needsApproval: true,
      execute: (_input, context) => note("tool", context),
    });
    const { root } = chain(work);
    const s = newFixture({
      hooks,
      guards: [guard],
      approver: (question) => {
        note("approver", { runId: run.runId, agentPath: question.agentPath, depth: 2 });
        return approve(question);
      },
    });
    const run = s.start(root.role);
    const result = await s.outcome(run);
    expect(ends(result)).toEqual(["completed", "completed", "completed"]);
    const of = (path: string): readonly string[] => [...(seen.get(path) ?? [])].toSorted();
    expect(of("root/child#1/leaf#1")).toEqual([
      "afterTool: run_1 2 leaf",
      "approver: run_1 2",
      "beforeModel: run_1 2 leaf",
      "beforeTool: run_1 2 leaf",
      "guard: run_1 2 leaf",
      "processStep: run_1 2 leaf",
      "subagentStop: run_1 2 leaf",
      "tool: run_1 2",
      "wrapModelCall: run_1 2 leaf",
      "wrapToolCall: run_1 2 leaf",
    ]);
    expect(of("root/child#1")).toEqual([
      "afterTool: run_1 1 child",
      "beforeModel: run_1 1 child",
      "beforeTool: run_1 1 child",
      "guard: run_1 1 child",
      "processStep: run_1 1 child",
      "subagentStart: run_1 1 child",
      "subagentStop: run_1 1 child",
      "wrapModelCall: run_1 1 child",
    ]);
    expect([...seen.keys()]).toEqual(["root", "root/child#1", "root/child#1/leaf#1"]);
  });
});

describe("a subagent that repeats itself", () => {
  const again = asks("work", { page: 1 });
  const loops = (): {
    readonly root: Part;
    readonly leaf: Part;
    readonly ran: readonly string[];
  } => {
    const ran: string[] = [];
    const work = defineTool({
      name: "work",
      description: "Works.",
      inputSchema: z.object({ page: z.number() }),
      execute: (_input, { agentPath }) => void ran.push(agentPath),
    });
    const leaf = part("leaf", () => again, { tools: [work] });
    const child = part("child", [calls(spawn("leaf")), says("Child.")], { subagents: [leaf.role] });
    const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
    return { root, leaf, ran };
  };

  test("causes a question with its path at its third identical call", async () => {
    const { root, ran } = loops();
    const paused = await newFixture({ approver: leaveOpen }).run(root.role);
    expect([ending(paused), asked(paused), ran.length]).toEqual([
      ["paused", "input_required"],
      [["root/child#1/leaf#1", "work"]],
      2,
    ]);
  });

  test("is stopped alone by its error budget if no approver can be asked", async () => {
    const { root, leaf, ran } = loops();
    const result = await newFixture({ unansweredPolicy: "deny" }).run(root.role);
    expect([ends(result), ran.length, result.agents[2]?.reason.code]).toEqual([
      ["completed", "completed", "stopped"],
      2,
      "error_budget",
    ]);
    expect(leaf.model.requests).toHaveLength(6);
  });
});

/** Replies that call a tool without end. */
function endless(): Readonly<Record<string, readonly ScriptedReply[]>> {
  const replies = Array.from({ length: 40 }, () => calls(use("work"), use("work")));
  return { a: [...replies, says("A.")], b: [...replies, says("B.")] };
}

/** A custom delegation. */
function nested(name: string, role: string): DelegationTool {
  return defineDelegation({
    name,
    description: `Asks ${role}.`,
    inputSchema: z.object({}),
    execute: (_input, context) => context.spawn({ role, task: "Work." }),
  });
}
