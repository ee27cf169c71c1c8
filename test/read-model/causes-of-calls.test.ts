// Goal: a cause names the call because of which an agent ended, with the step of that call.
// Method: runs with several steps, parallel calls, executions and processes, in which other calls
// fail as well.

import { expect } from "vitest";
import { z } from "zod";

import {
  approve,
  defineDelegation,
  defineTool,
  ToolError,
  toolGuard,
  ModelError,
} from "../../src/index.ts";
import { asks, says, ScriptedModel, type ScriptedReply } from "../../src/testing/index.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { playThrough } from "../support/journal/crash-play.ts";
import { thinker } from "../support/journal/thinkers.ts";
import { rested } from "../support/life-agents.ts";
import { agent, causesIn, line, read, spawn } from "../support/read-model/causes-in.ts";
import { foldOf } from "../support/read-model/fold-of.ts";

/** Reads a file, or throws that the file is broken. */
const work = defineTool({
  name: "work",
  description: "Works.",
  inputSchema: z.object({ on: z.string() }),
  execute: ({ on }) => {
    if (on !== "text") throw new Error(`${on} is broken`);
    return on;
  },
});

/** Requests a corrected call if an argument is missing. */
const strict = defineTool({
  name: "strict",
  description: "Reads a file.",
  inputSchema: z.object({ path: z.string() }),
  maxRetries: 0,
  execute: () => "text",
});

function works(...on: readonly string[]): ScriptedReply {
  return calls(...on.map((one) => ["work", { on: one }] as const));
}

function calls(...made: readonly (readonly [string, object])[]): ScriptedReply {
  return { calls: made.map(([name, given]) => ({ toolName: name, arguments: { ...given } })) };
}

function away(message: string) {
  return { error: new ModelError({ code: "model_unauthorized", message }) };
}

proves(
  ["D615"],
  "names the first call of the unbroken series of failures, in its own step",
  async () => {
    const lead = agent("lead", [works("a"), works("text"), works("c"), works("d")], {
      tools: [work],
      errorBudget: { maxConsecutiveErrors: 1 },
    });
    expect(await causesIn(lead)).toEqual([
      "lead step 3 work tool_error: c is broken",
      "lead step 4 error_budget, a limit",
    ]);
  },
);

proves(["D615"], "names the series that was too long even if a success follows it", async () => {
  const lead = agent("lead", [works("text", "b", "text", "d", "e", "text")], {
    tools: [work],
    errorBudget: { maxConsecutiveErrors: 1 },
  });
  expect(await causesIn(lead)).toEqual([
    "lead step 1 work tool_error: d is broken",
    "lead step 1 error_budget, a limit",
  ]);
});

proves(["D615"], "names the first failure if the total of failures is exhausted", async () => {
  const lead = agent("lead", [works("a"), works("text"), works("c")], {
    tools: [work],
    errorBudget: { maxToolErrors: 1 },
  });
  expect(await causesIn(lead)).toEqual([
    "lead step 1 work tool_error: a is broken",
    "lead step 3 error_budget, a limit",
  ]);
});

proves(["D615"], "names the first correction if corrections are exhausted", async () => {
  const patient = defineTool({
    name: "patient",
    description: "Reads a file.",
    inputSchema: z.object({ path: z.string() }),
    execute: () => "text",
  });
  const lead = agent("lead", [works("a"), asks("patient", {}), works("c")], {
    tools: [work, patient],
    errorBudget: { maxRetryErrors: 0 },
  });
  expect(await causesIn(lead)).toEqual([
    expect.stringMatching(/^lead step 2 patient invalid_arguments: /),
    "lead step 2 error_budget, a limit",
  ]);
});

proves(["D615"], "names no call that the error budget does not count", async () => {
  const lead = agent("lead", [spawn("nobody", "Read."), works("b")], {
    tools: [work],
    subagents: [agent("reader", [])],
    errorBudget: { maxToolErrors: 0 },
  });
  expect(await causesIn(lead)).toEqual([
    "lead step 2 work tool_error: b is broken",
    "lead step 2 error_budget, a limit",
  ]);
});

proves(["D615"], "names the denied call instead of a failure beside it", async () => {
  const locked = toolGuard(() => ({ type: "deny", reason: "The folder is locked." }), {
    tools: ["read"],
  });
  const lead = agent(
    "lead",
    [works("text"), calls(["work", { on: "a" }], ["read", {}], ["work", { on: "c" }])],
    { tools: [work, read(() => "text")], guards: [locked], errorPolicy: { blockedPolicy: "stop" } },
  );
  expect(await causesIn(lead)).toEqual([
    expect.stringMatching(/^lead step 2 read blocked: .*The folder is locked\./),
    expect.stringMatching(/^lead step 2 blocked: /),
  ]);
});

proves(["D615"], "names the tool whose corrections are exhausted", async () => {
  const lead = agent("lead", [works("a"), calls(["strict", {}], ["work", { on: "c" }])], {
    tools: [work, strict],
  });
  expect(await causesIn(lead)).toEqual([
    expect.stringMatching(/^lead step 2 strict retry_limit: /),
    "lead step 2 retry_limit, a limit",
  ]);
});

proves(["D615"], "names the abortive call instead of an ordinary failure beside it", async () => {
  const burn = defineTool({
    name: "burn",
    description: "Burns.",
    inputSchema: z.object({}),
    execute: () => {
      throw new ToolError("The disk is on fire.", { severity: "abortive" });
    },
  });
  const replies = [works("a"), calls(["burn", {}], ["work", { on: "c" }])];
  expect(await causesIn(agent("lead", replies, { tools: [work, burn] }))).toEqual([
    "lead step 2 burn tool_error: The disk is on fire.",
    "lead step 2 tool_error: The disk is on fire.",
  ]);
});

proves(
  ["D662"],
  "names the first of two abortive calls in reply order, as the reason, the events and the parent do",
  async () => {
    const burn = (name: string) =>
      defineTool({
        name,
        description: "Burns.",
        inputSchema: z.object({}),
        execute: () => {
          throw new ToolError(`${name} is on fire.`, { severity: "abortive" });
        },
      });
    const reader = agent("reader", [calls(["one", {}], ["two", {}])], {
      tools: [burn("one"), burn("two")],
    });
    const model = new ScriptedModel([spawn("reader", "Read."), calls(["two", {}], ["one", {}])]);
    const lead = agent("lead", [], {
      model,
      subagents: [reader],
      tools: [burn("one"), burn("two")],
    });
    const s = newFixture();
    const { reason } = await s.run(lead);
    expect(foldOf(s.sink.events).causes().map(line)).toEqual([
      "lead step 2 two tool_error: two is on fire.",
      "lead step 2 tool_error: two is on fire.",
    ]);
    const ends = [...s.sink.ofType("agent.ended"), ...s.sink.ofType("run.ended")];
    expect([reason.message, ...ends.map(({ error }) => error?.message)]).toEqual([
      "two is on fire.",
      "one is on fire.",
      "two is on fire.",
      "two is on fire.",
    ]);
    expect(model.requests.at(-1)?.messages.at(-1)?.text).toContain("one is on fire.");
  },
);

proves(
  ["D615"],
  "names the refused call if tool calls are used up, instead of an earlier failure",
  async () => {
    const lead = agent("lead", [works("a"), works("text", "c")], {
      tools: [work],
      budget: { toolCalls: 2 },
    });
    expect(await causesIn(lead)).toEqual([
      expect.stringMatching(/^lead step 2 work tool_call_limit: /),
      "lead step 2 tool_call_limit, a limit",
    ]);
  },
);

proves(
  ["D615"],
  "names the subagent's end at the failed call, not its end after it was continued",
  async () => {
    const reader = agent("reader", [works("text"), away("Wrong key."), away("No such key.")], {
      tools: [work],
    });
    const again = { continue: "reader#1", task: "Once more." };
    const lead = agent("lead", [spawn("reader", "Read."), asks("SpawnSubagent", again)], {
      subagents: [reader],
      errorBudget: { maxToolErrors: 1 },
    });
    expect(await causesIn(lead)).toEqual([
      "lead/reader#1 step 2 model_unauthorized: Wrong key.",
      "lead step 2 error_budget, a limit",
    ]);
  },
);

proves(
  ["D615"],
  "names a failed subagent that another subagent of the same call preceded",
  async () => {
    const twice = defineDelegation({
      name: "twice",
      description: "Delegates twice.",
      inputSchema: z.object({}),
      execute: async (_input, context) => {
        await context.spawn({ role: "writer", task: "Write." });
        return await context.spawn({ role: "reader", task: "Read." });
      },
    });
    const lead = agent("lead", [asks("twice", {})], {
      tools: [twice],
      subagents: [agent("writer", [says("Done.")]), agent("reader", [away("Wrong key.")])],
      errorBudget: { maxToolErrors: 0 },
    });
    expect(await causesIn(lead)).toEqual([
      "lead/reader#1 step 1 model_unauthorized: Wrong key.",
      "lead step 1 error_budget, a limit",
    ]);
  },
);

proves(["D615"], "dates a paused call by its end and names its own step", async () => {
  const s = newFixture();
  const pay = defineTool({
    name: "pay",
    description: "Pays.",
    inputSchema: z.object({}),
    needsApproval: true,
    execute: () => {
      throw new Error("no money");
    },
  });
  const lead = agent("lead", [works("text"), asks("pay", {}), works("c")], {
    tools: [work, pay],
    errorBudget: { maxConsecutiveErrors: 1 },
  });
  const { result, snapshot } = await rested(s, s.start(lead));
  s.clock.advance(60_000);
  await s.outcome(
    s.resume(
      lead,
      snapshot,
      result.questions.map((one) => approve(one)),
    ),
  );
  const causes = foldOf(s.sink.events).causes();
  expect(causes.map(line)).toEqual([
    "lead step 2 pay tool_error: no money",
    "lead step 3 error_budget, a limit",
  ]);
  expect(causes[0]?.atMs).toBe(s.clock.nowMs());
});

proves(["D615"], "names no agent whose limit was raised later by a grant", async () => {
  const s = newFixture();
  const reader = agent("reader", [works("text"), works("text")], { tools: [work] });
  const lead = agent("lead", [spawn("reader", "Read."), works("a"), works("b")], {
    tools: [work],
    subagents: [reader],
  });
  const { snapshot } = await rested(s, s.start(lead, "Do it.", { budget: { steps: 2 } }));
  await s.outcome(s.grantOn(lead, snapshot, [{ budget: { steps: 1 }, by: "Ann" }]));
  expect(foldOf(s.sink.events).causes().map(line)).toEqual(["lead step 1 step_limit, a limit"]);
});

proves(["D615"], "names the same call wherever the process crashes", async () => {
  const order = [["a"], ["text"], ["c", "d"]];
  const model = thinker("lead", ({ results }) => ({
    calls: (order[results.length] ?? []).map((on) => ["work", { on }] as const),
  }));
  const build = () => ({
    role: agent("lead", [], {
      model,
      tools: [work],
      errorBudget: { maxConsecutiveErrors: 1 },
    }),
  });
  const { appends } = await playThrough(build);
  for (let at = 1; at <= appends; at += 1) {
    const story = await playThrough(build, [{ at, how: "before" }]);
    expect(foldOf(story.events).causes().map(line), `a death at append ${at}`).toEqual([
      "lead step 3 work tool_error: c is broken",
      "lead step 3 error_budget, a limit",
    ]);
  }
});
