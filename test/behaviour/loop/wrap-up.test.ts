// Goal: in the last step of its budget an agent is told to finish and has no tools; its text is the
// result.
// Method: budgets of steps at every level of a tree; requests, signals and leases compared in full.

import { expect, test } from "vitest";
import { z } from "zod";

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { ModelRequest } from "../../../src/model/model.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist, type Soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";

const NOTICE =
  "This is your last step: you cannot use tools any more. Answer now with what you have, and state what is left undone.";
const work = asks("work", {});

function worker(
  script: readonly ScriptedReply[],
  more: Partial<Omit<AgentDefinition, "model">> = {},
): Soloist {
  return soloist(script, { tools: [spyTool("work")], wrapUp: true, ...more });
}

/** Returns the available tools and the last text of a request. */
function shown({ tools, messages }: ModelRequest): readonly unknown[] {
  const last = messages.at(-1);
  return [tools.map(({ name }) => name), last?.text];
}

function ending({ status, reason, text }: RunResult): readonly string[] {
  return [status, reason.code, text];
}

proves(
  ["R64"],
  "the last of three steps has the notice and no tools, and its text is the result of a stopped run",
  async () => {
    const fixture = newFixture();
    const { role, model } = worker([work, work, says("Half of it."), says("never")]);
    const result = await fixture.run(role, { budget: { steps: 3 } });
    expect(model.requests.map(shown)).toEqual([
      [["work"], "Do it."],
      [["work"], "work done"],
      [[], NOTICE],
    ]);
    expect(model.requests[2]?.messages.at(-1)).toEqual({
      role: "user",
      origin: "notice",
      text: NOTICE,
    });
    expect([ending(result), result.reason]).toEqual([
      ["stopped", "step_limit", "Half of it."],
      {
        code: "step_limit",
        message:
          "The steps budget of solo allows 3; this was the last, and the request instructed the agent to finish in it.",
        data: { axis: "steps", accountPath: "solo", maximum: 3, current: 3 },
      },
    ]);
    expect(fixture.sink.ofType("signal.raised").map(({ signal }) => signal.reason.code)).toEqual([
      "step_limit",
    ]);
  },
);

proves(
  ["R64"],
  "a tool call in the last step is not executed, and no further request follows",
  async () => {
    const tool = spyTool("work");
    const { role, model } = worker([work, work, { ...work, text: "But I must!" }, says("never")], {
      tools: [tool],
    });
    const result = await newFixture().run(role, { budget: { steps: 3 } });
    expect([ending(result), tool.calls.length, model.requests.length]).toEqual([
      ["stopped", "step_limit", "But I must!"],
      2,
      3,
    ]);
    expect(result.steps[2]?.tools.executions.map(({ type, text }) => [type, text])).toEqual([
      ["not_executed", "Not executed: the agent stopped before this call (step_limit)."],
    ]);
  },
);

test("the limit raises one signal, even if the agent calls a tool in its last step", async () => {
  const fixture = newFixture();
  const { role } = worker([work]);
  await fixture.run(role, { budget: { steps: 1 } });
  expect(fixture.sink.ofType("signal.raised").map(({ signal }) => signal.reason.code)).toEqual([
    "step_limit",
  ]);
});

proves(["R64"], "an agent that answers before its last step gets no notice", async () => {
  const { role, model } = worker([work, says("All of it.")]);
  const result = await newFixture().run(role, { budget: { steps: 3 } });
  expect(ending(result)).toEqual(["completed", "completed", "All of it."]);
  expect(model.requests.map(({ tools }) => tools.length)).toEqual([1, 1]);
});

test("an agent without `wrapUp` is stopped without a notice", async () => {
  for (const more of [{ wrapUp: false }, {}]) {
    const { role, model } = soloist([work, work], { tools: [spyTool("work")], ...more });
    const result = await newFixture().run(role, { budget: { steps: 2 } });
    expect([ending(result), model.requests.map(shown)]).toEqual([
      ["stopped", "step_limit", ""],
      [
        [["work"], "Do it."],
        [["work"], "work done"],
      ],
    ]);
  }
});

proves(["R64"], "the only allowed step is the last step", async () => {
  const { role, model } = worker([says("Nothing yet.")]);
  const result = await newFixture().run(role, { budget: { steps: 1 } });
  expect([ending(result), model.requests.map(shown)]).toEqual([
    ["stopped", "step_limit", "Nothing yet."],
    [[[], NOTICE]],
  ]);
});

test("no notice is sent for a budget of zero steps or without a step limit", async () => {
  const none = worker([says("never")]);
  expect(ending(await newFixture().run(none.role, { budget: { steps: 0 } }))).toEqual([
    "stopped",
    "step_limit",
    "",
  ]);
  const free = worker([work, says("Done.")]);
  expect(ending(await newFixture().run(free.role, { budget: { totalTokens: 9_000 } }))).toEqual([
    "completed",
    "completed",
    "Done.",
  ]);
  expect(free.model.requests.map(({ tools }) => tools.length)).toEqual([1, 1]);
});

proves(["R64"], "the notice may be a custom text, and is not kept in the history", async () => {
  const { role, model } = worker([work, says("Brief.")], { wrapUp: "Wrap it up!" });
  const fixture = newFixture();
  const run = fixture.start(role, "Do it.", { budget: { steps: 2 } });
  const texts: string[] = [];
  for await (const { phase, state } of run.iterate())
    if (phase === "ended") texts.push(...state.conversation.messages.map(({ text }) => text));
  await fixture.outcome(run);
  expect(model.requests.map((request) => shown(request)[1])).toEqual(["Do it.", "Wrap it up!"]);
  expect(texts).toEqual(["Work.", "Do it.", "", "work done", "Brief."]);
});

test("an empty `wrapUp` text is rejected at definition", () => {
  expect(() => worker([], { wrapUp: "" })).toThrow(/solo\.wrapUp/);
});

proves(
  ["R64"],
  "an agent with a typed result keeps the `Finish` tool in its last step",
  async () => {
    const output = z.object({ count: z.int() });
    const { role, model } = worker([work, asks("Finish", { count: 2 })], { output });
    const result = await newFixture().run(role, { budget: { steps: 2 } });
    expect(model.requests.map(shown)).toEqual([
      [["work", "Finish"], "Do it."],
      [["Finish"], expect.stringContaining("call Finish now")],
    ]);
    expect([result.status, result.reason.code, result.output]).toEqual([
      "stopped",
      "step_limit",
      { count: 2 },
    ]);
  },
);

test("an invalid typed result in the last step is rejected without a retry", async () => {
  const output = z.object({ count: z.int() });
  const { role, model } = worker([asks("Finish", { count: "two" }), says("never")], { output });
  const result = await newFixture().run(role, { budget: { steps: 1 } });
  expect([result.status, result.reason.code, result.output, model.requests.length]).toEqual([
    "stopped",
    "step_limit",
    undefined,
    1,
  ]);
});

test("a typed result beside another call in the last step is not accepted, and the other call does not run", async () => {
  const tool = spyTool("work");
  const { role } = worker([calls(use("work"), { toolName: "Finish", arguments: { count: 2 } })], {
    tools: [tool],
    output: z.object({ count: z.int() }),
  });
  const result = await newFixture().run(role, { budget: { steps: 1 } });
  expect([result.status, result.output, tool.calls.length]).toEqual(["stopped", undefined, 0]);
});

proves(["R64"], "a child gets the notice in the last step of an ancestor's budget", async () => {
  const child = part("child", [calls(use("work")), says("Child's half.")], {
    tools: [spyTool("work")],
    wrapUp: true,
    budget: { steps: 9 },
  });
  const root = part("root", [calls(spawn("child")), says("never")], {
    subagents: [child.role],
    budget: { steps: 3 },
  });
  const result = await newFixture().run(root.role);
  expect(child.model.requests.map(shown)).toEqual([
    [["work"], "Work."],
    [[], NOTICE],
  ]);
  expect(result.agents.map(({ status, reason, text }) => [status, reason.code, text])).toEqual([
    ["stopped", "step_limit", ""],
    ["stopped", "step_limit", "Child's half."],
  ]);
  expect(result.agents[1]?.reason.data["accountPath"]).toBe("root");
});

proves(["R64"], "the last step of a child's own budget does not affect its parent", async () => {
  const child = part("child", [calls(use("work")), says("Half.")], {
    tools: [spyTool("work")],
    wrapUp: true,
    budget: { steps: 2 },
  });
  const root = part("root", [calls(spawn("child")), says("Root.")], {
    subagents: [child.role],
    wrapUp: true,
    budget: { steps: 9 },
  });
  const result = await newFixture().run(root.role);
  expect(result.agents.map(({ status, reason, text }) => [status, reason.code, text])).toEqual([
    ["completed", "completed", "Root."],
    ["stopped", "step_limit", "Half."],
  ]);
  expect(root.model.requests.map(({ tools }) => tools.length)).toEqual([1, 1]);
});

test("a lead in its last step cannot start a subagent", async () => {
  const child = part("child", [says("never")]);
  const root = part("root", [calls(spawn("child"))], { subagents: [child.role], wrapUp: true });
  const result = await newFixture().run(root.role, { budget: { steps: 1 } });
  expect([root.model.requests.map(({ tools }) => tools), result.agents.length]).toEqual([[[]], 1]);
});

proves(
  ["R64"],
  "the budget counts the notice, so a request that fits only without it is not sent",
  async () => {
    const counted = { countTokens: ({ messages }: ModelRequest) => messages.length * 10 };
    const make = (wrapUp: boolean): Soloist =>
      soloist(
        [says("Done.", { usage: { inputTokens: 20, outputTokens: 1 } })],
        { wrapUp },
        counted,
      );
    const budget = { steps: 1, inputTokens: 30 };
    expect((await newFixture().run(make(false).role, { budget })).text).toBe("Done.");
    const told = make(true);
    const result = await newFixture().run(told.role, { budget });
    expect([result.status, result.reason.code, told.model.requests.length]).toEqual([
      "stopped",
      "token_limit",
      0,
    ]);
  },
);

test("the notice follows the messages of hooks unchanged", async () => {
  const redact = transform("beforeModel", ({ messages }) => ({
    messages: messages.map((message) =>
      message.role === "user" ? { ...message, text: "redacted" } : message,
    ),
  }));
  const { role, model } = worker([says("Done.")], { hooks: [redact] });
  await newFixture().run(role, { budget: { steps: 1 } });
  expect(model.requests[0]?.messages.map(({ text }) => text)).toEqual([
    "Work.",
    "redacted",
    NOTICE,
  ]);
});

test("an empty reply in the last step is not retried, and the earlier text is kept", async () => {
  const { role, model } = worker([{ ...work, text: "So far." }, {}, says("never")]);
  const result = await newFixture().run(role, { budget: { steps: 2 } });
  expect([ending(result), model.requests.length]).toEqual([
    ["stopped", "step_limit", "So far."],
    2,
  ]);
});

test("a stop hook cannot veto the end of the last step", async () => {
  const veto = transform("stop", () => ({ continueWith: "More!" }));
  const { role, model } = worker([says("Done."), says("never")], { hooks: [veto] });
  const result = await newFixture().run(role, { budget: { steps: 1 } });
  expect([ending(result), model.requests.length]).toEqual([["stopped", "step_limit", "Done."], 1]);
});

async function chargedInput(wrapUp: boolean): Promise<number | undefined> {
  const { role } = worker([{ ...work, usage: null }, says("Done.")], { wrapUp });
  return (await newFixture().run(role)).steps[0]?.telemetry.usage.inputTokens;
}

test("the estimate for a reply without usage excludes a notice that was not in its request", async () => {
  expect(await chargedInput(true)).toBe(await chargedInput(false));
});
