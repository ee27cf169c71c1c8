// Goal: whatever a tree does comes again in its replay, agent by agent, though no model and no tool is there.
// Method: scenes of subagents in all their ways, recorded and replayed with casts that complain when they are called.

import { test } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { defineDelegation } from "../../src/tools/define-tool.ts";
import { proves } from "../harness/proves.ts";
import { comesToTheSame } from "../journals/play.ts";
import { spawnCall } from "./thinkers.ts";
import { endless, failing, inTurn, lead, worker } from "../journals/roles.ts";

const TASK = z.object({ task: z.string() });

proves(["X25"], "subagents at once that end in another order than they began", async () => {
  await comesToTheSame((cast) => ({
    role: lead(
      cast,
      inTurn([spawnCall("slow", "a"), spawnCall("worker", "b"), spawnCall("quick", "c")]),
      { subagents: [worker(cast, 9, "slow"), worker(cast, 4), worker(cast, 0, "quick")] },
    ),
  }));
});

proves(
  ["X25"],
  "subagents in the background that are waited for, written to, listed and cancelled",
  async () => {
    await comesToTheSame((cast) => ({
      role: lead(
        cast,
        inTurn(
          [
            spawnCall("worker", "first", { background: true }),
            spawnCall("endless", "second", { background: true }),
            spawnCall("slow", "third", { background: true }),
          ],
          [["MessageSubagent", { subagent: "slow#1", message: "Hurry." }]],
          [["WaitForSubagents", { subagents: ["worker#1"] }]],
          [["CancelSubagent", { subagent: "endless#1", reason: "Enough." }]],
          [["CancelSubagent", { subagent: "nobody#1" }]],
        ),
        {
          delegation: { background: true },
          subagents: [worker(cast), endless(cast), worker(cast, 8, "slow")],
        },
      ),
    }));
  },
);

test("X25: a wait that is over before the subagent is", async () => {
  await comesToTheSame((cast) => ({
    role: lead(
      cast,
      inTurn(
        [spawnCall("endless", "first", { background: true })],
        [["WaitForSubagents", { timeoutSeconds: 5 }]],
        [["CancelSubagent", { subagent: "endless#1" }]],
      ),
      { delegation: { background: true }, subagents: [endless(cast)] },
    ),
    acts: [
      {
        when: ({ type, ...event }) =>
          type === "tool.started" && "toolName" in event && event.toolName === "WaitForSubagents",
        act: (_run, clock) => clock.advance(5_000),
      },
    ],
  }));
});

test("X25: a subagent that goes on, before its parent's eyes and in the background", async () => {
  await comesToTheSame((cast) => ({
    role: lead(
      cast,
      inTurn(
        [spawnCall("worker", "first")],
        [spawnCall("worker", "second", { continue: "worker#1" })],
        [spawnCall("worker", "third", { continue: "worker#1", background: true })],
      ),
      { delegation: { background: true } },
    ),
  }));
});

test("X25: agents that their parent leaves to the run", async () => {
  await comesToTheSame((cast) => {
    const leaving = lead(
      cast,
      inTurn([
        spawnCall("worker", "left", { background: true }),
        spawnCall("worker", "right", { background: true }),
      ]),
      { delegation: { background: true, atEnd: "detach" }, purpose: "Leads" },
    );
    const role = defineAgent({
      name: "top",
      instructions: "You lead leads.",
      model: cast.model("top", inTurn([spawnCall("lead", "Lead.")])),
      subagents: [leaving],
    });
    return { role };
  });
});

test("X25: groups: the first failure ends the others; two are enough; two cannot be reached", async () => {
  const groups = [
    ["fail_fast", "failing"],
    ["fail_fast", "worker"],
    ["fail_fast", "nobody"],
    [{ quorum: 2 }, "worker"],
    [{ quorum: 3 }, "failing"],
    [{ quorum: 3 }, "nobody"],
  ] as const;
  for (const [onFailure, second] of groups)
    await comesToTheSame((cast) => ({
      role: lead(
        cast,
        inTurn([
          spawnCall("endless", "a"),
          spawnCall(second, "b"),
          spawnCall("worker", "c"),
          spawnCall("failing", "d"),
        ]),
        {
          delegation: { onFailure },
          subagents: [worker(cast), failing(cast), endless(cast)],
        },
      ),
    }));
});

test("X25: delegations of one's own: one after the other, at once, and one that starts nobody", async () => {
  await comesToTheSame((cast) => {
    const inOrder = defineDelegation({
      name: "in_order",
      description: "Starts two, one after the other.",
      input: TASK,
      execute: async ({ task }, { spawn }) => {
        await spawn({ role: "nobody", task });
        await spawn({ role: "worker", task: `${task} 1` });
        return await spawn({ role: "worker", task: `${task} 2` });
      },
    });
    const atOnce = defineDelegation({
      name: "at_once",
      description: "Starts two at once.",
      input: TASK,
      execute: async ({ task }, { spawn }) => {
        const both = [1, 2].map((part) => spawn({ role: "worker", task: `${task} ${part}` }));
        const [first, second] = await Promise.all(both);
        return second ?? first ?? (await spawn({ role: "worker", task }));
      },
    });
    const none = defineDelegation({
      name: "none",
      description: "Starts nobody.",
      input: TASK,
      execute: ({ task }) => ({ type: "answered", text: `nobody for ${task}` }),
    });
    return {
      role: lead(
        cast,
        inTurn([
          ["in_order", { task: "a" }],
          ["at_once", { task: "b" }],
          ["none", { task: "c" }],
        ]),
        { tools: [inOrder, atOnce, none] },
      ),
    };
  });
});

test("X25: subtasks that a tool queued, one of which cannot be started", async () => {
  await comesToTheSame((cast) => {
    const plan = cast.tool("plan", (_input, { queueSubtask }) => {
      queueSubtask({ role: "nobody", task: "x" });
      queueSubtask({ role: "worker", task: "a" });
      queueSubtask({ role: "worker", task: "b" });
      return "planned";
    });
    return { role: lead(cast, inTurn([["plan", { thing: "all" }]]), { tools: [plan] }) };
  });
});

test("X25: refusals by limits of the tree and of a role", async () => {
  await comesToTheSame((cast) => {
    const deep = lead(cast, inTurn([spawnCall("worker", "x"), spawnCall("worker", "y")]), {
      name: "deep",
      purpose: "Leads",
      limits: { maxBreadthPerParent: 1 },
    });
    const six = Array.from({ length: 6 }, (_one, index) => spawnCall("deep", `part ${index}`));
    return {
      role: lead(cast, inTurn(six, [spawnCall("nobody", "z")]), { subagents: [deep] }),
      options: { limits: { maxDepth: 2, maxBreadthPerParent: 5, maxTotalSubagents: 7 } },
    };
  });
});

test("X25: a budget so tight that agents wait in line, and that is over in the end", async () => {
  const { result } = await comesToTheSame((cast) => {
    const six = Array.from({ length: 6 }, (_one, index) => spawnCall("worker", `part ${index}`));
    return {
      role: lead(cast, inTurn(six), {
        maxOutputTokens: 100,
        subagents: [worker(cast)],
      }),
      start: { budget: { totalTokens: 450 } },
    };
  });
  if (result.status === "completed") throw new Error("The budget was not tight.");
});

test("X25: a context policy, tools that are taken away, metadata", async () => {
  await comesToTheSame((cast) => ({
    role: lead(cast, inTurn([["look", { thing: "map" }]], [spawnCall("worker", "a")]), {
      tools: [cast.tool("look")],
      context: { inheritMessages: true, messageWindowSize: 3, metadataKeys: ["place"] },
    }),
    start: { metadata: { place: "here", secret: "no" } },
  }));
});
