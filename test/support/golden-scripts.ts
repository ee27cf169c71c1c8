// The runs with golden traces. Each settles, perhaps after a pause, and returns its fixture and its
// last result.

import { getLastText } from "../../src/agent/agent-state.ts";
import { ModelError } from "../../src/model/model-error.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import { approve, deny } from "../../src/protocol/question.ts";
import { asks, says } from "../../src/testing/scripted-model.ts";
import { newFixture, flushEventLoop, type Fixture } from "../harness/run-scripted.ts";
import { soloist } from "../harness/soloist.ts";
import { spyTool } from "../harness/tools.ts";
import { agentStateOf } from "./agent-state-of.ts";
import { calls, listens, part, spawn, tool, until, use } from "../harness/scripted-agents.ts";

export interface Played {
  readonly fixture: Fixture;
  readonly result: RunResult;
}

const broken = spyTool("break", () => {
  throw new Error("broken");
});

async function success(): Promise<Played> {
  const fixture = newFixture();
  const { role } = soloist([asks("work", {}), says("The answer.")], { tools: [spyTool("work")] });
  return { fixture, result: await fixture.run(role, { budget: { totalTokens: 9_000, steps: 5 } }) };
}

async function toolError(): Promise<Played> {
  const fixture = newFixture();
  const wrong = { toolName: "work", arguments: "{oops" };
  const { role } = soloist([calls(use("break"), use("nobody"), wrong), says("Never mind.")], {
    tools: [broken, spyTool("work")],
  });
  return { fixture, result: await fixture.run(role) };
}

async function driverError(): Promise<Played> {
  const fixture = newFixture();
  const { role } = soloist(
    [
      asks("work", {}),
      { error: new ModelError({ code: "model_overloaded", message: "Busy." }) },
      { error: new ModelError({ code: "model_invalid_request", message: "No." }) },
    ],
    { tools: [spyTool("work")] },
  );
  const run = fixture.start(role);
  await until(() => fixture.sink.ofType("model.retried").length === 1);
  fixture.clock.advance(500);
  return { fixture, result: await fixture.outcome(run) };
}

async function stop(): Promise<Played> {
  const fixture = newFixture();
  const { role } = soloist([asks("work", {}), calls(use("work"), use("work"))], {
    tools: [spyTool("work")],
  });
  return { fixture, result: await fixture.run(role, { budget: { totalTokens: 30 } }) };
}

async function pause(): Promise<Played> {
  const fixture = newFixture();
  const tools = [
    spyTool("look"),
    spyTool("pay", () => "paid", { needsApproval: true }),
    spyTool("wipe", () => "wiped", { needsApproval: true }),
  ];
  const helper = part("helper", [calls(use("pay")), says("Paid.")], { tools });
  const lead = part("lead", [calls(use("look"), use("wipe"), spawn("helper")), says("Done.")], {
    tools,
    subagents: [helper.role],
  });
  const paused = await fixture.run(lead.role);
  const answers = paused.questions.map((question) =>
    question.toolName === "pay" ? approve(question) : deny(question, "Too risky."),
  );
  const run = fixture.resume(lead.role, paused.pausedRun, answers);
  return { fixture, result: await fixture.outcome(run) };
}

async function cancel(): Promise<Played> {
  const fixture = newFixture();
  const { role } = soloist([asks("listen", {})], { tools: [listens("listen")] });
  const run = fixture.start(role);
  await until(() => fixture.sink.ofType("tool.started").length === 1);
  await run.cancel("Changed my mind.");
  return { fixture, result: await fixture.outcome(run) };
}

async function childRuns(): Promise<Played> {
  const fixture = newFixture();
  const leaf = part("leaf", [says("Leaf.")]);
  const digs = part("digs", [calls(spawn("leaf", "Dig.")), says("Dug.")], {
    subagents: [leaf.role],
    budget: { totalTokens: 9_000 },
  });
  const fails = part("fails", [
    { error: new ModelError({ code: "model_invalid_request", message: "No." }) },
  ]);
  const lead = part(
    "lead",
    [calls(spawn("digs"), spawn("nobody")), calls(spawn("fails")), says("Done.")],
    { subagents: [digs.role, fails.role] },
  );
  return { fixture, result: await fixture.run(lead.role) };
}

async function subtasks(): Promise<Played> {
  const fixture = newFixture();
  const helper = part("helper", [says("Found.")]);
  const plan = tool("plan", ({ queueSubtask }) => queueSubtask({ role: "helper", task: "Look." }));
  const lead = part("lead", [calls(use("plan")), {}, says("Done.")], {
    tools: [plan],
    subagents: [helper.role],
  });
  return { fixture, result: await fixture.run(lead.role) };
}

async function compaction(): Promise<Played> {
  const fixture = newFixture();
  const overflow = new ModelError({ code: "model_context_overflow", message: "Too long." });
  const { role } = soloist(
    [asks("work", {}), asks("work", {}), { error: overflow }, says("First."), says("Done.")],
    { tools: [spyTool("work")], compaction: { keepMessages: 2 } },
  );
  const run = fixture.start(role);
  for await (const { phase, state } of run.iterate())
    if (phase === "infer" && getLastText(agentStateOf(state)) === "First.")
      void run.steer("And this?");
  await flushEventLoop();
  return { fixture, result: await fixture.outcome(run) };
}

/** By the name of their golden file. */
export const GOLDEN_SCRIPTS: Readonly<Record<string, () => Promise<Played>>> = {
  success,
  "tool-error": toolError,
  "driver-error": driverError,
  stop,
  pause,
  cancel,
  "child-runs": childRuns,
  subtasks,
  compaction,
};
