// Goal: a misbehaving delegation leaves no subagent behind, and no run waiting.
// Method: delegations that never end, ignore their subagent, start one late, or return invented
// outcomes.

import { expect, test } from "vitest";
import { z } from "zod";

import type { SpawnOutcome } from "../../../src/protocol/subagent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { AgentIdSchema } from "../../../src/protocol/ids.ts";
import { latch, newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, quiet, use } from "../../harness/scripted-agents.ts";
import { proves } from "../../harness/proves.ts";
import { approveAll, asked, ending } from "../../support/pause-stories.ts";
import { ends } from "../../support/tool-acts.ts";

const DONE = says("Done.");

test("abandons a delegation that never ends when its run is cancelled", async () => {
  const ask = defineDelegation({
    name: "ask",
    description: "Asks.",
    inputSchema: z.object({}),
    execute: () => new Promise(() => undefined),
  });
  const fixture = newFixture({ graceMs: 300 });
  const run = fixture.start(soloist([calls(use("ask"))], { tools: [ask] }).role);
  await quiet();
  void run.cancel("Enough.");
  await quiet();
  fixture.clock.advance(300);
  await quiet();
  expect(fixture.sink.ofType("run.ended").map(({ status }) => status)).toEqual(["cancelled"]);
});

test("ends the subagent of a delegation that does not wait for it", async () => {
  const held = latch();
  const child = part("child", [says("Child.", { after: held.opened })]);
  const ask = defineDelegation({
    name: "ask",
    description: "Asks.",
    inputSchema: z.object({}),
    execute: async (_input, { spawn }) => {
      void spawn({ role: "child", task: "Work." });
      await Promise.resolve();
      throw new Error("no patience");
    },
  });
  const fixture = newFixture();
  const { role } = part("root", [calls(use("ask")), DONE], {
    tools: [ask],
    subagents: [child.role],
  });
  const run = fixture.start(role);
  await quiet();
  held.open();
  const result = await fixture.outcome(run);
  expect([result.status, ends(result)]).toEqual(["completed", ["failed tool_error"]]);
});

test("refuses a subagent that a delegation starts after its end", async () => {
  const held = latch();
  const child = part("child", [says("Child.")]);
  const late: unknown[] = [];
  const ask = defineDelegation({
    name: "ask",
    description: "Asks.",
    inputSchema: z.object({}),
    execute: (_input, { spawn }) => {
      void held.opened.then(async () =>
        late.push((await spawn({ role: "child", task: "Work." })).type),
      );
      return Promise.reject(new Error("no patience"));
    },
  });
  const fixture = newFixture();
  const answered = latch();
  const { role } = part("root", [calls(use("ask")), says("Done.", { after: answered.opened })], {
    tools: [ask],
    subagents: [child.role],
  });
  const run = fixture.start(role);
  await quiet();
  held.open();
  await quiet();
  answered.open();
  const result = await fixture.outcome(run);
  expect([late, result.agents.length]).toEqual([["refused"], 1]);
});

const REFUSED: SpawnOutcome = {
  type: "refused",
  refusal: { code: "depth_limit", message: "Not started." },
};

for (const [how, finish] of [
  ["returns a text", () => ({ type: "answered", text: "Processed." }) as const],
  ["returns a refusal", () => REFUSED],
  [
    "throws",
    () => {
      throw new TypeError("Cannot read properties of undefined (reading 'text')");
    },
  ],
] as const)
  proves(
    ["D776"],
    `pauses with the subagent of a delegation that ${how} after the pause`,
    async () => {
      const pay = spyTool("pay", () => "paid", { needsApproval: true });
      const child = part("child", [calls(use("pay")), says("Paid.")], { tools: [pay] });
      const ask = defineDelegation({
        name: "ask",
        description: "Asks.",
        inputSchema: z.object({}),
        execute: async (_input, { spawn }) => {
          await spawn({ role: "child", task: "Work." });
          return finish();
        },
      });
      const { role } = part("root", [calls(use("ask")), DONE], {
        tools: [ask],
        subagents: [child.role],
      });
      const fixture = newFixture();
      const paused = await fixture.run(role);
      expect([ending(paused), asked(paused)]).toEqual([
        ["paused", "input_required"],
        [["root/child#1", "pay"]],
      ]);
      const run = fixture.resume(role, paused.pausedRun, approveAll(paused));
      const result = await fixture.outcome(run);
      expect(result.agents.map(({ status }) => status)).toEqual(["completed", "completed"]);
      expect([ends(result), pay.calls.length]).toEqual([["succeeded"], 1]);
    },
  );

proves(
  ["D776"],
  "returns the answer of a delegation that has cancelled its paused subagent",
  async () => {
    const pay = spyTool("pay", () => "paid", { needsApproval: true });
    const child = part("child", [calls(use("pay"))], { tools: [pay] });
    const ask = defineDelegation({
      name: "ask",
      description: "Asks.",
      inputSchema: z.object({}),
      execute: async (_input, { spawn, subagents }) => {
        await spawn({ role: "child", task: "Work." });
        await subagents.cancel("child#1");
        return { type: "answered", text: "Without it." };
      },
    });
    const { role } = part("root", [calls(use("ask")), DONE], {
      tools: [ask],
      subagents: [child.role],
    });
    const result = await newFixture().run(role);
    expect(result.agents.map(({ status }) => status)).toEqual(["completed", "cancelled"]);
    expect(ends(result)).toEqual(["succeeded"]);
  },
);

test("fails a delegation that returns a paused subagent that does not exist", async () => {
  const ask = defineDelegation({
    name: "ask",
    description: "Asks.",
    inputSchema: z.object({}),
    execute: () => Promise.resolve({ type: "paused", childId: AgentIdSchema().parse("agent_99") }),
  });
  const result = await newFixture().run(soloist([calls(use("ask")), DONE], { tools: [ask] }).role);
  expect([result.status, ends(result)]).toEqual(["completed", ["failed tool_error"]]);
});

test("fails the agent of a delegation if a hook fails at the start of its subagent, even if ignored", async () => {
  const child = part("child", [says("never")]);
  const hooks = [
    transform("subagentStart", () => {
      throw new Error("hook");
    }),
  ];
  const ask = defineDelegation({
    name: "ask",
    description: "Asks.",
    inputSchema: z.object({}),
    execute: (_input, { spawn }) => {
      void spawn({ role: "child", task: "Work." });
      return Promise.resolve(REFUSED);
    },
  });
  const { role } = part("root", [calls(use("ask"))], {
    tools: [ask],
    subagents: [child.role],
    hooks,
  });
  const result = await newFixture().run(role);
  expect([result.status, result.reason.data]).toEqual(["failed", { error: "hook_failed" }]);
});

test("counts the delegations that waited in a queue when their run is cancelled", async () => {
  const cancelled = latch();
  const child = part("child", [says("Child.", { after: new Promise(() => undefined) })]);
  let position = 0;
  const ask = defineDelegation({
    name: "ask",
    description: "Asks, one after the other.",
    inputSchema: z.object({}),
    execute: async (_input, { spawn }) => {
      position += 1;
      if (position > 1) await cancelled.opened;
      return await spawn({ role: "child", task: "Work." });
    },
  });
  const fixture = newFixture();
  const { role } = part("root", [calls(use("ask"), use("ask"), use("ask"))], {
    tools: [ask],
    subagents: [child.role],
  });
  const run = fixture.start(role);
  await quiet();
  void run.cancel("Enough.");
  cancelled.open();
  const result = await fixture.outcome(run);
  expect([result.status, result.refusalsByCode]).toEqual(["cancelled", { parent_stopped: 2 }]);
  expect(fixture.sink.ofType("subagent.refused").map(({ error }) => error.message)).toEqual([
    "Not started: the agent was stopped before the subagent could start.",
    "Not started: the agent was stopped before the subagent could start.",
  ]);
});
