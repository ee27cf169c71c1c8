// Goal: a detached subagent outlives its parent, the run settles after it, and it remains visible.
// Method: latches hold the detached subagent while everything else happens; results, events and
// accounts compared in full.

import { describe, expect, test } from "vitest";

import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { beside, endings, rested, rests, settlements } from "../../support/life-agents.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { thrownBy } from "../../support/thrown.ts";
import {
  aborted,
  calls,
  part,
  quiet,
  spawn,
  tool,
  until,
  use,
} from "../../harness/scripted-agents.ts";

const DETACH = { delegation: { background: true, parentEndPolicy: "detach" } } as const;
const PAY = { toolName: "pay", arguments: { amount: 1 } };

function setUp() {
  const done = latch();
  const work = tool("work", async ({ signal }) => {
    await Promise.race([done.opened, aborted(signal)]);
    return "worked";
  });
  const slow = part("slow", [calls(use("work")), says("Slow.")], { tools: [work] });
  const lead = part("lead", [calls(beside("slow")), says("Done.")], {
    ...DETACH,
    subagents: [slow.role],
  });
  return { s: newFixture(), lead, slow, done };
}

describe("a living detached subagent", () => {
  proves(["X9"], "is listed in the early result, and the run ends after it", async () => {
    const { s, lead, done } = setUp();
    const run = s.start(lead.role);
    const early = await run.result;
    expect([
      early.status,
      early.text,
      early.detached.map(({ agentId }) => agentId),
      early.agents.length,
    ]).toEqual(["completed", "Done.", ["agent_2"], 1]);
    expect(thrownBy(() => run.snapshot()).code).toBe("invalid_state");
    done.open();
    const result = await s.outcome(run);
    expect([result.detached, rests(result)]).toEqual([
      [],
      { lead: "completed", "lead/slow#1": "completed" },
    ]);
    expect(s.sink.events.slice(-3).map(({ type }) => type)).toEqual([
      "agent.ended",
      "subagent.ended",
      "run.ended",
    ]);
    expect(run.snapshot().agents.map(({ agentPath }) => agentPath)).toEqual([
      "lead",
      "lead/slow#1",
    ]);
  });

  test("accepts messages, and can be cancelled by its id", async () => {
    const { s, lead } = setUp();
    const run = s.start(lead.role);
    const { detached } = await run.result;
    const id = detached[0]?.agentId;
    if (id === undefined) expect.fail("no agent lives on");
    const delivery = run.steer("Hurry.", id);
    run.cancelAgent(id, "Enough.");
    const result = await s.outcome(run);
    expect([rests(result), await delivery]).toEqual([
      { lead: "completed", "lead/slow#1": "cancelled (cancelled)" },
      { isDelivered: false, reason: "cancelled" },
    ]);
  });

  test("is cancelled with the run", async () => {
    const { s, lead } = setUp();
    const run = s.start(lead.role);
    await run.result;
    const early = await run.cancel("Enough.");
    const result = await s.outcome(run);
    expect([early.status, rests(result), settlements(s)]).toEqual([
      "completed",
      { lead: "completed", "lead/slow#1": "cancelled (cancelled)" },
      ["lead/slow#1 cancelled"],
    ]);
  });

  test("is stopped with the run", async () => {
    const { s, lead, done } = setUp();
    const run = s.start(lead.role);
    await run.result;
    run.requestStop();
    done.open();
    const result = await s.outcome(run);
    expect(rests(result)).toEqual({ lead: "completed", "lead/slow#1": "stopped (stop_requested)" });
  });

  test("uses the budget of its parent, which a grant can raise", async () => {
    const { s, lead, done } = setUp();
    const run = s.start(lead.role, "Do it.", { budget: { steps: 3 } });
    await run.result;
    expect(run.grant({ steps: 1 }, { by: "Ann" })).toBe(true);
    done.open();
    const result = await s.outcome(run);
    expect([rests(result), result.accounts[0]?.total.steps]).toEqual([
      { lead: "completed", "lead/slow#1": "completed" },
      4,
    ]);
  });

  test("is stopped by the limit of the tree without a grant", async () => {
    const { s, lead, done } = setUp();
    const run = s.start(lead.role, "Do it.", { budget: { steps: 3 } });
    await run.result;
    done.open();
    const result = await s.outcome(run);
    expect(rests(result)).toEqual({ lead: "completed", "lead/slow#1": "stopped (step_limit)" });
  });

  test("emits its events to listeners until it ends", async () => {
    const { s, lead, done } = setUp();
    const run = s.start(lead.role);
    const heard: string[] = [];
    const listening = (async () => {
      for await (const { type, agentPath } of run.events()) heard.push(`${agentPath} ${type}`);
    })();
    await run.result;
    done.open();
    await s.outcome(run);
    await listening;
    expect(heard.slice(-3)).toEqual([
      "lead/slow#1 agent.ended",
      "lead subagent.ended",
      "lead run.ended",
    ]);
  });
});

describe("a detached subagent further down", () => {
  proves(["X9"], "continues while the rest of the tree works and ends", async () => {
    const done = latch();
    const leaf = part("leaf", [says("Leaf.", { after: done.opened })]);
    const middle = part("middle", [calls(beside("leaf")), says("Middle.")], {
      ...DETACH,
      subagents: [leaf.role],
    });
    const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
      subagents: [middle.role],
    });
    const s = newFixture();
    const run = s.start(lead.role);
    const early = await run.result;
    expect([early.text, early.detached.length, endings(s)]).toEqual([
      "Done.",
      1,
      ["lead/middle#1", "lead"],
    ]);
    done.open();
    const result = await s.outcome(run);
    expect([endings(s).at(-1), result.usage.total.totalTokens]).toEqual([
      "lead/middle#1/leaf#1",
      75,
    ]);
  });

  test("waits for subagents that it starts itself", async () => {
    const done = latch();
    const leaf = part("leaf", [says("Leaf.", { after: done.opened })]);
    const middle = part("middle", [calls(spawn("leaf")), says("Middle.")], {
      subagents: [leaf.role],
    });
    const lead = part("lead", [calls(beside("middle")), says("Done.")], {
      ...DETACH,
      subagents: [middle.role],
    });
    const s = newFixture();
    const run = s.start(lead.role);
    await run.result;
    done.open();
    const result = await s.outcome(run);
    expect(endings(s)).toEqual(["lead", "lead/middle#1/leaf#1", "lead/middle#1"]);
    expect(rests(result)["lead/middle#1"]).toBe("completed");
  });

  test("may itself have a detached subagent", async () => {
    const [one, two] = [latch(), latch()];
    const leaf = part("leaf", [says("Leaf.", { after: two.opened })]);
    const middle = part("middle", [calls(beside("leaf")), says("Middle.", { after: one.opened })], {
      ...DETACH,
      subagents: [leaf.role],
    });
    const lead = part("lead", [calls(beside("middle")), says("Done.")], {
      ...DETACH,
      subagents: [middle.role],
    });
    const s = newFixture();
    const run = s.start(lead.role);
    await run.result;
    one.open();
    await until(() => endings(s).includes("lead/middle#1"));
    await quiet();
    expect(s.sink.ofType("run.ended")).toEqual([]);
    two.open();
    const result = await s.outcome(run);
    expect([endings(s), result.status]).toEqual([
      ["lead", "lead/middle#1", "lead/middle#1/leaf#1"],
      "completed",
    ]);
  });
});

describe("a detached subagent that asks for an approval", () => {
  proves(
    ["X9", "X8"],
    "is cancelled if the root has ended, as the run could not be resumed",
    async () => {
      const slow = part("slow", [calls(PAY), says("Never.")], { tools: [payTool()] });
      const lead = part("lead", [calls(beside("slow")), says("Done.")], {
        ...DETACH,
        subagents: [slow.role],
      });
      const s = newFixture();
      const result = await s.run(lead.role);
      expect([result.status, rests(result), settlements(s)]).toEqual([
        "completed",
        { lead: "completed", "lead/slow#1": "cancelled (cancelled)" },
        ["lead/slow#1 cancelled"],
      ]);
    },
  );

  test("pauses and resumes with the run while the root works", async () => {
    const pay = payTool();
    const leaf = part("leaf", [calls(PAY), says("Leaf.")], { tools: [pay] });
    const middle = part("middle", [calls(beside("leaf")), says("Middle.")], {
      ...DETACH,
      subagents: [leaf.role],
    });
    const lead = part("lead", [calls(spawn("middle")), calls(PAY), says("Done.")], {
      subagents: [middle.role],
      tools: [pay],
    });
    const s = newFixture();
    const paused = await s.outcome(s.start(lead.role));
    expect([paused.status, paused.questions.map(({ agentPath }) => agentPath)]).toEqual([
      "paused",
      ["lead", "lead/middle#1/leaf#1"],
    ]);
    const { result } = await rested(s, s.resume(lead.role, paused.pausedRun, approveAll(paused)));
    expect([rests(result), pay.paid.length]).toEqual([
      { lead: "completed", "lead/middle#1": "completed", "lead/middle#1/leaf#1": "completed" },
      2,
    ]);
  });
});

test("a pause request ends detached subagents if the root has ended", async () => {
  const { s, lead, done } = setUp();
  const run = s.start(lead.role);
  await run.result;
  run.requestPause();
  done.open();
  const result = await s.outcome(run);
  expect([result.status, endings(s)]).toEqual(["completed", ["lead", "lead/slow#1"]]);
});
