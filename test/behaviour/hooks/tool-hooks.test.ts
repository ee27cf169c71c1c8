// Goal: hooks before a tool call change its arguments, hooks after it change the text for the
// model, and both act only on their own tools.
// Method: tools that return their arguments; compare the step record and the events with the
// model's messages.

import { expect, test } from "vitest";
import { z } from "zod";

import { transform, wrapToolCall, type Hook } from "../../../src/hooks/hook.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { hookTree } from "../../support/hook-sites.ts";
import { calls, part, spawn, receivedTexts, use } from "../../harness/scripted-agents.ts";

/** A tool that returns its arguments. */
const echo = defineTool({
  name: "echo",
  description: "Says it again.",
  inputSchema: z.object({ word: z.string() }),
  execute: ({ word }) => word,
});

proves(
  ["R79", "R81"],
  "passes the arguments of successive hooks to the tool and records the first and last in the event",
  async () => {
    const shown: unknown[] = [];
    const say = (word: string): Hook =>
      transform(
        "beforeTool",
        ({ arguments: input }) => {
          shown.push(input);
          return { arguments: { word } };
        },
        { name: `say ${word}` },
      );
    const { role, model } = soloist([asks("echo", { word: "a" }), says("done")], {
      tools: [echo],
      hooks: [say("b"), say("c")],
    });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([shown, receivedTexts(model.requests[1])]).toEqual([
      [{ word: "a" }, { word: "b" }],
      ["c"],
    ]);
    expect(
      fixture.sink.ofType("hook.applied").map(({ point, changedBy, before, after, callId }) => ({
        point,
        changedBy,
        before,
        after,
        callId,
      })),
    ).toEqual([
      {
        point: "beforeTool",
        changedBy: [
          { hook: "say b", fields: ["arguments"] },
          { hook: "say c", fields: ["arguments"] },
        ],
        before: { word: "a" },
        after: { word: "c" },
        callId: "call_1",
      },
    ]);
    expect(result.steps[0]?.tools.calls.map(({ argumentsText }) => argumentsText)).toEqual([
      '{"word":"a"}',
    ]);
  },
);

test("validates arguments from a hook, and lets a hook correct invalid arguments of the model", async () => {
  const wrong = transform("beforeTool", () => ({ arguments: { word: 7 } }));
  const bad = soloist([asks("echo", { word: "a" }), says("done")], {
    tools: [echo],
    hooks: [wrong],
  });
  await newFixture().run(bad.role);
  expect(receivedTexts(bad.model.requests[1])[0]).toContain("do not fit its schema");

  const mend = transform("beforeTool", () => ({ arguments: { word: "mended" } }));
  const good = soloist([asks("echo", { wort: 1 }), says("done")], { tools: [echo], hooks: [mend] });
  await newFixture().run(good.role);
  expect(receivedTexts(good.model.requests[1])).toEqual(["mended"]);
});

test("does not run or charge a call that a hook denies, and explains the denial to the model", async () => {
  const work = spyTool("work");
  const denies = transform("beforeTool", () => ({ deny: "Too dear." }), { name: "purse" });
  const late: string[] = [];
  const after = transform("beforeTool", () => void late.push("asked"));
  const { role, model } = soloist([asks("work", {}), says("done")], {
    tools: [work],
    hooks: [denies, after],
  });
  const fixture = newFixture();
  const result = await fixture.run(role, { budget: { toolCalls: 0 } });
  expect([result.status, work.calls.length, receivedTexts(model.requests[1]), late]).toEqual([
    "completed",
    0,
    ["Not executed: work was denied. Too dear. Do without it, or answer with what you have."],
    [],
  ]);
  expect(result.steps[0]?.tools.executions.map(({ type, errorCode }) => [type, errorCode])).toEqual(
    [["refused", "blocked"]],
  );
  expect(fixture.sink.ofType("hook.applied").map(({ changedBy }) => changedBy)).toEqual([
    [{ hook: "purse", fields: ["deny"] }],
  ]);
});

proves(
  ["R82"],
  "records metadata of hooks in the step and the result before the next model call",
  async () => {
    const seen: unknown[] = [];
    const hooks = [
      transform("afterTool", () => ({ metadata: { tidy: true, by: "one" } })),
      transform("afterTool", ({ text }) => ({ text: `${text}!`, metadata: { by: "two" } })),
      transform("beforeModel", ({ steps }) => {
        seen.push(steps.flatMap(({ tools }) => tools.executions.map(({ metadata }) => metadata)));
      }),
    ];
    const { role, model } = soloist([asks("work", {}), says("done")], {
      tools: [spyTool("work")],
      hooks,
    });
    const result = await newFixture().run(role);
    const metadata = { tidy: true, by: "two" };
    expect([seen, receivedTexts(model.requests[1])]).toEqual([[[], [metadata]], ["work done!"]]);
    expect(result.steps[0]?.tools.executions.map((one) => [one.text, one.metadata])).toEqual([
      ["work done!", metadata],
    ]);
  },
);

proves(["R85"], "calls hooks of one tool for that tool only", async () => {
  const log: string[] = [];
  const tools = ["a"];
  const hooks = [
    transform("beforeTool", ({ toolName }) => void log.push(`before ${toolName}`), { tools }),
    transform("afterTool", ({ toolName }) => void log.push(`after ${toolName}`), { tools }),
    wrapToolCall(({ toolName }, next) => (log.push(`around ${toolName}`), next()), { tools }),
  ];
  const { role } = soloist([calls(use("b"), use("a")), asks("b", {}), says("done")], {
    tools: [spyTool("a"), spyTool("b")],
    hooks,
  });
  await newFixture().run(role);
  expect(log).toEqual(["before a", "around a", "after a"]);
});

proves(
  ["R21"],
  "prevents calls that have not begun when a hook after a tool requests a stop",
  async () => {
    const work = spyTool("work");
    const stops = transform("afterTool", (_input, { requestStop }) => requestStop("Enough."), {
      name: "stops",
    });
    const { role, model } = soloist([calls(use("work"), use("work"), use("work"))], {
      tools: [work],
      hooks: [stops],
    });
    const fixture = newFixture({ concurrency: { toolCalls: 1 } });
    const result = await fixture.run(role);
    expect([
      result.status,
      result.reason.message,
      work.calls.length,
      model.requests.length,
    ]).toEqual(["stopped", "Enough.", 1, 1]);
    expect(result.steps[0]?.tools.executions.map(({ type, call }) => [call.callId, type])).toEqual([
      ["call_1", "succeeded"],
      ["call_2", "not_executed"],
      ["call_3", "not_executed"],
    ]);
    expect(fixture.sink.ofType("tool.started").map(({ callId }) => callId)).toEqual(["call_1"]);
    expect(fixture.sink.ofType("signal.raised").map(({ signal }) => signal.name)).toEqual([
      "stops",
    ]);
  },
);

proves(["R21"], "prevents all calls when a hook before a tool requests a stop", async () => {
  const work = spyTool("work");
  const stops = transform("beforeTool", (_input, { requestStop }) => requestStop("Enough."));
  const { role } = soloist([calls(use("work"), use("work"))], { tools: [work], hooks: [stops] });
  const result = await newFixture().run(role);
  expect([
    result.status,
    work.calls.length,
    result.steps[0]?.tools.executions.map(({ type }) => type),
  ]).toEqual(["stopped", 0, ["not_executed", "not_executed"]]);
});

test("runs the hooks before several calls concurrently", async () => {
  const held = latch();
  const log: string[] = [];
  const slow = transform("beforeTool", async ({ toolName }) => {
    log.push(`asked ${toolName}`);
    if (toolName === "a") await held.opened;
    else held.open();
  });
  const { role } = soloist([calls(use("a"), use("b")), says("done")], {
    tools: [spyTool("a"), spyTool("b")],
    hooks: [slow],
  });
  const result = await newFixture().run(role);
  expect([result.status, log]).toEqual(["completed", ["asked a", "asked b"]]);
});

test("lets a hook rewrite the task of a subagent, as the delegating agent", async () => {
  const shown: unknown[] = [];
  const rewrite = transform(
    "subagentStart",
    (input, { agentPath, stepNumber }) => {
      shown.push([input, agentPath, stepNumber]);
      return { task: `${input.task} Quickly.` };
    },
    { name: "haste" },
  );
  const { lead, child } = hookTree({ lead: [rewrite] });
  const fixture = newFixture();
  const result = await fixture.run(lead.role);
  expect(shown).toEqual([[{ role: "child", task: "Work.", childDepth: 1 }, "lead", 1]]);
  expect([
    fixture.sink.ofType("subagent.spawned").map(({ task }) => task),
    child.model.requests[0]?.messages.at(-1)?.text,
    result.agents[1]?.task,
    fixture.sink
      .ofType("hook.applied")
      .map(({ point, changedBy, callId }) => [point, changedBy, callId]),
  ]).toEqual([
    ["Work. Quickly."],
    "Work. Quickly.",
    "Work. Quickly.",
    [["subagentStart", [{ hook: "haste", fields: ["task"] }], "call_2"]],
  ]);
});

test("shows the hook after a delegation the arguments of the delegation", async () => {
  const shown: unknown[] = [];
  const tools = ["SpawnSubagent"];
  const hooks = [
    transform("beforeTool", () => ({ arguments: { role: "child", task: "Other." } }), { tools }),
    transform("afterTool", ({ arguments: input }) => void shown.push(input), { tools }),
  ];
  const child = part("child", [says("Child.")]);
  const lead = part("lead", [calls(spawn("child")), says("Done.")], {
    subagents: [child.role],
    hooks,
  });
  const result = await newFixture().run(lead.role);
  expect([result.agents[1]?.task, shown]).toEqual(["Other.", [{ role: "child", task: "Other." }]]);
});

test("calls the hook after a tool call for every outcome", async () => {
  const shown: unknown[] = [];
  const broken = spyTool("broken", () => {
    throw new Error("no");
  });
  const hooks = [
    transform("beforeTool", () => ({ deny: "No." }), { tools: ["denied"] }),
    transform("afterTool", ({ toolName, outcome }) => void shown.push([toolName, outcome])),
  ];
  const { role } = soloist(
    [{ calls: [use("broken"), use("denied"), { toolName: "echo", arguments: {} }] }, says("done")],
    { tools: [broken, spyTool("denied"), echo], hooks },
  );
  await newFixture().run(role);
  expect(new Set(shown)).toEqual(
    new Set([
      ["broken", "failed"],
      ["denied", "refused"],
      ["echo", "retry"],
    ]),
  );
});

const allow = (): undefined => undefined;
const only = (tools: readonly string[]): Hook => transform("beforeTool", allow, { tools });
const wrapPlainly = wrapToolCall((_call, next) => next(), { tools: ["ech"] });

for (const [what, hook] of [
  ["before a call", only(["ech"])],
  ["after a call", transform("afterTool", allow, { tools: ["ech"] })],
  ["around a call", wrapPlainly],
] as const) {
  proves(["S7.11"], `warns once of a hook ${what} for a tool that no agent has`, async () => {
    const { role } = soloist([says("done"), says("done")], { tools: [echo] });
    const s = newFixture({ hooks: [hook, only(["echo"])] });
    await s.run(role);
    await s.run(role);
    await flushEventLoop();
    expect(takeWarnings()).toEqual([
      "EspalierWarning: A hook of the orchestrator is for ech, and no agent of this run has a tool of that name (echo). Name tools as the model calls them, or the hook is never called.",
    ]);
  });
}

proves(
  ["S7.11"],
  "accepts a role's hook for the role's tools, and an orchestrator's hook for those of all roles",
  async () => {
    const child = part("child", [], { tools: [echo] });
    const root = part("root", [says("done")], {
      subagents: [child.role],
      hooks: [only(["SpawnSubagent"]), only(["echo"])],
    });
    await newFixture({ hooks: [only(["echo", "SpawnSubagent"])] }).run(root.role);
    await flushEventLoop();
    expect(takeWarnings()).toEqual([
      "EspalierWarning: A hook of root is for echo, and no agent there has a tool of that name (SpawnSubagent). Name tools as the model calls them, or the hook is never called.",
    ]);
  },
);
