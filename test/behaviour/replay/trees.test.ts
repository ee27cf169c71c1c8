// Goal: everything that a tree does occurs again in its replay, agent by agent, without models and
// tools.
// Method: stories of subagents in all their forms, recorded and replayed with fakes that fail when
// they are called.

import { test } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { comesToTheSame } from "../../fixtures/journals/play.ts";
import { spawnCall } from "../../support/journal/thinkers.ts";
import { endless, failing, inTurn, lead, worker } from "../../fixtures/journals/roles.ts";

const TASK = z.object({ task: z.string() });

proves(
  ["X25"],
  "replays concurrent subagents that end in another order than they began",
  async () => {
    await comesToTheSame((fakes) => ({
      role: lead(
        fakes,
        inTurn([spawnCall("slow", "a"), spawnCall("worker", "b"), spawnCall("quick", "c")]),
        { subagents: [worker(fakes, 9, "slow"), worker(fakes, 4), worker(fakes, 0, "quick")] },
      ),
    }));
  },
);

proves(
  ["X25"],
  "replays background subagents that are awaited, messaged, listed and cancelled",
  async () => {
    await comesToTheSame((fakes) => ({
      role: lead(
        fakes,
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
          subagents: [worker(fakes), endless(fakes), worker(fakes, 8, "slow")],
        },
      ),
    }));
  },
);

test("replays a wait that times out before the subagent ends", async () => {
  await comesToTheSame((fakes) => ({
    role: lead(
      fakes,
      inTurn(
        [spawnCall("endless", "first", { background: true })],
        [["WaitForSubagents", { timeoutSeconds: 5 }]],
        [["CancelSubagent", { subagent: "endless#1" }]],
      ),
      { delegation: { background: true }, subagents: [endless(fakes)] },
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

test("replays a subagent that is continued in the foreground and in the background", async () => {
  await comesToTheSame((fakes) => ({
    role: lead(
      fakes,
      inTurn(
        [spawnCall("worker", "first")],
        [spawnCall("worker", "second", { continue: "worker#1" })],
        [spawnCall("worker", "third", { continue: "worker#1", background: true })],
      ),
      { delegation: { background: true } },
    ),
  }));
});

test("replays detached subagents", async () => {
  await comesToTheSame((fakes) => {
    const leaving = lead(
      fakes,
      inTurn([
        spawnCall("worker", "left", { background: true }),
        spawnCall("worker", "right", { background: true }),
      ]),
      { delegation: { background: true, parentEndPolicy: "detach" }, description: "Leads" },
    );
    const role = defineAgent({
      name: "top",
      instructions: "You lead leads.",
      model: fakes.model("top", inTurn([spawnCall("lead", "Lead.")])),
      subagents: [leaving],
    });
    return { role };
  });
});

test("replays groups: the first failure ends the others, a quorum is reached, a quorum is unreachable", async () => {
  const groups = [
    ["fail_fast", "failing"],
    ["fail_fast", "worker"],
    ["fail_fast", "nobody"],
    [{ quorum: 2 }, "worker"],
    [{ quorum: 3 }, "failing"],
    [{ quorum: 3 }, "nobody"],
  ] as const;
  for (const [failurePolicy, second] of groups)
    await comesToTheSame((fakes) => ({
      role: lead(
        fakes,
        inTurn([
          spawnCall("endless", "a"),
          spawnCall(second, "b"),
          spawnCall("worker", "c"),
          spawnCall("failing", "d"),
        ]),
        {
          delegation: { failurePolicy },
          subagents: [worker(fakes), failing(fakes), endless(fakes)],
        },
      ),
    }));
});

test("replays custom delegations: in sequence, concurrent, and one that starts no subagent", async () => {
  await comesToTheSame((fakes) => {
    const inOrder = defineDelegation({
      name: "in_order",
      description: "Starts two, one after the other.",
      inputSchema: TASK,
      execute: async ({ task }, { spawn }) => {
        await spawn({ role: "nobody", task });
        await spawn({ role: "worker", task: `${task} 1` });
        return await spawn({ role: "worker", task: `${task} 2` });
      },
    });
    const atOnce = defineDelegation({
      name: "at_once",
      description: "Starts two at once.",
      inputSchema: TASK,
      execute: async ({ task }, { spawn }) => {
        const both = [1, 2].map((part) => spawn({ role: "worker", task: `${task} ${part}` }));
        const [first, second] = await Promise.all(both);
        return second ?? first ?? (await spawn({ role: "worker", task }));
      },
    });
    const none = defineDelegation({
      name: "none",
      description: "Starts no subagent.",
      inputSchema: TASK,
      execute: ({ task }) => ({ type: "answered", text: `nobody for ${task}` }),
    });
    return {
      role: lead(
        fakes,
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

test("replays subtasks that a tool queued, one of which cannot be started", async () => {
  await comesToTheSame((fakes) => {
    const plan = fakes.tool("plan", (_input, { queueSubtask }) => {
      queueSubtask({ role: "nobody", task: "x" });
      queueSubtask({ role: "worker", task: "a" });
      queueSubtask({ role: "worker", task: "b" });
      return "planned";
    });
    return { role: lead(fakes, inTurn([["plan", { thing: "all" }]]), { tools: [plan] }) };
  });
});

test("replays refusals by limits of the tree and of a role", async () => {
  await comesToTheSame((fakes) => {
    const deep = lead(fakes, inTurn([spawnCall("worker", "x"), spawnCall("worker", "y")]), {
      name: "deep",
      description: "Leads",
      limits: { maxBreadthPerParent: 1 },
    });
    const six = Array.from({ length: 6 }, (_one, index) => spawnCall("deep", `part ${index}`));
    return {
      role: lead(fakes, inTurn(six, [spawnCall("nobody", "z")]), { subagents: [deep] }),
      options: { limits: { maxDepth: 2, maxBreadthPerParent: 5, maxTotalSubagents: 7 } },
    };
  });
});

test("replays agents that wait for a budget, which is exhausted in the end", async () => {
  const { result } = await comesToTheSame((fakes) => {
    const six = Array.from({ length: 6 }, (_one, index) => spawnCall("worker", `part ${index}`));
    return {
      role: lead(fakes, inTurn(six), {
        maxOutputTokens: 100,
        subagents: [worker(fakes)],
      }),
      start: { budget: { totalTokens: 450 } },
    };
  });
  if (result.status === "completed") throw new Error("The budget was not tight.");
});

test("replays a context policy, removed tools and metadata", async () => {
  await comesToTheSame((fakes) => ({
    role: lead(fakes, inTurn([["look", { thing: "map" }]], [spawnCall("worker", "a")]), {
      tools: [fakes.tool("look")],
      contextPolicy: { inheritMessages: true, messageWindowSize: 3, metadataKeys: ["place"] },
    }),
    start: { metadata: { place: "here", secret: "no" } },
  }));
});
