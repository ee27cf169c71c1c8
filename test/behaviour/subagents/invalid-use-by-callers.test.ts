// Goal: invalid use of a question, a run or a snapshot throws a coded error that names the place in
// the tree, and changes nothing.
// Method: one attempt after the other on trees of three levels; codes, messages and remaining state
// compared in full.

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { describe, expect, test } from "vitest";
import { approve } from "../../../src/protocol/question.ts";
import { AgentIdSchema } from "../../../src/protocol/ids.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { beside, cancel, rested, rests, write } from "../../support/life-agents.ts";
import { approveAll, payTool, questionOf } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, listens, part, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 1 } };

const BACKGROUND = { delegation: { background: true } } as const;

/** A tree that is paused at its leaf. */
async function pausedTree() {
  const leaf = part("leaf", [calls(PAY), says("Leaf.")], { tools: [payTool()] });
  const child = part("child", [calls(beside("leaf")), says("Early."), says("Child.")], {
    ...BACKGROUND,
    subagents: [leaf.role],
  });
  const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
  const s = newFixture();
  const paused = await s.outcome(s.start(root.role));
  return { s, root, paused };
}

describe("a caller's invalid input", () => {
  test("rejects an answer to a question that was answered before", async () => {
    const leaf = part(
      "leaf",
      [calls(PAY), calls({ ...PAY, arguments: { amount: 2 } }), says("Leaf.")],
      { tools: [payTool()] },
    );
    const root = part("root", [calls(beside("leaf")), says("Early."), says("Root.")], {
      ...BACKGROUND,
      subagents: [leaf.role],
    });
    const s = newFixture();
    const first = await s.outcome(s.start(root.role));
    const second = await s.outcome(s.resume(root.role, first.pausedRun, approveAll(first)));
    const error = thrownBy(() =>
      s.resume(root.role, second.pausedRun, [...approveAll(second), approve(questionOf(first))]),
    );
    expect([error.code, error.data["problem"], error.data["agentPath"], error.message]).toEqual([
      "invalid_answer",
      "already_answered",
      "root/leaf#1",
      expect.stringContaining("root/leaf#1"),
    ]);
    const result = await s.outcome(s.resume(root.role, second.pausedRun, approveAll(second)));
    expect(result.status).toBe("completed");
  });

  test("rejects a duplicate answer and a missing one", async () => {
    const { s, root, paused } = await pausedTree();
    const [answer] = approveAll(paused);
    if (answer === undefined) expect.fail("no question");
    const errors = [[answer, answer], []].map((answers) =>
      thrownBy(() => s.resume(root.role, paused.pausedRun, answers)),
    );
    expect(errors.map(({ code, data }) => [code, data["problem"], data["agentPath"]])).toEqual([
      ["invalid_answer", "duplicate", "root/child#1/leaf#1"],
      ["invalid_answer", "missing", "root/child#1/leaf#1"],
    ]);
    const result = await s.outcome(s.resume(root.role, paused.pausedRun, [answer]));
    expect(rests(result)).toEqual({
      root: "completed",
      "root/child#1": "completed",
      "root/child#1/leaf#1": "completed",
    });
  });

  test("rejects a grant to an unknown agent and a fork at an unknown step", async () => {
    const { s, root, paused } = await pausedTree();
    const grant = thrownBy(() =>
      s.grantOn(
        root.role,
        paused.pausedRun,
        [{ budget: { steps: 1 }, by: "Ann", agentPath: "root/child#2" }],
        approveAll(paused),
      ),
    );
    expect([grant.code, grant.message]).toEqual([
      "invalid_argument",
      'Expected resume options.grants[0].agentPath to be an agent of the run (root, root/child#1, root/child#1/leaf#1), got "root/child#2". See result.agents.',
    ]);
    const fork = thrownBy(() => s.fork(root.role, paused.pausedRun, { atStep: 1 }));
    expect([fork.code, fork.message]).toEqual([
      "invalid_argument",
      "Expected fork options.atStep to be 0, or a step that root has completed (none), got 1. Leave it out for its last, or 0 to begin with its first input.",
    ]);
  });

  test("rejects a snapshot of a running run and of one with live detached agents, and allows it afterwards", async () => {
    const worker = part("worker", () => calls(use("listen")), { tools: [listens("listen")] });
    const lead = part("lead", [calls(beside("worker")), says("Done.")], {
      delegation: { background: true, parentEndPolicy: "detach" },
      subagents: [worker.role],
    });
    const s = newFixture();
    const run = s.start(lead.role);
    expect(thrownBy(() => run.snapshot()).code).toBe("invalid_state");
    await run.result;
    expect(thrownBy(() => run.snapshot()).code).toBe("invalid_state");
    void run.cancel();
    const { snapshot } = await rested(s, run);
    expect(snapshot.agents.map(({ agentPath, state }) => [agentPath, state.status])).toEqual([
      ["lead", "completed"],
      ["lead/worker#1", "cancelled"],
    ]);
  });

  test("refuses messages to an ended child and to an unknown agent", async () => {
    const worker = part("worker", [says("Worked.")]);
    const lead = part(
      "lead",
      [
        calls(spawn("worker")),
        calls(write("worker#1", "Hello."), cancel("worker#1")),
        says("Done."),
      ],
      {
        ...BACKGROUND,
        subagents: [worker.role],
      },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    const result = await s.outcome(run);
    const ended =
      'Not done: worker#1 (lead/worker#1) has ended (completed). To give it another task, call SpawnSubagent with "continue": "worker#1".';
    expect([receivedTexts(lead.model.requests[2]), result.refusalsByCode]).toEqual([
      [ended, ended],
      { subagent_ended: 2 },
    ]);
    const refused = s.sink
      .ofType("subagent.refused")
      .map(({ agentPath, role, error }) => [agentPath, role, error.code]);
    expect(refused).toEqual([
      ["lead", "worker", "subagent_ended"],
      ["lead", "worker", "subagent_ended"],
    ]);
    expect(
      thrownBy(() => run.steer("Hello.", AgentIdSchema().parse("agent_77"))).message,
    ).toContain("agent_77");
    expect(await run.steer("Hello.", result.agents[1]?.agentId)).toEqual({
      isDelivered: false,
      reason: "completed",
    });
  });
});

describe("a stored run that was tampered with", () => {
  test("is refused with `invalid_paused_run`, and the untouched run can still be resumed", async () => {
    const pay = payTool();
    const worker = part("worker", [calls(PAY), says("Worked.")], { tools: [pay] });
    const lead = part("lead", [calls(beside("worker")), says("Early."), says("Late.")], {
      ...BACKGROUND,
      subagents: [worker.role],
    });
    const s = newFixture();
    const paused = await s.outcome(s.start(lead.role));
    const text = JSON.stringify(paused.pausedRun);
    const tampered = {
      "a background child that is not there": text.replace(
        '"background":["agent_2"]',
        '"background":["agent_3"]',
      ),
      "the wrong parent": text.replace('"parentAgentId":"agent_1"', '"parentAgentId":"agent_2"'),
      "an execution of zero": text.replaceAll('"execution":1', '"execution":0'),
      "detached as a word": text.replace('"isDetached":false', '"isDetached":"no"'),
    };
    const codes = Object.entries(tampered).map(([what, stored]) => [
      what,
      stored === text
        ? "the same"
        : thrownBy(() =>
            s.orchestrator.resume(readPausedRun(stored), {
              answers: approveAll(paused),
              role: lead.role,
            }),
          ).code,
    ]);
    expect(Object.fromEntries(codes)).toEqual({
      "a background child that is not there": "invalid_paused_run",
      "the wrong parent": "invalid_paused_run",
      "an execution of zero": "invalid_paused_run",
      "detached as a word": "invalid_paused_run",
    });
    const result = await s.outcome(s.resume(lead.role, paused.pausedRun, approveAll(paused)));
    expect(result.text).toBe("Late.");
  });
});
