// Goal: no agent ends before its living subagents: it waits for them, cancels them, or has detached
// them by policy.
// Method: a parent with a slow background child, for every way to end and every policy; the order
// of all ends is compared in full.

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { transform } from "../../../src/hooks/hook.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import {
  beside,
  endings,
  heard,
  reporters,
  rests,
  settlements,
} from "../../support/life-agents.ts";
import { calls, part, quiet, spawn, receivedTexts, until } from "../../harness/scripted-agents.ts";
import { type More, type EndsFixture, setUp } from "../../support/life-ends.ts";

const finish = (value: number) => calls({ toolName: "Finish", arguments: { value } });

const OUTPUT = { output: z.object({ value: z.number() }) };

/** Waits until the lead cannot proceed without its child. */
async function untilIdle({ s }: EndsFixture): Promise<void> {
  await until(() => s.sink.ofType("step.completed").length >= 2);
  await quiet();
}

describe("an agent that has answered", () => {
  proves(
    ["X9"],
    "waits for its child by default, and its last request contains the child's result",
    async () => {
      const one = setUp("await", [says("Early."), says("Late.")]);
      const run = one.s.start(one.lead.role);
      await untilIdle(one);
      expect(endings(one.s)).toEqual([]);
      one.done.open();
      const result = await one.s.outcome(run);
      expect([result.text, endings(one.s), reporters(one.lead.model.requests[2])]).toEqual([
        "Late.",
        ["lead/slow#1", "lead"],
        ["slow#1"],
      ]);
      expect([result.detached, settlements(one.s)]).toEqual([[], ["lead/slow#1 completed"]]);
    },
  );

  proves(
    ["X9"],
    'cancels its child with `parentEndPolicy: "cancel"`, and ends after it',
    async () => {
      const one = setUp("cancel", [says("Done.")]);
      const result = await one.s.run(one.lead.role);
      expect([result.text, endings(one.s), settlements(one.s)]).toEqual([
        "Done.",
        ["lead/slow#1", "lead"],
        ["lead/slow#1 cancelled"],
      ]);
      expect(result.agents[1]?.reason.message).toBe("lead, its parent, stopped.");
    },
  );

  proves(
    ["X9"],
    'detaches its child with `parentEndPolicy: "detach"`, and the run ends after the child',
    async () => {
      const one = setUp("detach", [says("Done.")]);
      const run = one.s.start(one.lead.role);
      const early = await run.result;
      expect([early.status, early.detached.map(({ agentId }) => agentId), endings(one.s)]).toEqual([
        "completed",
        ["agent_2"],
        ["lead"],
      ]);
      expect(one.s.sink.ofType("run.ended")).toEqual([]);
      expect(one.s.sink.ofType("subagent.detached").map(({ childPath }) => childPath)).toEqual([
        "lead/slow#1",
      ]);
      one.done.open();
      const result = await one.s.outcome(run);
      expect([result.text, endings(one.s), result.detached]).toEqual([
        "Done.",
        ["lead", "lead/slow#1"],
        [],
      ]);
      expect(result.usage.total.totalTokens).toBe(60);
    },
  );

  test("waits for all of its children, and reads their reports in one request", async () => {
    const [first, second] = [latch(), latch()];
    const one = part("one", [says("One.", { after: first.opened })]);
    const two = part("two", [says("Two.", { after: second.opened })]);
    const lead = part(
      "lead",
      [calls(beside("one"), beside("two")), says("Early."), says("Late.")],
      {
        delegation: { background: true },
        subagents: [one.role, two.role],
      },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => lead.model.requests.length === 2);
    await quiet();
    first.open();
    await until(() => s.sink.ofType("subagent.ended").length === 1);
    await quiet();
    expect(endings(s)).toEqual(["lead/one#1"]);
    second.open();
    const result = await s.outcome(run);
    expect([result.text, lead.model.requests.length]).toEqual(["Late.", 3]);
    expect(reporters(lead.model.requests[2])).toEqual(["one#1", "two#1"]);
  });

  test("may start another child when it reads a report, and waits for that one", async () => {
    const slow = part("slow", () => says("Slow."));
    const lead = part(
      "lead",
      [
        calls(beside("slow")),
        says("Early."),
        calls(beside("slow", "More.")),
        says("Later."),
        says("Last."),
      ],
      {
        delegation: { background: true },
        subagents: [slow.role],
      },
    );
    const s = newFixture();
    const result = await s.run(lead.role);
    expect([result.text, settlements(s)]).toEqual([
      "Last.",
      ["lead/slow#1 completed", "lead/slow#2 completed"],
    ]);
  });

  test("ends at once without background children, whatever the policy", async () => {
    for (const parentEndPolicy of ["await", "cancel", "detach"] as const) {
      const worker = part("worker", [says("Worked.")]);
      const lead = part("lead", [calls(spawn("worker")), says("Done.")], {
        delegation: { background: true, parentEndPolicy },
        subagents: [worker.role],
      });
      const s = newFixture();
      const result = await s.run(lead.role);
      expect([result.text, s.sink.ofType("subagent.detached"), result.detached]).toEqual([
        "Done.",
        [],
        [],
      ]);
    }
  });
});

describe("an agent with a typed result", () => {
  proves(["X9"], "waits for its child, and its last result counts", async () => {
    const one = setUp("await", [finish(1), finish(2)], OUTPUT);
    const run = one.s.start(one.lead.role);
    await untilIdle(one);
    expect(endings(one.s)).toEqual([]);
    one.done.open();
    const result = await one.s.outcome(run);
    expect([result.status, result.output, endings(one.s)]).toEqual([
      "completed",
      { value: 2 },
      ["lead/slow#1", "lead"],
    ]);
  });

  test.each([
    ["cancel", ["lead/slow#1", "lead"]],
    ["detach", ["lead", "lead/slow#1"]],
  ] as const)(
    'ends in the right order with `parentEndPolicy: "%s"`',
    async (parentEndPolicy, order) => {
      const one = setUp(parentEndPolicy, [finish(1)], OUTPUT);
      const run = one.s.start(one.lead.role);
      await run.result;
      one.done.open();
      const result = await one.s.outcome(run);
      expect([result.status, result.output, endings(one.s)]).toEqual([
        "completed",
        { value: 1 },
        order,
      ]);
    },
  );
});

describe("an agent whose answer is vetoed", () => {
  const vetoOnce: More = {
    hooks: [
      transform("stop", ({ vetoes }) =>
        vetoes === 0 ? { continueWith: "Look again." } : undefined,
      ),
    ],
  };

  proves(
    ["X9"],
    "waits for its child, reads the report, and its next answer is vetoed",
    async () => {
      const one = setUp("await", [says("Early."), says("Late."), says("Last.")], vetoOnce);
      const run = one.s.start(one.lead.role);
      await untilIdle(one);
      one.done.open();
      const result = await one.s.outcome(run);
      expect([result.text, heard(one.lead.model.requests.at(-1), "notice")]).toEqual([
        "Last.",
        ["Look again."],
      ]);
    },
  );

  test.each(["cancel", "detach"] as const)(
    'answers once more with `parentEndPolicy: "%s"`',
    async (parentEndPolicy) => {
      const one = setUp(parentEndPolicy, [says("Early."), says("Last.")], vetoOnce);
      const run = one.s.start(one.lead.role);
      await run.result;
      one.done.open();
      const result = await one.s.outcome(run);
      expect([result.text, rests(result)["lead/slow#1"]]).toEqual([
        "Last.",
        parentEndPolicy === "cancel" ? "cancelled (cancelled)" : "completed",
      ]);
    },
  );
});

describe("an agent that receives a message while it waits", () => {
  proves(["X9", "X23"], "answers at once, and waits again", async () => {
    const one = setUp("await", [says("Early."), says("Noted."), says("Late.")]);
    const run = one.s.start(one.lead.role);
    await untilIdle(one);
    const delivery = await run.steer("Be brief.");
    expect(delivery).toEqual({ isDelivered: true, stepNumber: 3 });
    await until(() => one.lead.model.requests.length === 3);
    await quiet();
    expect([receivedTexts(one.lead.model.requests[2]), endings(one.s)]).toEqual([
      ["Be brief."],
      [],
    ]);
    one.done.open();
    const result = await one.s.outcome(run);
    expect([result.text, one.lead.model.requests.length]).toEqual(["Late.", 4]);
  });
});
