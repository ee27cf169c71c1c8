// Goal: a reader that joins late or reconnects ends up with the same parts as one that read from
// the beginning.
// Method: a tree with tools, a subagent, a broken attempt and a discarded reply; readers that join,
// and one that reconnects, at each of its parts. Complete replies are compared.

import { expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { Model } from "../../../src/model/model.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { toSse } from "../../../src/orchestrator/run/to-sse.ts";
import type { StreamPart } from "../../../src/protocol/stream-part.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import {
  asks,
  says,
  ScriptedModel,
  type ScriptedReply,
} from "../../../src/testing/scripted-model.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { proves } from "../../harness/proves.ts";
import { spyTool } from "../../harness/tools.ts";
import { allOf } from "../../support/all-of.ts";
import { NOTHING, SaidSteps } from "../../support/said.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { calls, part, spawn } from "../../harness/scripted-agents.ts";

const PieceSchema = z.custom<StreamPart>();

const BROKEN: ScriptedReply = {
  text: "It was",
  error: new ModelError({ code: "model_unavailable", message: "Cut.", retryAfterMs: 0 }),
};

/** A model that streams a text before it fails. */
function stuttering(script: readonly ScriptedReply[]): Model {
  const model = new ScriptedModel(script);
  let asked = 0;
  return {
    provider: "own",
    id: "own",
    generate: (request, options) => {
      const { text = "", error } = script[asked] ?? {};
      asked += 1;
      if (error !== undefined) options.onDelta?.({ type: "text", text });
      return model.generate(request, options);
    },
  };
}

const both = (text: string): ScriptedReply => ({
  text,
  calls: [
    { toolName: "work", arguments: {} },
    { toolName: "fail", arguments: {} },
  ],
});

function lead() {
  const helper = part("helper", [{ ...asks("work", {}), text: "I look." }, says("Part done.")], {
    tools: [spyTool("work")],
  });
  const fail = spyTool("fail", () => {
    throw new Error("No.");
  });
  return defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: stuttering([
      both("First I work."),
      BROKEN,
      { ...calls(spawn("helper", "Help.")), text: "Then I ask." },
      says(" "),
      BROKEN,
      says("All is done."),
    ]),
    tools: [spyTool("work"), fail],
    subagents: [helper.role],
  });
}

/** Returns the visible steps of a run at its end. */
function truth(result: RunResult) {
  const all = result.agents.flatMap(({ steps }) => steps);
  return all
    .filter(({ io, tools }) => io.text.trim() !== "" || tools.calls.length > 0)
    .map(({ stepId, io, tools }) => ({
      stepId,
      text: io.text,
      calls: tools.executions.map(({ call, text }) => [call.toolName, call.argumentsText, text]),
    }));
}

/** Returns the steps that a page builds from the parts, in the order of the result. */
function seen({ steps, results }: SaidSteps, order: readonly { readonly stepId: string }[]) {
  const place = (stepId: string): number => order.findIndex((one) => one.stepId === stepId);
  return [...steps]
    .filter(([, { text, calls: said }]) => text.trim() !== "" || said.length > 0)
    .map(([stepId, { text, calls: said }]) => ({
      stepId,
      text,
      calls: said.map((call) => [call.toolName, call.argumentsText, results.get(call.callId)]),
    }))
    .toSorted((one, other) => place(one.stepId) - place(other.stepId));
}

/**
 * Calls `at` at each part of a run: immediately, in a microtask, and a turn of the event loop
 * later.
 */
async function eachMoment(at: (run: Run, moment: number) => void) {
  const fixture = newFixture();
  let moment = 0;
  const run: Run = fixture.start(lead(), "Do it.", {
    onStreamPart: () => {
      at(run, moment++);
      queueMicrotask(() => at(run, moment++));
      void flushEventLoop().then(() => at(run, moment++));
    },
  });
  const result = await fixture.outcome(run);
  at(run, moment++);
  expect(result.status).toBe("completed");
  expect(moment).toBeGreaterThan(60);
  return truth(result);
}

proves(["D255"], "a reader that joins at any part reads all replies, each once", async () => {
  const readers: Promise<readonly StreamPart[]>[] = [];
  const whole = await eachMoment((run) => void readers.push(allOf(run.stream())));
  for (const pieces of await Promise.all(readers)) {
    const said = new SaidSteps();
    for (const piece of pieces) said.take(piece);
    expect(seen(said, whole)).toEqual(whole);
    for (const { stepId } of whole) expect(said.of(stepId).ends).toBe(1);
    const results = pieces.flatMap((piece) =>
      piece.type === "result" ? `${piece.stepId} ${piece.callId}` : [],
    );
    expect(results).toEqual([...new Set(results)]);
  }
});

proves(
  ["D255"],
  "a reader that disconnects after any part and reconnects has all replies at the end",
  async () => {
    const texts = await eachMoment(() => undefined);
    for (let patience = 1; patience < 80; patience += 1) {
      const fixture = newFixture();
      const said = new SaidSteps();
      const run = fixture.start(lead(), "Do it.");
      const follow = async (): Promise<void> => {
        let left = patience;
        for await (const piece of run.stream()) {
          said.take(piece);
          left -= 1;
          if (left > 0) continue;
          patience += 1; // Stay longer each time, or the reader would never reach the end.
          break;
        }
        if (left === 0) await follow();
      };
      await Promise.all([follow(), fixture.outcome(run)]);
      expect(seen(said, texts)).toEqual(texts);
    }
  },
);

proves(
  ["D255"],
  "a late reader receives past replies in the order of their start, before the live ones",
  async () => {
    const clock = new ManualClock();
    const held = latch();
    const helper = part(
      "helper",
      [
        { ...asks("work", {}), text: "I look." },
        { ...says("Part done."), after: held.opened },
      ],
      { tools: [spyTool("work", () => (clock.advance(1), "worked"))] },
    );
    const script = [{ ...calls(spawn("helper", "Help.")), text: "I ask." }, says("All done.")];
    const tick = spyTool("tick", () => (clock.advance(1), "ticked"));
    const { role } = part("lead", [{ ...asks("tick", {}), text: "I begin." }, ...script], {
      subagents: [helper.role],
      tools: [tick],
    });
    const fixture = newFixture({ clock });
    const run = fixture.start(role); // No reader is attached.
    await flushEventLoop();
    const late = run.stream();
    held.open();
    await fixture.outcome(run);
    const told = (await allOf(late)).map((piece) => {
      const place = `${piece.agentPath} ${piece.stepNumber}`;
      if (piece.type === "reset") return `${place} ${piece.reason}`;
      if (piece.type === "text") return `${place} ${piece.text}`;
      return `${place} ${piece.type}`;
    });
    const call = (place: string) => [`${place} call`, `${place} arguments`, `${place} end`];
    const helped = "lead/helper#1";
    expect(told).toEqual([
      "lead 1 joined",
      "lead 1 I begin.",
      ...call("lead 1"),
      "lead 1 result",
      "lead 2 joined",
      "lead 2 I ask.",
      ...call("lead 2"),
      `${helped} 1 joined`,
      `${helped} 1 I look.`,
      ...call(`${helped} 1`),
      `${helped} 1 result`,
      `${helped} 2 Part done.`,
      `${helped} 2 end`,
      "lead 2 result",
      "lead 3 All ",
      "lead 3 done.",
      "lead 3 end",
    ]);
  },
);

proves(
  ["D255"],
  "a late reader receives the result of an ended call once while another call runs",
  async () => {
    const held = latch();
    const slow = spyTool("fail", async () => (await held.opened, "slow done"));
    const model = new ScriptedModel([both("I work."), says("Done.")]);
    const tools = [spyTool("work"), slow];
    const fixture = newFixture();
    const run = fixture.start(defineAgent({ name: "solo", instructions: "Work.", model, tools }));
    await flushEventLoop();
    const late = run.stream();
    held.open();
    await fixture.outcome(run);
    const results = (await allOf(late)).flatMap((one) => (one.type === "result" ? one.text : []));
    expect(results).toEqual(["work done", "slow done"]);
  },
);

proves(["D255"], "a reader that returns after a failed reply drops its text", async () => {
  const said = new SaidSteps();
  const fixture = newFixture({ retryPolicy: { maxAttempts: 1 } });
  const model = stuttering([both("I work."), BROKEN]);
  const tools = [spyTool("work"), spyTool("fail")];
  const run = fixture.start(defineAgent({ name: "solo", instructions: "Work.", model, tools }));
  for await (const piece of run.stream()) {
    said.take(piece);
    if (piece.type === "text" && piece.text === "It was") break;
  }
  const { status, steps } = await fixture.outcome(run);
  expect([status, said.of(steps[1]?.stepId ?? "").text]).toEqual(["failed", "It was"]);
  for await (const piece of run.stream()) said.take(piece);
  expect([...said.steps.values()].map(({ text }) => text)).toEqual(["I work.", ""]);
  expect(said.of(steps[1]?.stepId ?? "")).toEqual({ ...NOTHING(), resets: ["joined"] });
});

proves(
  ["D255"],
  "a reader of a resumed run receives the replies from before the release",
  async () => {
    const store = memoryStore({ clock: new ManualClock() });
    const held = latch();
    let isHeld = true;
    const slow = spyTool("fail", async () => (isHeld && (await held.opened), "slow done"));
    const script = [{ ...asks("work", {}), text: "One." }, both("Two."), says("Three.")];
    const model = new ScriptedModel(script);
    const tools = [spyTool("work"), slow];
    const role = defineAgent({ name: "solo", instructions: "Work.", model, tools });
    const first = newFixture({ store, roles: [role] });
    const run = first.start(role);
    for (let turn = 0; turn < 20; turn += 1) await flushEventLoop();
    const leaving = run.release({ graceMs: 0 });
    held.open();
    isHeld = false;
    expect(await leaving).toBe(true);
    expect((await rejectionOf(run.result)).code).toBe("run_released");
    const second = newFixture({ store, roles: [role] });
    const again = await second.orchestrator.resume(run.runId);
    const said = new SaidSteps();
    for await (const piece of again.stream()) said.take(piece);
    const whole = truth(await again.result);
    expect(whole.map(({ text }) => text)).toEqual(["One.", "Two.", "Three."]);
    expect(seen(said, whole)).toEqual(whole);
  },
);

proves(
  ["D255"],
  "a reader may follow one agent, and past parts do not count as backlog",
  async () => {
    const fixture = newFixture();
    const run = fixture.start(lead());
    const { agents } = await fixture.outcome(run);
    const agentId = agents[1]?.agentId ?? expect.fail();
    const own = await allOf(run.stream({ agentId, maxBacklog: 1 }));
    expect(own.flatMap((piece) => (piece.type === "text" ? piece.text : []))).toEqual([
      "I look.",
      "Part done.",
    ]);
    expect(own.every((piece) => piece.agentId === agentId)).toBe(true);
  },
);

proves(
  ["D256"],
  "a stream of server-sent events contains complete replies, and starts at its creation",
  async () => {
    const fixture = newFixture({ store: memoryStore({ clock: new ManualClock() }) });
    const run = fixture.start(lead());
    const early = toSse(run); // It is first read after the run.
    const whole = truth(await fixture.outcome(run));
    for (const messages of [early, toSse(run), toSse(run, { from: 1, lastEventId: "9" })]) {
      const said = new SaidSteps();
      for (const message of await allOf(messages)) {
        const [, data] = /^event: part\ndata: (.*)$/m.exec(message) ?? [];
        if (data !== undefined) said.take(PieceSchema.parse(JSON.parse(data)));
      }
      expect(seen(said, whole)).toEqual(whole);
    }
  },
);
