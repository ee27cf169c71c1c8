// Goal: a caller that writes to a running agent learns the step at which the message was read, or
// why it was not.

import { describe, expect, test } from "vitest";

import { EspalierError } from "../../../src/kernel/error.ts";
import type { SteerReceipt } from "../../../src/agent/mailbox.ts";
import { AgentIdSchema } from "../../../src/protocol/ids.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll, ending, payTool } from "../../support/pause-stories.ts";
import { calls, listens, part, spawn, until, use } from "../../harness/scripted-agents.ts";

const PAY = { toolName: "pay", arguments: { amount: 3 } };

const steered = (text: string) => ({ role: "user", origin: "steering", text });

proves(
  ["X23"],
  "a message is in the next request with its step number, and is not delivered to an ended agent",
  async () => {
    const work = spyTool("work", () => void deliveries.push(run.steer("Hurry.")));
    const deliveries: Promise<SteerReceipt>[] = [];
    const { role, model } = soloist([calls(use("work")), calls(use("work")), says("done")], {
      tools: [work],
    });
    const fixture = newFixture();
    const run = fixture.start(role);
    const result = await fixture.outcome(run);
    expect(await Promise.all(deliveries)).toEqual([
      { isDelivered: true, stepNumber: 2 },
      { isDelivered: true, stepNumber: 3 },
    ]);
    expect(model.requests.map(({ messages }) => messages.at(-1)?.text)).toEqual([
      "Do it.",
      "Hurry.",
      "Hurry.",
    ]);
    expect(model.requests[1]?.messages.at(-1)).toEqual(steered("Hurry."));
    const events = fixture.sink.ofType("message.delivered");
    expect(events.map(({ origin, characters, stepId }) => [origin, characters, stepId])).toEqual([
      ["steering", 6, "execution_1.2"],
      ["steering", 6, "execution_1.3"],
    ]);
    expect([ending(result), await run.steer("Too late.")]).toEqual([
      ["completed", "completed"],
      { isDelivered: false, reason: "completed" },
    ]);
  },
);

describe("a message to an agent", () => {
  test("is read in the first step if it arrives before, in order with others", async () => {
    const { role, model } = soloist([says("done")]);
    const fixture = newFixture();
    const run = fixture.start(role);
    const deliveries = ["One.", "Two.", "Three."].map((text) => run.steer(text));
    await fixture.outcome(run);
    expect(await Promise.all(deliveries)).toEqual(
      Array.from({ length: 3 }, () => ({ isDelivered: true, stepNumber: 1 })),
    );
    expect(model.requests[0]?.messages.slice(-3)).toEqual(["One.", "Two.", "Three."].map(steered));
  });

  test("makes the agent continue that was about to answer", async () => {
    const held = latch();
    const { role, model } = soloist([says("first", { after: held.opened }), says("second")]);
    const fixture = newFixture();
    const run = fixture.start(role);
    await until(() => model.requests.length === 1);
    const delivery = run.steer("Look again.");
    held.open();
    const result = await fixture.outcome(run);
    expect([await delivery, result.text, ending(result)]).toEqual([
      { isDelivered: true, stepNumber: 2 },
      "second",
      ["completed", "completed"],
    ]);
    expect(fixture.sink.ofType("continuation.evaluated").map(({ work }) => work)).toEqual([
      ["messages"],
      [],
    ]);
  });

  test("is not delivered if its step limit is reached", async () => {
    const held = latch();
    const { role, model } = soloist([says("first", { after: held.opened })]);
    const fixture = newFixture();
    const run = fixture.start(role, "Do it.", { budget: { steps: 1 } });
    await until(() => model.requests.length === 1);
    const delivery = run.steer("Look again.");
    held.open();
    const result = await fixture.outcome(run);
    expect([await delivery, result.text, model.requests.length]).toEqual([
      { isDelivered: false, reason: result.status },
      "first",
      1,
    ]);
  });

  for (const way of ["cancel", "stop"] as const) {
    test(`is not delivered if a ${way} is requested`, async () => {
      const { role } = soloist([calls(use("work"))], { tools: [listens("work")] });
      const fixture = newFixture();
      const run = fixture.start(role, "Do it.", { deadlineAtMs: 10 });
      await until(() => fixture.sink.ofType("tool.started").length === 1);
      const delivery = run.steer("Hurry.");
      if (way === "cancel") void run.cancel();
      else run.requestStop();
      if (way === "stop") fixture.clock.advance(10);
      const result = await fixture.outcome(run);
      expect(await delivery).toEqual({ isDelivered: false, reason: result.status });
    });
  }

  test("is not delivered if the agent fails", async () => {
    const held = latch();
    const { role, model } = soloist([{ error: new Error("broken"), after: held.opened }]);
    const fixture = newFixture();
    const run = fixture.start(role);
    await until(() => model.requests.length === 1);
    const delivery = run.steer("Hurry.");
    held.open();
    await fixture.outcome(run);
    expect(await delivery).toEqual({ isDelivered: false, reason: "failed" });
  });

  test("is not delivered if the agent pauses, and is not kept", async () => {
    const held = latch();
    const work = spyTool("work", () => held.opened);
    const { role, model } = soloist([calls(PAY, use("work")), says("done")], {
      tools: [payTool(), work],
    });
    const fixture = newFixture();
    const run = fixture.start(role);
    await until(() => work.calls.length === 1);
    const early = run.steer("Early.");
    held.open();
    const paused = await fixture.outcome(run);
    const late = await run.steer("Late.");
    expect([await early, late]).toEqual([
      { isDelivered: false, reason: "paused" },
      { isDelivered: false, reason: "paused" },
    ]);
    const resumed = fixture.resume(role, paused.pausedRun, approveAll(paused));
    const again = resumed.steer("Again.");
    await fixture.outcome(resumed);
    expect(await again).toEqual({ isDelivered: true, stepNumber: 2 });
    const texts = model.requests[1]?.messages.map(({ text }) => text) ?? [];
    expect(texts.filter((text) => ["Early.", "Late.", "Again."].includes(text))).toEqual([
      "Again.",
    ]);
  });

  test("may be for a subagent, and its parent does not read it", async () => {
    const held = latch();
    const work = spyTool("work", () => held.opened);
    const child = part("child", [calls(use("work")), says("Child.")], { tools: [work] });
    const root = part("root", [calls(spawn("child")), says("Root.")], { subagents: [child.role] });
    const fixture = newFixture();
    const run = fixture.start(root.role);
    await until(() => work.calls.length === 1);
    const childId = fixture.sink.ofType("subagent.spawned")[0]?.childId ?? expect.fail("no child");
    const delivery = run.steer("Hurry.", childId);
    held.open();
    await fixture.outcome(run);
    expect([await delivery, await run.steer("Late.", childId)]).toEqual([
      { isDelivered: true, stepNumber: 2 },
      { isDelivered: false, reason: "completed" },
    ]);
    expect(JSON.stringify(root.model.requests)).not.toContain("Hurry.");
  });

  test("is refused at once if the agent is unknown or the text is empty or not a string", async () => {
    const fixture = newFixture();
    const run = fixture.start(soloist([says("done")]).role);
    const codes = [
      () => run.steer("Hurry.", AgentIdSchema().parse("agent_99")),
      () => run.steer(""),
      () => void Reflect.apply(run.steer, run, [7]),
    ].map((attempt) => {
      try {
        void attempt();
        return "nothing";
      } catch (error) {
        return EspalierError.is(error) ? error.code : error;
      }
    });
    expect(codes).toEqual(["unknown_agent", "invalid_argument", "invalid_argument"]);
    await fixture.outcome(run);
  });
});
