// Goal: processors see each completed step in order, and every effect of a hook carries its name.
// Method: three processors, one of which fails; named and unnamed hooks at every point.

import { expect, test } from "vitest";

import { processStep, transform, type Hook } from "../../../src/hooks/hook.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { EventSink } from "../../../src/protocol/event.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { ToolError } from "../../../src/tools/tool-error.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { vandalised } from "../../support/frozen.ts";
import { hookTree } from "../../support/hook-sites.ts";

const tools = [spyTool("work")];
const work = { toolName: "work", arguments: {} };

proves(["R88"], "runs three processors in order after each step, one at a time", async () => {
  const log: string[] = [];
  const slow = async (): Promise<void> => {
    log.push("two begins");
    await flushEventLoop();
    log.push("two ends");
  };
  const hooks = [
    processStep(({ number }, { stepNumber }) => void log.push(`one ${number} ${stepNumber}`)),
    processStep(slow),
    processStep(({ number }) => void log.push(`three ${number}`)),
  ];
  const { role } = soloist([asks("work", {}), says("done")], { tools, hooks });
  await newFixture().run(role);
  const both = ["two begins", "two ends"];
  expect(log).toEqual(["one 1 1", ...both, "three 1", "one 2 2", ...both, "three 2"]);
});

proves(
  ["R88"],
  "fails the run, skips the third processor and keeps the step if the second processor fails",
  async () => {
    const log: string[] = [];
    const hooks = [
      processStep(() => void log.push("one")),
      processStep(
        () => {
          throw new Error("boom");
        },
        { name: "second" },
      ),
      processStep(() => void log.push("three")),
    ];
    const { role, model } = soloist([asks("work", {}), says("never")], { tools, hooks });
    const fixture = newFixture();
    const result = await fixture.run(role);
    expect([result.status, result.agents[0]?.errors, log, model.requests.length]).toEqual([
      "failed",
      [
        {
          code: "hook_failed",
          message: 'The hook "second" failed at processStep: boom',
          data: { point: "processStep", hook: "second" },
        },
      ],
      ["one"],
      1,
    ]);
    expect(
      result.steps.map(({ number, tools: { executions }, error }) => [
        number,
        executions.map(({ type }) => type),
        error,
      ]),
    ).toEqual([[1, ["succeeded"], undefined]]);
    expect(
      fixture.sink.ofType("step.completed").map(({ number, error }) => [number, error]),
    ).toEqual([[1, undefined]]);
  },
);

proves(["R88"], "prevents a processor from changing a step", async () => {
  const changed: unknown[] = [];
  const steps: unknown[] = [];
  const hooks = [
    processStep((step) => {
      changed.push(...vandalised(step));
      steps.push(step);
    }),
  ];
  const { role } = soloist([asks("work", {}), says("done")], { tools, hooks });
  const result = await newFixture().run(role);
  expect([changed, steps]).toEqual([[], result.steps]);
});

proves(
  ["S7.24"],
  "shows processors only completed steps, none that an error or a limit ended",
  async () => {
    const seen: unknown[] = [];
    const hooks = [
      processStep(
        ({ number, io, error }) => void seen.push([number, io.finishReason, error?.code]),
      ),
    ];
    const refused = new ModelError({ code: "model_invalid_request", message: "No." });
    await newFixture().run(soloist([{ error: refused }], { hooks }).role);
    await newFixture().run(soloist([asks("work", {})], { tools, hooks }).role, {
      budget: { totalTokens: 15 },
    });
    const stop = spyTool("work", (): void => run.requestStop(), { sequential: true });
    const fixture = newFixture();
    const two = { calls: [work, work] };
    const run = fixture.start(soloist([two], { tools: [stop], hooks }).role);
    await fixture.outcome(run);
    expect(seen).toEqual([]);
    await newFixture().run(soloist([says("half", { finishReason: "length" })], { hooks }).role);
    await newFixture().run(soloist([asks("work", {}), says("done")], { tools, hooks }).role);
    expect(seen).toEqual([
      [1, "length", undefined],
      [1, "tool_calls", undefined],
      [2, "stop", undefined],
    ]);
  },
);

proves(
  ["S7.24"],
  "shows processors no step that an abortive error or a cancellation ended",
  async () => {
    const seen: unknown[] = [];
    const hooks = [processStep(({ number }) => void seen.push(number))];
    const { opened, open } = latch();
    const held = spyTool("held", async ({ signal }) => {
      open();
      return await new Promise<string>((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
      });
    });
    const broken = spyTool("broken", async () => {
      await opened;
      throw new ToolError("No disk.", { severity: "abortive" });
    });
    const both = { calls: [held, broken].map(({ name }) => ({ toolName: name, arguments: {} })) };
    const aborted = await newFixture().run(soloist([both], { tools: [held, broken], hooks }).role);
    const codes = aborted.steps[0]?.tools.executions.map(({ errorCode }) => errorCode);
    expect([aborted.status, codes]).toEqual(["failed", ["cancelled", "tool_error"]]);
    expect(seen).toEqual([]);
    const sinks: readonly EventSink[] = [
      { emit: ({ type }) => void (type === "model.replied" && run.cancel("Enough.")) },
    ];
    const fixture = newFixture({ sinks });
    const run = fixture.start(soloist([says("done")], { hooks }).role);
    const cancelled = await fixture.outcome(run);
    expect([cancelled.status, cancelled.steps.length]).toEqual(["cancelled", 1]);
    expect(seen).toEqual([]);
  },
);

test("applies a processor's stop request before the next step", async () => {
  const hooks = [processStep((_step, { requestStop }) => requestStop("Seen enough."))];
  const { role, model } = soloist([asks("work", {}), says("never")], { tools, hooks });
  const fixture = newFixture();
  const result = await fixture.run(role);
  expect([result.status, result.reason.message, model.requests.length]).toEqual([
    "stopped",
    "Seen enough.",
    1,
  ]);
  expect(fixture.sink.ofType("signal.raised").map(({ signal }) => signal.name)).toEqual([
    "processStep#1",
  ]);
});

test("applies a stop that a processor requested on the last step in spite of a veto", async () => {
  const hooks = [
    processStep((_step, { requestStop }) => requestStop("Seen enough.")),
    transform("stop", () => ({ continueWith: "More." })),
  ];
  const { role, model } = soloist([says("done")], { hooks });
  const result = await newFixture().run(role);
  expect([result.status, result.reason.message, result.text, model.requests.length]).toEqual([
    "stopped",
    "Seen enough.",
    "done",
    1,
  ]);
});

function idle(): Hook {
  return transform("beforeModel", () => undefined);
}

function words(): { readonly instructions: string } {
  return { instructions: "Hurry." };
}

proves(["R87"], "names hooks in events and signals by option, function or position", async () => {
  const hooks: readonly Hook[] = [
    transform("beforeModel", () => ({ temperature: 0 })),
    transform("beforeModel", () => ({ temperature: 1 }), { name: "warm", priority: -1 }),
    transform("beforeModel", words),
    transform("beforeModel", () => ({ temperature: 0.5 }), { priority: 1 }),
    transform("stop", (_input, { requestStop }) => requestStop("Enough.")),
  ];
  const fixture = newFixture({ hooks: [transform("beforeModel", () => ({ temperature: 2 }))] });
  await fixture.run(soloist([says("done")], { hooks }).role);
  expect([
    fixture.sink.ofType("hook.applied").map(({ changedBy }) => changedBy.map(({ hook }) => hook)),
    fixture.sink.ofType("signal.raised").map(({ signal }) => signal.name),
  ]).toEqual([
    [["beforeModel#5", "beforeModel#1", "beforeModel#2", "words", "warm"]],
    [undefined, "stop#1"],
  ]);
});

proves(["R87", "R83"], "uses the same names and order in every step and every run", async () => {
  const hooks: readonly Hook[] = Array.from({ length: 5 }, (_none, index) =>
    transform("beforeModel", () => ({ temperature: index / 10 }), { priority: index % 2 }),
  );
  const orders = new Set<string>();
  for (let round = 0; round < 100; round += 1) {
    const fixture = newFixture({ hooks });
    await fixture.run(soloist([asks("work", {}), says("done")], { tools, hooks }).role);
    for (const { changedBy } of fixture.sink.ofType("hook.applied"))
      orders.add(changedBy.map(({ hook }) => hook).join(" "));
  }
  const order = [2, 4, 7, 9, 1, 3, 5, 6, 8, 10].map((place) => `beforeModel#${place}`);
  expect([...orders]).toEqual([order.join(" ")]);
});

test("names an unnamed orchestrator hook alike for all agents of the tree", async () => {
  const names = new Set<string>();
  const nameless = transform("beforeModel", (_input, { hookName }) => void names.add(hookName));
  const { lead } = hookTree({ lead: [idle(), idle()], child: [idle()] });
  await newFixture({ hooks: [nameless] }).run(lead.role);
  expect([...names]).toEqual(["beforeModel#1"]);
});

test("continues other agents while one waits for its hook", async () => {
  const held = latch();
  const waits = transform("subagentStop", async () => await held.opened.then(() => undefined));
  const { lead, work } = hookTree({ child: [waits] });
  const fixture = newFixture();
  const run = fixture.start(lead.role);
  await flushEventLoop();
  expect(work.calls.length).toBe(1);
  held.open();
  expect((await fixture.outcome(run)).status).toBe("completed");
});
