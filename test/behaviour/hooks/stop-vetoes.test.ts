// Goal: a stop hook may make an agent continue after its answer, a bounded number of times, but not
// after any other ending.
// Method: hooks that record their input and veto by number, and one ending of each other kind.

import { expect, test } from "vitest";
import { z } from "zod";

import { transform, processStep, type Hook } from "../../../src/hooks/hook.ts";
import type { PointInput } from "../../../src/hooks/hook-points.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { asks, says, type ScriptedReply } from "../../../src/testing/scripted-model.ts";
import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, part, spawn, receivedTexts } from "../../harness/scripted-agents.ts";

interface Vetoer {
  readonly hook: Hook;
  readonly asked: readonly PointInput["stop"][];
}

/** Vetoes the given number of times. */
function vetoer(times: number, point: "stop" | "subagentStop" = "stop"): Vetoer {
  const asked: PointInput["stop"][] = [];
  const veto = (input: PointInput["stop"]): { readonly continueWith: string } | undefined => {
    asked.push(input);
    return asked.length <= times ? { continueWith: `Check ${asked.length}.` } : undefined;
  };
  return { asked, hook: transform(point, veto, { name: "checker" }) };
}

const ANSWERS: readonly ScriptedReply[] = Array.from({ length: 9 }, (_none, index) =>
  says(`Answer ${index + 1}.`),
);

proves(
  ["R24"],
  "makes three model calls after two vetoes and reports earlier vetoes to the hook",
  async () => {
    const { hook, asked } = vetoer(2);
    const { role, model } = soloist(ANSWERS, { hooks: [hook] });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([result.status, result.reason.code, result.text, model.requests.length]).toEqual([
      "completed",
      "completed",
      "Answer 3.",
      3,
    ]);
    expect(
      asked.map(({ text, isActive, vetoes, output, steps }) => [
        text,
        isActive,
        vetoes,
        output,
        steps.map(({ number }) => number),
      ]),
    ).toEqual([
      ["Answer 1.", false, 0, undefined, [1]],
      ["Answer 2.", true, 1, undefined, [1, 2]],
      ["Answer 3.", true, 2, undefined, [1, 2, 3]],
    ]);
    expect(
      fixture.sink
        .ofType("continuation.evaluated")
        .map(({ decision, work, vetoedBy, signals }) => [decision, work, vetoedBy, signals.length]),
    ).toEqual([
      ["continue", ["veto"], "checker", 0],
      ["continue", ["veto"], "checker", 0],
      ["stop", [], undefined, 1],
    ]);
    expect(model.requests.map((request) => request.messages.at(-1))).toEqual([
      { role: "user", origin: "task", text: "Do it." },
      { role: "user", origin: "notice", text: "Check 1." },
      { role: "user", origin: "notice", text: "Check 2." },
    ]);
  },
);

proves(["R24"], "does not exceed the step limit because of a veto", async () => {
  const { hook, asked } = vetoer(9);
  const { role, model } = soloist(ANSWERS, { hooks: [hook] });
  const result = await newFixture().run(role, { budget: { steps: 2 } });
  expect([
    result.status,
    result.reason.code,
    result.text,
    model.requests.length,
    asked.map(({ isActive }) => isActive),
  ]).toEqual(["stopped", "step_limit", "Answer 2.", 2, [false, true]]);
});

proves(
  ["R24", "S7.18"],
  "accepts the answer after three vetoes, stops calling the hook, and reports it in the reason",
  async () => {
    const { hook, asked } = vetoer(99);
    const { role, model } = soloist(ANSWERS, { hooks: [hook] });
    const result = await newFixture().run(role);
    expect([
      result.status,
      result.text,
      model.requests.length,
      asked.map(({ vetoes }) => vetoes),
    ]).toEqual(["completed", "Answer 4.", 4, [0, 1, 2]]);
    expect(result.reason).toEqual({
      code: "completed",
      message:
        "The agent gave its answer. Stop hooks used all 3 continuations and were not called again.",
      data: { vetoes: 3, maximum: 3 },
    });
  },
);

proves(["S7.18"], "does not mention the bound in the reason if it was not reached", async () => {
  const { role } = soloist(ANSWERS, { hooks: [vetoer(2).hook] });
  const { reason } = await newFixture().run(role);
  expect(reason).toEqual({ code: "completed", message: "The agent gave its answer.", data: {} });
});

test("counts vetoes of all stop hooks of an agent together, and a veto ends their chain", async () => {
  const one = vetoer(99);
  const two = vetoer(99);
  const { role, model } = soloist(ANSWERS, { hooks: [one.hook, two.hook] });
  await newFixture().run(role);
  expect([one.asked.length, two.asked.length, model.requests.length]).toEqual([3, 0, 4]);
});

const work = asks("work", {});
const tools = [spyTool("work")];
const misfit = asks("count", { wrong: true });
const counter = defineTool({
  name: "count",
  description: "Counts.",
  inputSchema: z.object({ to: z.number() }),
  execute: ({ to }) => to,
});
const refused = new ModelError({ code: "model_invalid_request", message: "No." });

interface OtherEnding {
  readonly script: readonly ScriptedReply[];
  readonly more?: Partial<Omit<AgentDefinition, "model">>;
  readonly budget?: { readonly steps?: number; readonly totalTokens?: number };
  readonly end: readonly [string, string];
}

const OTHER_ENDINGS: Readonly<Record<string, OtherEnding>> = {
  "the step limit": { script: [work], budget: { steps: 1 }, end: ["stopped", "step_limit"] },
  "the step limit, announced in time": {
    script: [says("Partial.")],
    more: { wrapUp: true },
    budget: { steps: 1 },
    end: ["stopped", "step_limit"],
  },
  "the token limit": {
    script: [work],
    budget: { totalTokens: 15 },
    end: ["stopped", "token_limit"],
  },
  "an error": { script: [{ error: refused }], end: ["failed", "error"] },
  "a reply that was cut off": {
    script: [says("half", { finishReason: "length" })],
    end: ["stopped", "finish_reason"],
  },
  "a stop condition": {
    script: [says("done")],
    more: {
      stopWhen: [
        ({ steps }) =>
          steps.length > 0 ? { code: "found", message: "Found.", data: {} } : undefined,
      ],
    },
    end: ["stopped", "found"],
  },
  "the bound on retries": {
    script: [misfit, misfit, misfit],
    more: { tools: [counter] },
    end: ["stopped", "retry_limit"],
  },
  "the bound on errors": {
    script: [asks("nobody", {}), asks("nobody", {})],
    more: { errorBudget: { maxToolErrors: 1 } },
    end: ["stopped", "error_budget"],
  },
  "a denied call, where that is the end": {
    script: [work],
    more: {
      guards: [toolGuard(() => ({ type: "deny", reason: "Not here." }))],
      errorPolicy: { blockedPolicy: "stop" },
    },
    end: ["stopped", "blocked"],
  },
  "a processor that broke": {
    script: [says("done")],
    more: {
      hooks: [
        processStep(() => {
          throw new Error("boom");
        }),
      ],
    },
    end: ["failed", "error"],
  },
};

for (const [what, { script, more = {}, budget = {}, end }] of Object.entries(OTHER_ENDINGS)) {
  proves(["R24"], `does not call the hook against ${what}`, async () => {
    const { hook, asked } = vetoer(9);
    const hooks = [...(more.hooks ?? []), hook];
    const { role, model } = soloist(script, { tools, ...more, hooks });
    const result = await newFixture().run(role, { budget });
    expect([[result.status, result.reason.code], asked.length, model.requests.length]).toEqual([
      end,
      0,
      script.length,
    ]);
  });
}

proves(["R24"], "does not call the hook after a requested cancel or stop", async () => {
  for (const [end, ask] of [
    ["cancelled", "cancel"],
    ["stopped", "requestStop"],
  ] as const) {
    const { hook, asked } = vetoer(9);
    const held = latch();
    const { role, model } = soloist([says("late", { after: held.opened })], { hooks: [hook] });
    const fixture = newFixture();
    const run = fixture.start(role);
    await flushEventLoop();
    void run[ask]("Enough.");
    held.open();
    const result = await fixture.outcome(run);
    expect([result.status, result.reason.message, asked.length, model.requests.length]).toEqual([
      end,
      "Enough.",
      0,
      1,
    ]);
  }
});

test("applies a cancel or stop that arrives while the hook runs, in spite of its veto", async () => {
  for (const [end, ask] of [
    ["cancelled", "cancel"],
    ["stopped", "requestStop"],
  ] as const) {
    const fixture = newFixture();
    const hook = transform("stop", () => {
      void run[ask]("Enough.");
      return { continueWith: "More." };
    });
    const { role, model } = soloist(ANSWERS, { hooks: [hook] });
    const run = fixture.start(role);
    const result = await fixture.outcome(run);
    expect([result.status, result.reason.message, model.requests.length]).toEqual([
      end,
      "Enough.",
      1,
    ]);
  }
});

test("stops if a hook vetoes and requests a stop at once", async () => {
  const hook = transform(
    "stop",
    (_input, { requestStop }) => {
      requestStop("Enough.");
      return { continueWith: "More." };
    },
    { name: "torn" },
  );
  const fixture = newFixture();
  const { role, model } = soloist(ANSWERS, { hooks: [hook] });
  const result = await fixture.run(role);
  const reason = { code: "stop_requested", message: "Enough.", data: {} };
  expect([result.status, result.reason, model.requests.length]).toEqual(["stopped", reason, 1]);
  expect(fixture.sink.ofType("signal.raised").map(({ signal }) => signal)).toEqual([
    { source: "hook", name: "torn", reason },
  ]);
});

const output = z.object({ count: z.int() });

test("passes a typed result to the hook, and replaces it after a veto", async () => {
  const { hook, asked } = vetoer(1);
  const { role } = soloist([asks("Finish", { count: 1 }), asks("Finish", { count: 2 })], {
    output,
    hooks: [hook],
  });
  const result = await newFixture().run(role);
  expect([result.status, result.output, asked.map((one) => one.output)]).toEqual([
    "completed",
    { count: 2 },
    [{ count: 1 }, { count: 2 }],
  ]);
});

test("lets the agent call tools between a veto and the next typed result", async () => {
  const { hook, asked } = vetoer(1);
  const { role, model } = soloist(
    [asks("Finish", { count: 1 }), work, asks("Finish", { count: 2 })],
    { output, tools, hooks: [hook] },
  );
  const result = await newFixture().run(role);
  expect([
    result.status,
    result.output,
    asked.map((one) => one.output),
    model.requests.length,
  ]).toEqual(["completed", { count: 2 }, [{ count: 1 }, { count: 2 }], 3]);
});

proves(
  ["R91"],
  "adds one model call of the child, and none of the parent, after a veto at subagentStop",
  async () => {
    const ofChild = vetoer(1, "subagentStop");
    const ofParent = vetoer(0);
    const wrong = vetoer(9);
    const child = part("child", [says("First."), says("Second.")], {
      hooks: [ofChild.hook, wrong.hook],
    });
    const lead = part("lead", [calls(spawn("child")), says("Done.")], {
      subagents: [child.role],
      hooks: [ofParent.hook],
    });
    const fixture = newFixture();
    const result = await fixture.run(lead.role);
    expect([child.model.requests.length, lead.model.requests.length]).toEqual([2, 2]);
    expect(result.agents.map(({ role, text, steps }) => [role, text, steps.length])).toEqual([
      ["lead", "Done.", 2],
      ["child", "Second.", 2],
    ]);
    expect(receivedTexts(lead.model.requests[1])[0]).toContain("Second.");
    expect([
      ofChild.asked.map(({ text, isActive }) => [text, isActive]),
      ofParent.asked.map(({ text, isActive }) => [text, isActive]),
      wrong.asked,
    ]).toEqual([
      [
        ["First.", false],
        ["Second.", true],
      ],
      [["Done.", false]],
      [],
    ]);
  },
);

proves(["R91"], "bounds vetoes at subagentStop for each agent separately", async () => {
  const paths: string[] = [];
  const veto = transform("subagentStop", (_input, { agentPath }) => {
    paths.push(agentPath);
    return { continueWith: "More." };
  });
  const child = part("child", () => says("Child."));
  const lead = part("lead", [calls(spawn("child"), spawn("child")), says("Done.")], {
    subagents: [child.role],
  });
  const result = await newFixture({ hooks: [veto] }).run(lead.role);
  expect([
    result.status,
    paths.toSorted(),
    child.model.requests.length,
    lead.model.requests.length,
  ]).toEqual([
    "completed",
    ["lead/child#1", "lead/child#2"].flatMap((path) => [path, path, path]),
    8,
    2,
  ]);
});
