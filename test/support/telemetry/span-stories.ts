// The runs with golden spans. Each runs to its end with the given tracing, and moves the clock by
// hand so that every span has a length.

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { wrapModelCall } from "../../../src/hooks/hook.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Tracing } from "../../../src/protocol/tracing.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says, type ScriptedCall, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import type { FunctionTool } from "../../../src/tools/tool.ts";
import { turns } from "../journal/crash-play.ts";
import { dyingStore } from "../journal/dying-store.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { payTool } from "../pause-stories.ts";
import { mortalTracing } from "./mortal-tracing.ts";
import { byTask, calls, part, spawn, tool, until, use } from "../../harness/scripted-agents.ts";

/** Creates the tracing of a process. Called once for each process of a story. */
export type NewTracing = () => Tracing;
/** Creates the clock of a process, with its initial wall time. */
type NewClock = (startMs: number) => ManualClock;
type Story = (newTracing: NewTracing, newClock?: NewClock) => Promise<void>;

const START_MS = 1_000;
const manualClock: NewClock = (startMs) => new ManualClock(startMs);

/** Creates a tool that takes a while. */
function works(clock: ManualClock, name = "work", takesMs = 20): FunctionTool {
  return tool(name, () => {
    clock.advance(takesMs);
    return "worked";
  });
}

function fails(name: string): FunctionTool {
  return tool(name, () => {
    throw new Error("broken");
  });
}

/** Replies after this time. */
function later(clock: ManualClock, step: Exclude<ScriptStep, Function>, takesMs = 10): ScriptStep {
  return () => {
    clock.advance(takesMs);
    return step;
  };
}

function staged(
  newTracing: NewTracing,
  newClock: NewClock,
): Fixture & { readonly clock: ManualClock } {
  const clock = newClock(START_MS);
  return { ...newFixture({ clock, tracing: newTracing() }), clock };
}

async function success(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const { clock, ...fixture } = staged(newTracing, newClock);
  const reader = part("reader", [later(clock, calls(use("work"))), later(clock, says("Read."))], {
    tools: [works(clock)],
  });
  const lead = part("lead", [later(clock, calls(spawn("reader"))), later(clock, says("Done."))], {
    subagents: [reader.role],
  });
  await fixture.run(lead.role, { budget: { totalTokens: 9_000, steps: 9 } });
}

async function toolError(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const { clock, ...fixture } = staged(newTracing, newClock);
  const wrong: ScriptedCall = { toolName: "work", arguments: "{oops" };
  const first = calls(use("break"), use("nobody"), wrong);
  const lead = part("lead", [later(clock, first), later(clock, says("Never mind."))], {
    tools: [fails("break"), works(clock)],
  });
  await fixture.run(lead.role);
}

async function modelError(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const { clock, ...fixture } = staged(newTracing, newClock);
  const busy = { error: new ModelError({ code: "model_overloaded", message: "Busy." }) };
  const refused = { error: new ModelError({ code: "model_invalid_request", message: "No." }) };
  const helper = part("helper", [later(clock, busy), later(clock, refused)]);
  const lead = part("lead", [later(clock, calls(spawn("helper"))), later(clock, says("Alone."))], {
    subagents: [helper.role],
  });
  const run = fixture.start(lead.role);
  await until(() => fixture.sink.ofType("model.retried").length === 1);
  clock.advance(500);
  await fixture.outcome(run);
}

async function refusal(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const { clock, ...fixture } = staged(newTracing, newClock);
  const reader = part("reader", [later(clock, says("Read."))]);
  const nested = part("nested", [later(clock, calls(spawn("reader"))), later(clock, says("No."))], {
    subagents: [reader.role],
  });
  const first = calls(spawn("stranger"), spawn("nested"));
  const lead = part("lead", [later(clock, first), later(clock, says("Done."))], {
    subagents: [nested.role, reader.role],
    limits: { maxDepth: 1 },
  });
  await fixture.run(lead.role);
}

async function limits(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const { clock, ...fixture } = staged(newTracing, newClock);
  const worker = part(
    "worker",
    [later(clock, calls(use("work"))), later(clock, calls(use("work"))), says("Never.")],
    { tools: [works(clock)], budget: { totalTokens: 40 } },
  );
  const lead = part("lead", [later(clock, calls(spawn("worker"))), later(clock, says("Done."))], {
    subagents: [worker.role],
  });
  await fixture.run(lead.role, { budget: { steps: 9 } });
}

async function approval(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const clock = newClock(START_MS);
  const asked = latch();
  const fixture = newFixture({
    clock,
    tracing: newTracing(),
    approver: async (question) => {
      await asked.opened;
      return approve(question);
    },
  });
  const lead = part(
    "lead",
    [
      later(clock, calls({ toolName: "pay", arguments: { amount: 1 } })),
      later(clock, says("Paid.")),
    ],
    { tools: [payTool()] },
  );
  const run = fixture.start(lead.role);
  await until(() => fixture.sink.ofType("question.asked").length === 1);
  clock.advance(60_000);
  asked.open();
  await fixture.outcome(run);
}

async function pauseAndResume(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const { clock, ...fixture } = staged(newTracing, newClock);
  const pay = { toolName: "pay", arguments: { amount: 1 } };
  const clerk = part("clerk", [later(clock, calls(pay)), later(clock, says("Paid."))], {
    tools: [payTool()],
  });
  const lead = part("lead", [later(clock, calls(spawn("clerk"))), later(clock, says("Done."))], {
    subagents: [clerk.role],
  });
  const paused = await fixture.run(lead.role);
  clock.advance(3_600_000);
  const answers = paused.questions.map((question) => approve(question));
  const run = fixture.resume(lead.role, paused.pausedRun, answers, { tracing: newTracing() });
  await fixture.outcome(run);
}

async function background(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const { clock, ...fixture } = staged(newTracing, newClock);
  const hurry = latch();
  const beside = {
    toolName: "SpawnSubagent",
    arguments: { role: "scout", task: "Work.", background: true },
  };
  const message = {
    toolName: "MessageSubagent",
    arguments: { subagent: "scout#1", message: "Hurry." },
  };
  const scout = part(
    "scout",
    [{ ...calls(use("work")), after: hurry.opened }, later(clock, says("Found."))],
    { tools: [works(clock)] },
  );
  const look = tool("look", () => {
    hurry.open();
    return "seen";
  });
  const lead = part(
    "lead",
    [
      later(clock, calls(beside)),
      later(clock, calls(message)),
      later(clock, calls(use("look"))),
      later(clock, says("Early.")),
      later(clock, says("Late.")),
    ],
    { delegation: { background: true }, subagents: [scout.role], tools: [look] },
  );
  await fixture.run(lead.role);
}

/** Selects replies by the history, so that a process that continues gives the same replies. */
function recoverable(clock: ManualClock): AgentRole {
  const script = byTask({
    "Work.": [later(clock, calls(use("work"))), later(clock, says("Read."))],
    "Do it.": [later(clock, calls(spawn("reader"))), later(clock, says("Done."))],
  });
  const reader = part("reader", script, { tools: [works(clock)] });
  return part("lead", script, { subagents: [reader.role] }).role;
}

async function crashAndRecovery(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const ids = sequentialIds();
  const store = memoryStore({ clock: new ManualClock() });
  const clock = newClock(START_MS);
  const dying = dyingStore(store, { at: 8, how: "before" });
  const tracing = mortalTracing(newTracing(), () => dying.isDead);
  const lead = recoverable(clock);
  const first = new Orchestrator({ clock, ids, store: dying.store, tracing, roles: [lead] });
  const run = first.start(lead, "Do it.");
  await run.result.catch((cause: unknown) => {
    if (!EspalierError.is(cause)) throw cause;
  });
  await turns(5);
  const nextClock = newClock(clock.nowMs() + 5_000);
  const next = new Orchestrator({
    clock: nextClock,
    ids,
    store,
    tracing: newTracing(),
    roles: [recoverable(nextClock)],
  });
  const recovered = await next.resume(run.runId, { takeOver: true });
  await recovered.result;
}

async function fork(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const { clock, ...fixture } = staged(newTracing, newClock);
  const lead = part(
    "lead",
    [later(clock, calls(use("work"))), later(clock, says("Done.")), later(clock, says("Other."))],
    { tools: [works(clock)] },
  );
  const run = fixture.start(lead.role);
  await fixture.outcome(run);
  const forked = fixture.fork(lead.role, run.snapshot(), { atStep: 1, message: "Otherwise." });
  await fixture.outcome(forked);
}

async function waiting(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const clock = newClock(START_MS);
  const fixture = newFixture({ clock, tracing: newTracing(), concurrency: { modelCalls: 1 } });
  const first = latch();
  const reader = part("reader", [
    { ...says("Read."), after: first.opened },
    later(clock, says("Read, too.")),
  ]);
  const lead = part(
    "lead",
    [
      later(clock, calls(spawn("reader", "One."), spawn("reader", "Two."))),
      later(clock, says("Done.")),
    ],
    { subagents: [reader.role] },
  );
  const run = fixture.start(lead.role);
  await until(() => reader.model.requests.length === 1);
  clock.advance(150);
  first.open();
  await fixture.outcome(run);
}

async function session(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const clock = newClock(START_MS);
  const fixture = newFixture({ clock, tracing: newTracing(), store: memoryStore({ clock }) });
  const lead = part("lead", [later(clock, says("One.")), later(clock, says("Two."))]);
  const thread = await fixture.orchestrator.openSession("thread-7");
  await fixture.run(lead.role, { session: thread });
  await fixture.run(lead.role, { session: thread });
}

/** Runs a hook that calls the model twice at once and takes the first reply. */
async function hedged(newTracing: NewTracing, newClock = manualClock): Promise<void> {
  const clock = newClock(START_MS);
  const late = latch();
  const twice = wrapModelCall(async (_call, next) => {
    const first = next();
    const second = await next();
    clock.advance(30);
    late.open();
    await first;
    return second;
  });
  const fixture = newFixture({ clock, tracing: newTracing(), hooks: [twice] });
  const lead = part("lead", [
    { ...says("Slow."), after: late.opened },
    later(clock, says("Fast.")),
  ]);
  await fixture.run(lead.role);
}

export const SPAN_STORIES: Readonly<Record<string, Story>> = {
  success,
  "tool-error": toolError,
  "model-error": modelError,
  refusal,
  limits,
  approval,
  "pause-and-resume": pauseAndResume,
  background,
  "crash-and-recovery": crashAndRecovery,
  fork,
  waiting,
  hedged,
  session,
};
