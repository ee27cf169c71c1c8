// Goal: a user who inspects a failed run first reads where the failure began.
// Method: trees whose leaf fails, for each way in which a failure propagates; compare the causes of
// their folds.

import { expect } from "vitest";

import { ModelError } from "../../src/index.ts";
import { asks, says } from "../../src/testing/index.ts";
import { proves } from "../harness/proves.ts";
import { agent, causesIn, read, spawn, times } from "../support/read-model/causes-in.ts";

const STRICT = { maxToolErrors: 0, maxConsecutiveErrors: 0 };
const AWAY = { error: new ModelError({ code: "model_unauthorized", message: "Wrong key." }) };

proves(
  ["V23"],
  "names a failing model of a subagent as the first cause of the root's stop",
  async () => {
    const reader = agent("reader", [asks("read", {}), AWAY], { tools: [read(() => "text")] });
    const lead = agent("lead", [spawn("reader", "Read it."), says("Never.")], {
      subagents: [reader],
      errorBudget: STRICT,
    });
    expect(await causesIn(lead)).toEqual([
      "lead/reader#1 step 2 model_unauthorized: Wrong key.",
      "lead step 1 error_budget, a limit",
    ]);
  },
);

proves(
  ["V23"],
  "names a failed tool call before the agent that stopped because of it",
  async () => {
    const broken = read(() => {
      throw new Error("ENOENT");
    });
    const lead = agent("lead", [asks("read", {}), says("Never.")], {
      tools: [broken],
      errorBudget: STRICT,
    });
    expect(await causesIn(lead)).toEqual([
      "lead step 1 read tool_error: ENOENT",
      "lead step 1 error_budget, a limit",
    ]);
  },
);

proves(["V23"], "names the first agent that a limit stopped", async () => {
  const reader = agent("reader", [asks("read", {}), says("Done.")], {
    tools: [read(() => "text")],
  });
  const lead = agent("lead", [spawn("reader", "Read it."), says("Never.")], {
    subagents: [reader],
  });
  expect(await causesIn(lead, { steps: 2 })).toEqual([
    "lead/reader#1 step 1 step_limit, a limit",
    "lead step 1 step_limit, a limit",
  ]);
});

proves(["V23"], "names failed agents of a completed run, the earliest first", async () => {
  const reader = agent("reader", [AWAY]);
  const writer = agent("writer", [AWAY]);
  const lead = agent(
    "lead",
    [spawn("writer", "Write."), spawn("reader", "Read."), says("All is well.")],
    { subagents: [reader, writer] },
  );
  expect(await causesIn(lead)).toEqual([
    "lead/writer#1 step 1 model_unauthorized: Wrong key.",
    "lead/reader#1 step 1 model_unauthorized: Wrong key.",
  ]);
  expect(await causesIn(agent("lead", [says("Done.")]))).toEqual([]);
});

proves(
  ["D220"],
  "lists limits of a completed run after the errors, once each with the first agent that reached them",
  async () => {
    const reading = [...times(4, asks("read", {})), says("Done.")];
    const reader = agent("reader", times(3, reading).flat(), {
      tools: [read(() => "text")],
      budget: { steps: 1 },
    });
    const writer = agent("writer", [AWAY]);
    const lead = agent(
      "lead",
      [
        spawn("reader", "Read a."),
        spawn("reader", "Read b."),
        spawn("writer", "Write."),
        says("All is well."),
      ],
      { subagents: [reader, writer] },
    );
    expect(await causesIn(lead)).toEqual([
      "lead/writer#1 step 1 model_unauthorized: Wrong key.",
      "lead/reader#1 step 1 step_limit, a limit",
      "lead/reader#2 step 1 step_limit, a limit",
    ]);
  },
);

proves(
  ["D220"],
  "names the first agent that a shared limit stopped, and ignores descendants of an agent's own limit",
  async () => {
    const work = { tools: [read(() => "text")] };
    const reader = agent("reader", times(4, asks("read", {})), work);
    const editor = agent("editor", times(4, spawn("reader", "Read.")), {
      subagents: [reader],
      budget: { steps: 2 },
    });
    const shared = agent("lead", [spawn("editor", "Edit."), says("All is well.")], {
      subagents: [editor],
    });
    expect(await causesIn(shared)).toEqual([
      "lead/editor#1/reader#1 step 1 step_limit, a limit",
      "lead/editor#1 step 1 step_limit, a limit",
    ]);
    const calls = ["Read a.", "Read b."].map((task) => ({
      toolName: "SpawnSubagent",
      arguments: { role: "reader", task },
    }));
    const both = { calls };
    const lead = agent("lead", [both, says("All is well.")], {
      subagents: [agent("reader", times(6, asks("read", {})), work)],
      delegation: { reserve: { steps: 1 } },
    });
    expect(await causesIn(lead, { steps: 4 })).toEqual([
      "lead/reader#1 step 1 step_limit, a limit",
    ]);
  },
);

proves(
  ["D220"],
  "names spawns refused by a limit once per agent and limit, and ignores other refusals",
  async () => {
    const lead = agent(
      "lead",
      [
        spawn("reader", "Read a."),
        spawn("nobody", "Read."),
        spawn("reader", "Read b."),
        spawn("reader", "Read c."),
        says("All is well."),
      ],
      {
        subagents: [agent("reader", [says("Done.")])],
        limits: { maxBreadthPerParent: 1 },
      },
    );
    expect(await causesIn(lead)).toEqual(["lead step 3 breadth_limit, a limit"]);
    const poor = agent("lead", [spawn("reader", "Read a."), says("I have not.")], {
      subagents: [agent("reader", [says("Done.")])],
      delegation: { reserve: { steps: 1 } },
    });
    expect(await causesIn(poor, { steps: 2 })).toEqual(["lead step 1 budget_exhausted, a limit"]);
  },
);
