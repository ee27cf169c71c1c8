// Goal: the loop of one agent runs through its phases as documented, and its caller may intervene
// between any two.
// Method: scripted replies, run freely or iterated by hand; complete lists of phases, events and
// states are compared.

import { globSync, readFileSync } from "node:fs";

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { PhaseReport } from "../../../src/agent/phase-report.ts";
import type { Model } from "../../../src/model/model.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop, type Latch } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { aborted, calls, use } from "../../harness/scripted-agents.ts";

async function collect(run: Run): Promise<readonly PhaseReport[]> {
  const reports: PhaseReport[] = [];
  for await (const report of run.iterate()) reports.push(report);
  return reports;
}

function withoutTrace(value: object): object {
  return { ...value, traceId: "", spanId: "" };
}

const TOOL_THEN_TEXT = [asks("work", {}), says("done")] as const;

proves(
  ["R2"],
  "a tool step and a text step yield six phases, then four, then the end",
  async () => {
    const fixture = newFixture();
    const run = fixture.start(soloist(TOOL_THEN_TEXT, { tools: [spyTool("work")] }).role);
    const reports = await collect(run);
    expect(reports.map((report) => report.phase).join(" ")).toBe(
      "prepare infer evaluate execute applyToolResults decide prepare infer evaluate decide ended",
    );
    await fixture.outcome(run);
  },
);

proves(
  ["R1"],
  "`run` and a drained `iterate` produce the same events and the same result",
  async () => {
    const freely = newFixture();
    const free = freely.start(soloist(TOOL_THEN_TEXT, { tools: [spyTool("work")] }).role);
    const freeResult = await freely.outcome(free);

    const stepped = newFixture();
    const run = stepped.start(soloist(TOOL_THEN_TEXT, { tools: [spyTool("work")] }).role);
    const reports = await collect(run);
    const steppedResult = await stepped.outcome(run);
    expect(stepped.sink.events.map(withoutTrace)).toEqual(freely.sink.events.map(withoutTrace));
    expect(withoutTrace(steppedResult)).toEqual(withoutTrace(freeResult));
    expect(reports.at(-1)?.state.log.steps).toEqual(freeResult.steps);
  },
);

proves(
  ["R1", "R183"],
  "a single module runs the loop and another calls the model, and the loop fits on a screen",
  () => {
    const sources = globSync("src/**/*.ts").map((file) => ({
      file,
      text: readFileSync(file, "utf8"),
    }));
    const callers = (pattern: RegExp): readonly string[] =>
      sources.filter(({ text }) => pattern.test(text)).map(({ file }) => file);
    expect(callers(/from "\.\/phases\//)).toEqual(["src/agent/run-agent.ts"]);
    expect(callers(/model\.generate\(/)).toEqual(["src/model/ask-model.ts"]);
    const loop = readFileSync("src/agent/run-agent.ts", "utf8");
    const body = loop.slice(
      loop.indexOf("export async function runAgent"),
      loop.indexOf("function isActive"),
    );
    expect(body.split("\n").length).toBeLessThanOrEqual(45);
    expect(body.match(/\btry\b/g)).toHaveLength(1);
  },
);

proves(
  ["R3"],
  "a stop between the reply and its tools prevents the tool, and its call gets a result",
  async () => {
    const work = spyTool("work");
    const { role } = soloist([asks("work", {})], { tools: [work] });
    const fixture = newFixture();
    const run = fixture.start(role);
    for await (const report of run.iterate())
      if (report.phase === "evaluate") run.requestStop("Enough.");
    const result = await fixture.outcome(run);
    expect([result.status, result.reason.code, work.calls.length]).toEqual([
      "stopped",
      "stop_requested",
      0,
    ]);
    expect(
      result.steps[0]?.tools.executions.map(({ call, type, text }) => [call.callId, type, text]),
    ).toEqual([
      [
        "call_1",
        "not_executed",
        "Not executed: the agent stopped before this call (stop_requested).",
      ],
    ]);
  },
);

proves(
  ["R3", "R18"],
  "a stop between any two phases ends the run, with every step completed once",
  async () => {
    for (const stopAfter of Array.from({ length: 10 }, (_value, index) => index)) {
      const fixture = newFixture();
      const run = fixture.start(
        soloist([asks("work", {}), asks("work", {}), says("done")], { tools: [spyTool("work")] })
          .role,
      );
      let count = 0;
      for await (const _report of run.iterate()) {
        if (count === stopAfter) run.requestStop();
        count += 1;
      }
      const result = await fixture.outcome(run);
      expect([stopAfter, result.reason.code]).toEqual([stopAfter, "stop_requested"]);
    }
  },
);

function pausingTool(): {
  readonly tool: ReturnType<typeof spyTool>;
  readonly entered: Latch;
  readonly aborted: Latch;
} {
  const entered = latch();
  const aborted = latch();
  const tool = spyTool("work", async ({ signal }) => {
    signal.addEventListener("abort", () => aborted.open());
    entered.open();
    await aborted.opened;
  });
  return { tool, entered, aborted };
}

for (const leave of ["break", "return", "throw"] as const) {
  proves(["R4"], `leaving the iteration by ${leave} cancels the run once`, async () => {
    const fixture = newFixture();
    const run = fixture.start(soloist(TOOL_THEN_TEXT, { tools: [spyTool("work")] }).role);
    const consume = async (): Promise<void> => {
      for await (const report of run.iterate()) {
        if (report.phase !== "infer") continue;
        if (leave === "throw") throw new Error("consumer");
        if (leave === "return") return;
        break;
      }
    };
    await consume().catch((error: unknown) => expect(error).toEqual(new Error("consumer")));
    const result = await fixture.outcome(run);
    expect([result.status, result.reason.code]).toEqual(["cancelled", "cancelled"]);
    expect(fixture.sink.ofType("agent.ended").map((event) => event.status)).toEqual(["cancelled"]);
  });
}

proves(["R4"], "leaving the iteration while a tool runs aborts the tool's signal", async () => {
  const { tool, entered, aborted } = pausingTool();
  const fixture = newFixture();
  const run = fixture.start(soloist([asks("work", {})], { tools: [tool] }).role);
  const phases = run.iterate();
  for (const phase of ["prepare", "infer", "evaluate"])
    expect((await phases.next()).value?.phase).toBe(phase);
  const pending = phases.next();
  await entered.opened;
  await phases.return?.();
  await aborted.opened;
  await pending;
  const result = await fixture.outcome(run);
  expect([result.status, fixture.sink.ofType("agent.ended").length]).toEqual(["cancelled", 1]);
});

proves(["R17"], "`iterate` yields the state after every step, and then the final one", async () => {
  const fixture = newFixture();
  const work = spyTool("work");
  const run = fixture.start(
    soloist([asks("work", {}), asks("work", {}), says("done")], { tools: [work] }).role,
  );
  const reports = await collect(run);
  const decided = reports.filter((report) => report.phase === "decide");
  expect(decided.map(({ state }) => [state.status, state.log.steps.length])).toEqual([
    ["running", 1],
    ["running", 2],
    ["running", 3],
  ]);
  expect(reports.at(-1)?.state.status).toBe("completed");
  await fixture.outcome(run);
});

proves(["R44"], "a yielded state cannot be changed by the caller", async () => {
  const fixture = newFixture();
  const run = fixture.start(soloist(TOOL_THEN_TEXT, { tools: [spyTool("work")] }).role);
  for await (const { state } of run.iterate()) {
    expect(() => Object.assign(state.log, { signals: [{}] })).toThrow(TypeError);
    expect(() => Object.assign(state.conversation.messages, { length: 0 })).toThrow(TypeError);
    expect(() => Object.assign(state, { status: "failed" })).toThrow(TypeError);
  }
  expect((await fixture.outcome(run)).status).toBe("completed");
});

proves(["R6", "R7"], "a fresh run infers once, and a text completes it", async () => {
  const { role, model } = soloist([says("hello")]);
  const result = await newFixture().run(role);
  expect([model.requests.length, result.steps.length]).toEqual([1, 1]);
  expect([result.status, result.reason.code, result.text]).toEqual([
    "completed",
    "completed",
    "hello",
  ]);
});

proves(["R9"], "calls decide whether the agent continues, and not the finish reason", async () => {
  const work = spyTool("work");
  const called = soloist([asks("work", {}, { finishReason: "stop" }), says("done")], {
    tools: [work],
  });
  expect((await newFixture().run(called.role)).status).toBe("completed");
  expect([work.calls.length, called.model.requests.length]).toEqual([1, 2]);

  const empty = soloist([says("text", { finishReason: "tool_calls" })]);
  expect((await newFixture().run(empty.role)).status).toBe("completed");
  expect(empty.model.requests).toHaveLength(1);

  const silent = soloist([{ finishReason: "tool_calls" }, { finishReason: "tool_calls" }]);
  const result = await newFixture().run(silent.role);
  expect([
    result.status,
    result.agents[0]?.errors.map((error) => error.code),
    silent.model.requests.length,
  ]).toEqual(["failed", ["model_invalid_reply"], 2]);
});

proves(
  ["R12"],
  "a cancel while the model answers prevents its calls and further requests",
  async () => {
    const never = latch();
    const work = spyTool("work");
    const { role, model } = soloist([asks("work", {}, { after: never.opened }), says("never")], {
      tools: [work],
    });
    const fixture = newFixture();
    const run = fixture.start(role);
    await flushEventLoop();
    await run.cancel("Changed my mind.");
    const result = await fixture.outcome(run);
    expect([result.status, result.reason.message]).toEqual(["cancelled", "Changed my mind."]);
    expect([work.calls.length, model.requests.length]).toEqual([0, 1]);
  },
);

/** A custom model that records its signal and answers only when the signal aborts. */
function listener() {
  const entered = latch();
  const signals: AbortSignal[] = [];
  const model: Model = {
    provider: "own",
    id: "listener",
    generate: async (_request, { signal }) => {
      signals.push(signal);
      entered.open();
      await aborted(signal);
      throw new Error("told to end", { cause: signal.reason });
    },
  };
  return { model, signals, entered };
}

proves(["R12"], "a cancel during inference aborts the model's signal", async () => {
  const { model, signals, entered } = listener();
  const work = spyTool("work");
  const role = defineAgent({ name: "solo", instructions: "Work.", model, tools: [work] });
  const fixture = newFixture();
  const run = fixture.start(role);
  await entered.opened;
  expect(signals.map((signal) => signal.aborted)).toEqual([false]);
  const cancelled = run.cancel("Changed my mind.");
  const reason = { type: "cancelled", message: "Changed my mind.", agentId: "agent_1" };
  expect(signals.map((signal): readonly unknown[] => [signal.aborted, signal.reason])).toEqual([
    [true, reason],
  ]);
  await cancelled;
  const result = await fixture.outcome(run);
  expect([result.status, result.reason.message, signals.length, work.calls.length]).toEqual([
    "cancelled",
    "Changed my mind.",
    1,
    0,
  ]);
});

proves(
  ["R12"],
  "a cancel while tools run aborts their signals, and no request follows",
  async () => {
    const entered = latch();
    const seen: unknown[] = [];
    const listen = (name: string) =>
      spyTool(name, async ({ signal }) => {
        seen.push(signal.aborted);
        if (seen.length === 2) entered.open();
        await aborted(signal);
        seen.push(signal.reason);
      });
    const tools = [listen("work"), listen("pay")];
    const { role, model } = soloist([calls(use("work"), use("pay")), says("never")], { tools });
    const fixture = newFixture();
    const run = fixture.start(role);
    await entered.opened;
    await run.cancel("Enough.");
    const result = await fixture.outcome(run);
    const reason = { type: "cancelled", message: "Enough.", agentId: "agent_1" };
    expect(seen).toEqual([false, false, reason, reason]);
    const signals = tools.flatMap((tool) => tool.calls.map(({ signal }) => signal));
    expect(signals.map((signal): readonly unknown[] => [signal.aborted, signal.reason])).toEqual([
      [true, reason],
      [true, reason],
    ]);
    expect([result.status, model.requests.length, result.steps.length]).toEqual([
      "cancelled",
      1,
      1,
    ]);
  },
);

proves(["R25"], "a scripted model is the only provider that a run needs", async () => {
  const result = await newFixture().run(soloist(TOOL_THEN_TEXT, { tools: [spyTool("work")] }).role);
  expect(result.agents.map((agent) => [agent.model, agent.status])).toEqual([
    ["scripted", "completed"],
  ]);
});
