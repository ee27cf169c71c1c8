// Goal: a test can hold a run at any point and inspect its effects up to there.
// Method: a lead with two parallel subagents; models wait at latches and for the manual clock.

import { expect, test } from "vitest";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { latch } from "../../src/testing/latch.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../src/testing/recording-sink.ts";
import { says, ScriptedModel } from "../../src/testing/scripted-model.ts";
import { flushEventLoop } from "../../src/testing/flush-event-loop.ts";

test("runs everything that waits for no latch", async () => {
  const first = latch();
  const second = latch();
  const work = new ScriptedModel([
    says("One.", { after: first.opened }),
    says("Two.", { after: second.opened }),
  ]);
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "Work.",
    model: work,
  });
  const call = { toolName: "SpawnSubagent", arguments: { role: "worker", task: "Work." } };
  const model = new ScriptedModel([{ calls: [call, call] }, says("Both.")]);
  const lead = defineAgent({ name: "lead", instructions: "Lead.", model, subagents: [worker] });

  const sink = new RecordingSink();
  const run = new Orchestrator({ sinks: [sink] }).start(lead, "Go.");
  await flushEventLoop();
  expect([model.requests.length, work.requests.length]).toEqual([1, 2]);
  first.open();
  await flushEventLoop();
  expect([model.requests.length, sink.ofType("run.ended").length]).toEqual([1, 0]);
  second.open();
  second.open(); // no effect
  await flushEventLoop();
  expect([model.requests.length, sink.ofType("run.ended").length]).toEqual([2, 1]);
  expect((await run.result).text).toBe("Both.");
});

test("does not wait for a manual clock", async () => {
  const clock = new ManualClock();
  const sink = new RecordingSink();
  const model = new ScriptedModel([says("Late.", { after: latch().opened })]);
  const budget = { timeMs: 5_000 };
  const role = defineAgent({ name: "lead", instructions: "Lead.", model, budget });
  const run = new Orchestrator({ clock, sinks: [sink] }).start(role, "Go.");
  await flushEventLoop();
  expect(sink.ofType("run.ended")).toEqual([]);
  clock.advance(5_000);
  await flushEventLoop();
  expect(sink.ofType("run.ended").map(({ reason }) => reason.code)).toEqual(["time_limit"]);
  expect((await run.result).status).toBe("stopped");
});
