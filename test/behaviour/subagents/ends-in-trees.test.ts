// Goal: an agent that ends without an answer never ends before its living subagents, wherever it is
// in the tree.
// Method: a parent with a slow background child, for every way to end and every policy; the order
// of all ends is compared in full.

import { describe, expect, test } from "vitest";
import { hasToolCall } from "../../../src/policies/stop-conditions.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { beside, endings, rests, settlements, waitFor } from "../../support/life-agents.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
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
import { type More, type EndsFixture, setUp } from "../../support/life-ends.ts";

/** Ways to end without an answer, with the resulting status of the lead. */
const WAYS: Readonly<
  Record<
    string,
    {
      readonly replies: readonly ScriptStep[];
      readonly more?: More;
      readonly act?: (run: Run, one: EndsFixture) => unknown;
      readonly status: string;
    }
  >
> = {
  "its model fails": {
    replies: [{ error: new Error("gone") }],
    status: "failed (error)",
  },
  "a limit of steps": {
    replies: [calls(use("look")), says("Never.")],
    more: { budget: { steps: 3, totalTokens: 1_000 } },
    status: "stopped (step_limit)",
  },
  "a limit of tool calls": {
    replies: [calls(use("look"), use("look")), says("Never.")],
    more: { budget: { toolCalls: 3 } },
    status: "stopped (tool_call_limit)",
  },
  "a condition": {
    replies: [calls(use("look")), says("Never.")],
    more: {
      stopWhen: [hasToolCall("look")],
    },
    status: "stopped (tool_called)",
  },
  "it is cancelled": {
    replies: [calls(use("listen"))],
    act: (run) => void run.cancel("Enough."),
    status: "cancelled (cancelled)",
  },
  "it is cancelled while it waits": {
    replies: [says("Early.")],
    act: (run) => void run.cancel("Enough."),
    status: "cancelled (cancelled)",
  },
  "it is asked to stop": {
    replies: [calls(use("hold"))],
    act: (run, { done }) => {
      run.requestStop();
      done.open();
    },
    status: "stopped (stop_requested)",
  },
  "it is asked to stop while it waits": {
    replies: [says("Early.")],
    act: (run) => run.requestStop(),
    status: "stopped (stop_requested)",
  },
  "its time is over": {
    replies: [calls(use("listen"))],
    more: { budget: { timeMs: 1_000 } },
    act: (_run, { s }) => s.clock.advance(1_000),
    status: "stopped (time_limit)",
  },
  "its time is over while it waits": {
    replies: [says("Early.")],
    more: { budget: { timeMs: 1_000 } },
    act: (_run, { s }) => s.clock.advance(1_000),
    status: "stopped (time_limit)",
  },
  "a reply that is cut off": {
    replies: [{ text: "I", finishReason: "length" }],
    status: "stopped (finish_reason)",
  },
};

const OVER: unknown = expect.stringMatching(/^(cancelled|stopped)/u);

describe("an agent that ends without an answer cancels its child whatever its policy", () => {
  for (const [way, { replies, more = {}, act, status }] of Object.entries(WAYS))
    for (const parentEndPolicy of ["await", "cancel", "detach"] as const) {
      const isEarly = parentEndPolicy !== "await" && way.endsWith("while it waits");
      if (isEarly) continue;
      proves(["X9", "X8"], `${way}: ${parentEndPolicy}`, async () => {
        const one = setUp(parentEndPolicy, replies, {
          ...more,
          tools: [
            tool("look", () => "seen"),
            listens("listen"),
            tool("hold", async () => (await one.done.opened, "held")),
          ],
        });
        const run = one.s.start(one.lead.role);
        if (act !== undefined) {
          await untilIdle1(one);
          act(run, one);
        }
        const result = await one.s.outcome(run);
        expect(rests(result)).toEqual({
          lead: status,
          "lead/slow#1": OVER,
        });
        expect([endings(one.s), settlements(one.s).length, result.detached]).toEqual([
          ["lead/slow#1", "lead"],
          1,
          [],
        ]);
      });
    }
});

/** Waits until no agent proceeds without external input. */
async function untilIdle1({ lead }: EndsFixture): Promise<void> {
  await until(() => lead.model.requests.length === 2);
  await quiet();
}

describe("an agent in the middle of a tree", () => {
  test("waits for its background child before its parent gets its result", async () => {
    const done = latch();
    const leaf = part("leaf", [says("Leaf.", { after: done.opened })]);
    const middle = part("middle", [calls(beside("leaf")), says("Early."), says("Late.")], {
      delegation: { background: true },
      subagents: [leaf.role],
    });
    const lead = part("lead", [calls(spawn("middle")), says("Done.")], {
      subagents: [middle.role],
    });
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => middle.model.requests.length === 2);
    await quiet();
    expect(endings(s)).toEqual([]);
    done.open();
    await s.outcome(run);
    expect(endings(s)).toEqual(["lead/middle#1/leaf#1", "lead/middle#1", "lead"]);
    expect(receivedTexts(lead.model.requests[1])[0]).toContain("Late.");
  });

  test("cancels only its own subtree if it is cancelled", async () => {
    const leaf = part("leaf", () => calls(use("listen")), { tools: [listens("listen")] });
    const middle = part("middle", [calls(beside("leaf")), says("Early.")], {
      delegation: { background: true },
      subagents: [leaf.role],
    });
    const done = latch();
    const slow = part("slow", [says("Slow.", { after: done.opened })]);
    const lead = part(
      "lead",
      [calls(beside("middle"), beside("slow")), says("Early."), says("Done.")],
      {
        delegation: { background: true },
        subagents: [middle.role, slow.role],
      },
    );
    const s = newFixture();
    const run = s.start(lead.role);
    await until(() => s.sink.ofType("tool.started").some(({ toolName }) => toolName === "listen"));
    await quiet();
    run.cancelAgent(s.sink.ofType("subagent.spawned")[0]?.childId ?? expect.fail("none"));
    await until(() => endings(s).length === 2);
    done.open();
    const result = await s.outcome(run);
    expect([rests(result), endings(s)]).toEqual([
      {
        lead: "completed",
        "lead/middle#1": "cancelled (cancelled)",
        "lead/slow#1": "completed",
        "lead/middle#1/leaf#1": "cancelled (cancelled)",
      },
      ["lead/middle#1/leaf#1", "lead/middle#1", "lead/slow#1", "lead"],
    ]);
  });
});

describe("a background child that ignores its signal", () => {
  proves(["X9", "X8"], "is abandoned after the grace period, and the run ends", async () => {
    const never = new Promise<void>(() => undefined);
    const slow = part("slow", [says("Slow.", { after: never, ignoresSignal: true })]);
    const lead = part("lead", [calls(beside("slow")), says("Done.")], {
      delegation: { background: true, parentEndPolicy: "cancel" },
      subagents: [slow.role],
    });
    const s = newFixture({ graceMs: 500 });
    const run = s.start(lead.role);
    await until(() => s.clock.pendingTimers > 0);
    await quiet();
    expect(endings(s)).toEqual([]);
    s.clock.advance(500);
    const result = await s.outcome(run);
    expect([rests(result), endings(s)]).toEqual([
      { lead: "completed", "lead/slow#1": "cancelled (cancelled)" },
      ["lead/slow#1", "lead"],
    ]);
  });
});

describe("a run resumed in a fresh orchestrator", () => {
  for (const parentEndPolicy of ["await", "cancel", "detach"] as const)
    proves(
      ["X9", "X8"],
      `ends each agent once with \`parentEndPolicy: "${parentEndPolicy}"\``,
      async () => {
        const pay = payTool();
        const slow = part(
          "slow",
          [calls({ toolName: "pay", arguments: { amount: 1 } }), says("Slow.")],
          {
            tools: [pay],
          },
        );
        const lead = part(
          "lead",
          [
            calls(beside("slow")),
            calls({ toolName: "pay", arguments: { amount: 2 } }),
            says("Early."),
            says("Late."),
          ],
          {
            delegation: { background: true, parentEndPolicy },
            subagents: [slow.role],
            tools: [pay],
          },
        );
        const s = newFixture();
        const paused = await s.outcome(s.start(lead.role));
        expect([paused.status, paused.questions.length]).toEqual(["paused", 2]);
        const answers = approveAll(paused);
        const run = s.resume(lead.role, paused.pausedRun, answers);
        const result = await s.outcome(run);
        expect(result.status).toBe("completed");
        expect(settlements(s)).toHaveLength(1);
        expect(endings(s).toSorted()).toEqual(["lead", "lead/slow#1"]);
      },
    );
});

test("a wait interrupted by the agent's cancel settles the subagent once", async () => {
  const one = setUp("await", [calls(waitFor()), says("Never.")]);
  const run = one.s.start(one.lead.role);
  await untilIdle1(one);
  void run.cancel("Enough.");
  const result = await one.s.outcome(run);
  expect([rests(result), settlements(one.s)]).toEqual([
    { lead: "cancelled (cancelled)", "lead/slow#1": "cancelled (cancelled)" },
    ["lead/slow#1 cancelled"],
  ]);
});
