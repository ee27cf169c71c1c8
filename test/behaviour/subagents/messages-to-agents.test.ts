// Goal: a caller that writes to any agent of a tree learns the step at which the message was read,
// or why it was not.
// Method: runs that receive messages at every stage of a subagent's life; deliveries, requests and
// events compared in full.

import { describe, expect, test } from "vitest";

import type { SteerReceipt } from "../../../src/agent/mailbox.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { AgentIdSchema } from "../../../src/protocol/ids.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { beside, heard, idOf, onward, rests } from "../../support/life-agents.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import {
  calls,
  listens,
  part,
  quiet,
  spawn,
  receivedTexts,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 1 } };

/** Root, child and leaf; each waits in a tool of its first step, which notifies the test. */
function line() {
  const hold = latch();
  const arrived = { root: latch(), child: latch(), leaf: latch() };
  const stop = (name: keyof typeof arrived) =>
    tool("stop", async () => {
      arrived[name].open();
      await hold.opened;
      return "went on";
    });
  const leaf = part("leaf", [calls(use("stop")), says("Leaf.")], { tools: [stop("leaf")] });
  const child = part("child", [calls(spawn("leaf"), use("stop")), says("Child.")], {
    subagents: [leaf.role],
    tools: [stop("child")],
  });
  const root = part("root", [calls(spawn("child"), use("stop")), says("Root.")], {
    subagents: [child.role],
    tools: [stop("root")],
  });
  return { root, child, leaf, hold, arrived };
}

describe("a message in a tree", () => {
  proves(
    ["X23"],
    "is in the next request of its agent, and the sender receives the step number",
    async () => {
      const { root, child, leaf, hold, arrived } = line();
      const s = newFixture();
      const run = s.start(root.role);
      await Promise.all([arrived.root.opened, arrived.child.opened, arrived.leaf.opened]);
      const ids = s.sink.ofType("agent.started").map(({ agentId }) => agentId);
      const deliveries = ids.map((id, index) => run.steer(`To ${index}.`, id));
      hold.open();
      await s.outcome(run);
      expect(await Promise.all(deliveries)).toEqual(
        [2, 2, 2].map((stepNumber) => ({ isDelivered: true, stepNumber })),
      );
      expect([root, child, leaf].map(({ model }) => heard(model.requests[1], "steering"))).toEqual([
        ["To 0."],
        ["To 1."],
        ["To 2."],
      ]);
      const events = s.sink.ofType("message.delivered");
      expect(
        events
          .map(({ agentPath, origin, characters }) => `${agentPath} ${origin} ${characters}`)
          .toSorted(),
      ).toEqual(["root steering 5", "root/child#1 steering 5", "root/child#1/leaf#1 steering 5"]);
    },
  );

  proves(
    ["X23"],
    "is not delivered to an ended agent, with the agent's status as the reason",
    async () => {
      const done = part("done", [says("Done.")]);
      const broken = part("broken", [{ error: new Error("gone") }]);
      const cut = part("cut", [{ text: "I", finishReason: "length" }]);
      const deliveries: Promise<SteerReceipt>[] = [];
      const write = tool("write", () => {
        for (const { childId } of s.sink.ofType("subagent.spawned"))
          deliveries.push(run.steer("Late.", childId));
        return "written";
      });
      const root = part(
        "root",
        [calls(spawn("done"), spawn("broken"), spawn("cut")), calls(use("write")), says("Root.")],
        { subagents: [done.role, broken.role, cut.role], tools: [write] },
      );
      const s = newFixture();
      const run: Run = s.start(root.role);
      const result = await s.outcome(run);
      expect(await Promise.all(deliveries)).toEqual([
        { isDelivered: false, reason: "completed" },
        { isDelivered: false, reason: "failed" },
        { isDelivered: false, reason: "stopped" },
      ]);
      expect(await run.steer("After all.", idOf(result, "root/done#1"))).toEqual({
        isDelivered: false,
        reason: "completed",
      });
      expect(s.sink.ofType("message.delivered")).toEqual([]);
    },
  );

  test("is not delivered to a cancelled agent, but to one whose next model call fails", async () => {
    const endings = { cancelled: calls(use("listen")), failed: calls(use("fail")) };
    for (const [reason, reply] of Object.entries(endings)) {
      const hold = latch();
      const leaf = part("leaf", [reply, { error: new Error("gone") }], {
        tools: [listens("listen"), tool("fail", async () => (await hold.opened, "failing"))],
        budget: { steps: reason === "failed" ? 5 : 9 },
      });
      const root = part("root", [calls(spawn("leaf")), says("Root.")], { subagents: [leaf.role] });
      const s = newFixture();
      const run = s.start(root.role);
      await until(() => s.sink.ofType("tool.started").length === 2);
      const id = s.sink.ofType("subagent.spawned")[0]?.childId ?? expect.fail("none");
      const delivery = run.steer("Hurry.", id);
      if (reason === "cancelled") run.cancelAgent(id);
      hold.open();
      await s.outcome(run);
      // The request with the message was sent before the model failed, so it was delivered.
      expect(await delivery).toEqual(
        reason === "cancelled"
          ? { isDelivered: false, reason }
          : { isDelivered: true, stepNumber: 2 },
      );
    }
  });

  test("makes a child that is about to answer continue, and its parent waits", async () => {
    const held = latch();
    const child = part("child", [says("First.", { after: held.opened }), says("Second.")]);
    const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
    const s = newFixture();
    const run = s.start(root.role);
    await until(() => child.model.requests.length === 1);
    const delivery = run.steer("Look again.", s.sink.ofType("subagent.spawned")[0]?.childId);
    held.open();
    await s.outcome(run);
    expect([await delivery, receivedTexts(root.model.requests[1])[0]]).toEqual([
      { isDelivered: true, stepNumber: 2 },
      expect.stringContaining('"text":"Second."'),
    ]);
  });

  test("is read by a waiting parent after its child has ended", async () => {
    const held = latch();
    const child = part("child", [says("Child.", { after: held.opened })]);
    const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
    const s = newFixture();
    const run = s.start(root.role);
    await until(() => child.model.requests.length === 1);
    const delivery = run.steer("How far are you?");
    await quiet();
    expect(root.model.requests).toHaveLength(1);
    held.open();
    await s.outcome(run);
    expect([await delivery, heard(root.model.requests[1], "steering")]).toEqual([
      { isDelivered: true, stepNumber: 2 },
      ["How far are you?"],
    ]);
  });

  proves(["X23"], "is delivered to a background subagent, and to a continued one", async () => {
    const hold = [latch(), latch()];
    let turn = 0;
    const worker = part(
      "worker",
      [calls(use("stop")), says("One."), calls(use("stop")), says("Two.")],
      {
        tools: [tool("stop", async () => (await hold[turn]?.opened, "went on"))],
      },
    );
    const root = part(
      "root",
      [calls(beside("worker", "1")), says("Early."), calls(onward("worker#1", "2")), says("Root.")],
      { delegation: { background: true }, subagents: [worker.role] },
    );
    const s = newFixture();
    const run = s.start(root.role);
    const stops = (): number =>
      s.sink.ofType("tool.started").filter(({ toolName }) => toolName === "stop").length;
    await until(() => stops() === 1);
    const id = s.sink.ofType("subagent.spawned")[0]?.childId ?? expect.fail("none");
    const first = run.steer("One.", id);
    hold[0]?.open();
    expect(await first).toEqual({ isDelivered: true, stepNumber: 2 });
    turn = 1;
    await until(() => stops() === 2);
    const second = run.steer("Two.", id);
    hold[1]?.open();
    await s.outcome(run);
    expect([await second, heard(worker.model.requests.at(-1), "steering")]).toEqual([
      { isDelivered: true, stepNumber: 2 },
      ["One.", "Two."],
    ]);
  });

  test("is not delivered to a paused agent, but after the resume", async () => {
    const child = part("child", [calls(PAY), says("Child.")], { tools: [payTool()] });
    const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
    const s = newFixture();
    const run = s.start(root.role);
    const paused = await s.outcome(run);
    const id = idOf(paused, "root/child#1");
    expect(await run.steer("Too late.", id)).toEqual({ isDelivered: false, reason: "paused" });
    const resumed = s.resume(root.role, paused.pausedRun, approveAll(paused));
    const delivery = resumed.steer("In time.", id);
    const result = await s.outcome(resumed);
    expect([await delivery, rests(result)]).toEqual([
      { isDelivered: true, stepNumber: 2 },
      { root: "completed", "root/child#1": "completed" },
    ]);
  });

  test("throws at once if the agent is unknown or the text empty", async () => {
    const root = part("root", [says("Root.")]);
    const s = newFixture();
    const run = s.start(root.role);
    const codes = [
      () => run.steer("Hello.", AgentIdSchema().parse("agent_9")),
      () => run.steer(" "),
    ].map((attempt) => thrownBy(attempt).code);
    await s.outcome(run);
    expect(codes).toEqual(["unknown_agent", "invalid_argument"]);
  });
});
