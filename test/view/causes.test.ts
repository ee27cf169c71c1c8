// Goal: who looks at a run that broke reads first where that began. Method: trees whose leaf breaks, in each of the ways in which that goes
// up; the causes of their folds.

import { expect } from "vitest";

import { ModelError } from "../../src/index.ts";
import { asks, says } from "../../src/testing/index.ts";
import { proves } from "../harness/proves.ts";
import { agent, causesIn, read, spawn, times } from "./causes-in.ts";

const STRICT = { maxToolErrors: 0, maxConsecutiveErrors: 0 };
const AWAY = { error: new ModelError({ code: "model_unauthorized", message: "Wrong key." }) };

proves(
  ["V23"],
  "a model that fails below is the first cause of a root that stops for it",
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
  "a tool that fails is named with its call, before the agent that stopped for it",
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

proves(
  ["V23"],
  "of a run that a limit stopped, who was the first to be stopped by it",
  async () => {
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
  },
);

proves(
  ["V23"],
  "agents that failed in a run that completed are its causes, the earliest first",
  async () => {
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
  },
);

proves(
  ["D220"],
  "of a run that completed, the limits that stopped agents come after the errors, each once, with who came to it first",
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
  "what several agents had in common stopped the first of them; below an agent that was stopped by its own, who came to it first",
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
  "spawns that a limit refused are named once for each agent and limit; those refused for another reason are not",
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
