// Goal: an observer of a run sees at once what it waits for and how to continue it, and after a
// pause the tree again.
// Method: a lead with two researchers that ask; inspected while running, at the pause and after the
// resumption, on a fake terminal.

import { expect, test } from "vitest";
import { z } from "zod";

import type { ShownAgent } from "../../src/terminal/fold-tree.ts";
import { formatRunReport, rebuildTree } from "../../src/terminal/report.ts";
import { terminalView } from "../../src/terminal/terminal.ts";
import {
  approve,
  defineAgent,
  defineTool,
  deny,
  provideResult,
  Orchestrator,
  type Answer,
  type AgentRole,
  type OrchestratorOptions,
  type Question,
  type RunResult,
} from "../../src/index.ts";
import {
  asks,
  ManualClock,
  RecordingSink,
  says,
  ScriptedModel,
  sequentialIds,
  type ScriptedCall,
} from "../../src/testing/index.ts";
import { flushEventLoop } from "../harness/run-scripted.ts";
import { foldOf } from "../support/read-model/fold-of.ts";
import { FakeTerminal } from "../support/terminal/fake-terminal.ts";

test("shows a question above the tree until it is answered, without counting the wait as time", async () => {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const fixture = theatre({
    approver: async (question) => {
      await promise;
      return approve(question);
    },
    answerTimeoutMs: 600_000,
  });
  const run = fixture.orchestrator.start(newLead(), "Tell all.", {
    budget: { timeMs: 60_000 },
  });
  while (fixture.sink.ofType("question.asked").length < 2) await flushEventLoop();
  fixture.clock.advance(90_000);
  expect(frame(fixture.terminal)).toMatchInlineSnapshot(`
    "
    input required (2)   tool        waits  arguments                                 reason
    ? lead/researcher#1  mail  8m 30s left  {"to":"ann@example.org","text":"\\u001b[…  A mail to ann@example.org leaves the…
    ? lead/researcher#2  mail  8m 30s left  {"to":"ann@example.org","text":"\\u001b[…  A mail to ann@example.org leaves the…
    agent             state              step  own tok  tree tok  own cost  tree cost    time  task
    lead              ⠋ waiting for 2       1       15        45   unknown    unknown  1m 30s  Tell all.
    ├─ researcher#1   ? asks: mail          1       15        15   unknown    unknown  1m 30s  Read the docs.
    └─ researcher#2   ? asks: mail          1       15        15   unknown    unknown  1m 30s  Read the code.
    ⠋ 1m 30s  3 agents, 3 running
    left  time ██████ 1m 00s of 1m 00s
    "
  `);
  resolve(undefined);
  await run.result;
  expect(frame(fixture.terminal)).toMatchInlineSnapshot(`
    "
    agent            state        step  own tok  tree tok  own cost  tree cost    time  task
    lead             ✔ completed     2       30        90   unknown    unknown  1m 30s  Tell all.
    ├─ researcher#1  ✔ completed     2       30        30   unknown    unknown  1m 30s  Read the docs.
    └─ researcher#2  ✔ completed     2       30        30   unknown    unknown  1m 30s  Read the code.
    ✔ completed in 1m 30s  3 agents
    left  time ██████ 1m 00s of 1m 00s
    "
  `);
});

test("removes the answered question of a tool while the tool continues", async () => {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const form = defineTool({
    name: "form",
    description: "Fills in a form.",
    inputSchema: z.object({}),
    execute: async (_input, { ask }) => {
      await ask({ reason: "The form is not complete.", arguments: { wanted: "city" } });
      await promise;
    },
  });
  const model = new ScriptedModel([asks("form", {}), says("Done.")]);
  const role = defineAgent({ name: "clerk", instructions: "Work.", model, tools: [form] });
  const answer = Promise.withResolvers<undefined>();
  const fixture = theatre({
    approver: async (question) => {
      await answer.promise;
      return provideResult(question, "Bonn");
    },
  });
  const run = fixture.orchestrator.start(role, "Fill it in.");
  while (fixture.sink.ofType("question.asked").length < 1) await flushEventLoop();
  fixture.clock.advance(1_000);
  expect(frame(fixture.terminal)).toMatch(/input required \(1\)[^]*The form is not complete/);
  answer.resolve(undefined);
  while (fixture.sink.ofType("question.answered").length < 1) await flushEventLoop();
  fixture.clock.advance(1_000);
  expect(frame(fixture.terminal)).toMatch(/clerk +\S form/);
  expect(frame(fixture.terminal)).not.toContain("input required");
  resolve(undefined);
  await run.result;
});

test("leaves the tree and the questions of a paused run, and reports how to continue it", async () => {
  const fixture = theatre();
  const result = await fixture.orchestrator.start(newLead(), "Tell all.").result;
  expect(frame(fixture.terminal)).toMatchInlineSnapshot(`
    "
    input required (2)   tool  waits  arguments                                 reason
    ? lead/researcher#1  mail    0ms  {"to":"ann@example.org","text":"\\u001b[…  A mail to ann@example.org leaves the house.
    ? lead/researcher#2  mail    0ms  {"to":"ann@example.org","text":"\\u001b[…  A mail to ann@example.org leaves the house.
    agent            state             step  own tok  tree tok  own cost  tree cost  time  task
    lead             ‖ input_required     1       15        45   unknown    unknown   0ms  Tell all. · Subagents are pause…
    ├─ researcher#1  ‖ input_required     1       15        15   unknown    unknown   0ms  Read the docs. · Waits for appr…
    └─ researcher#2  ‖ input_required     1       15        15   unknown    unknown   0ms  Read the code. · Waits for appr…
    ‖ paused after 0ms  3 agents, 3 paused
    "
  `);
  expect([fixture.clock.pendingTimers, fixture.terminal.listeners]).toEqual([0, 0]);
  expect(summary(rebuildTree(result))).toEqual(summary(foldOf(fixture.sink.events).root));
  expect(shown(formatRunReport({ ...result, traceId: "0af7651916cd43dd8448eb211c80319c" })))
    .toMatchInlineSnapshot(`
      "
      Open questions
      input required (2)   tool  answer by  arguments                                 reason
      ? lead/researcher#1  mail   any time  {"to":"ann@example.org","text":"\\u001b[…  A mail to ann@examp…
      ? lead/researcher#2  mail   any time  {"to":"ann@example.org","text":"\\u001b[…  A mail to ann@examp…

      Tree
      agent            state             step  own tok  tree tok  own cost  tree cost  task
      lead             ‖ input_required     1       15        45   unknown    unknown  Tell all. · Subage…
      ├─ researcher#1  ‖ input_required     1       15        15   unknown    unknown  Read the docs. · W…
      └─ researcher#2  ‖ input_required     1       15        15   unknown    unknown  Read the code. · W…

      Budget of the run
      no limits

      Usage by role
      role        model calls  tool calls  input  cached  output     cost
      lead                  1           2     10       0       5  unknown
      researcher            2           2     20       0      10  unknown

      Usage by model
      model     model calls  tool calls  input  cached  output     cost
      scripted            3           4     30       0      15  unknown

      ‖ paused after 0ms: Waits for approval of mail (lead/researcher#1), approval of mail (lead/researcher#2).
      Continue with orchestrator.resume(result.pausedRun, { answers }); it needs 2 answers, or an approver
      If a store has the run: await orchestrator.resume("run_1", { answers })
      3 agents, deepest at depth 1, no spawn refused
      Trace id 0af7651916cd43dd8448eb211c80319c
      "
    `);
});

test("reports that a requested pause needs no answers", async () => {
  const fixture = theatre();
  const model = new ScriptedModel([says("Done.")]);
  const role = defineAgent({ name: "lead", instructions: "Lead.", model });
  const run = fixture.orchestrator.start(role, "Do it.");
  run.requestPause();
  const report = formatRunReport(await run.result);
  expect(report).toContain(
    'Continue with orchestrator.resume(result.pausedRun)\nIf a store has the run: await orchestrator.resume("run_1")\n',
  );
  expect(report).not.toContain("Open questions");
});

test("rebuilds the tree in a view that starts at a resumption, with the numbers of the result", async () => {
  const fixture = theatre();
  const lead = newLead();
  const paused = await fixture.orchestrator.start(lead, "Tell all.", { budget: { steps: 20 } })
    .result;
  fixture.clock.advance(3_600_000);
  const before = fixture.sink.events.length;
  const result = await resume(fixture, lead, paused);

  const resumed = fixture.sink.events.slice(before);
  expect(resumed[0]?.type).toBe("run.resumed");
  const reached = resumed.findIndex((event) => event.type === "tool.started");
  const middle = foldOf(resumed.slice(0, reached + 1));
  expect(summary(middle.root)).toMatchInlineSnapshot(`
    [
      "lead calling step 0 own 0 tree 0",
      "lead/researcher#1 calling step 0 own 0 tree 0",
      "lead/researcher#2 preparing step 0 own 0 tree 0",
    ]
  `);
  expect([middle.budget, middle.remaining]).toEqual([{ steps: 17 }, { steps: 17 }]);
  expect(summary(foldOf(resumed).root)).toEqual(summary(rebuildTree(result)));
  expect(frame(fixture.terminal)).toMatchInlineSnapshot(`
    "
    input required (2)   tool  waits  arguments                                 reason
    ? lead/researcher#1  mail    0ms  {"to":"ann@example.org","text":"\\u001b[…  A mail to ann@example.org leaves the house.
    ? lead/researcher#2  mail    0ms  {"to":"ann@example.org","text":"\\u001b[…  A mail to ann@example.org leaves the house.
    agent            state             step  own tok  tree tok  own cost  tree cost  time  task
    lead             ‖ input_required     1       15        45   unknown    unknown   0ms  Tell all. · Subagents are pause…
    ├─ researcher#1  ‖ input_required     1       15        15   unknown    unknown   0ms  Read the docs. · Waits for appr…
    └─ researcher#2  ‖ input_required     1       15        15   unknown    unknown   0ms  Read the code. · Waits for appr…
    ‖ paused after 0ms  3 agents, 3 paused
    left  steps █████░ 17 of 20
    agent            state        step  own tok  tree tok  own cost  tree cost    time  task
    lead             ✔ completed     2       30        90   unknown    unknown  1h 00m  Tell all.
    ├─ researcher#1  ✔ completed     2       30        30   unknown    unknown  1h 00m  Read the docs.
    └─ researcher#2  ✔ completed     2       30        30   unknown    unknown  1h 00m  Read the code.
    ✔ completed in 1h 00m  3 agents
    left  steps █████░ 14 of 17
    "
  `);
});

test("continues a view that saw the run before the pause", async () => {
  const fixture = theatre();
  const lead = newLead();
  const paused = await fixture.orchestrator.start(lead, "Tell all.", {
    budget: { steps: 20, timeMs: 60_000 },
  }).result;
  const before = foldOf(fixture.sink.events);
  expect([before.end?.status, before.questions.length]).toEqual(["paused", 2]);
  fixture.clock.advance(3_600_000);
  const result = await resume(fixture, lead, paused);

  const view = foldOf(fixture.sink.events);
  expect(summary(view.root)).toEqual(summary(rebuildTree(result)));
  expect(view).toMatchObject({ budget: { steps: 20 }, remaining: { steps: 14 }, questions: [] });
  expect([view.startedAtMs, view.idleMs]).toEqual([0, 3_600_000]);
});

test("prints questions, answers, the pause and the resumption as plain lines", async () => {
  const fixture = theatre({}, false);
  const lead = newLead();
  const paused = await fixture.orchestrator.start(lead, "Tell all.").result;
  fixture.clock.advance(60_000);
  const result = await resume(fixture, lead, paused);

  expect(fixture.terminal.writes.join("")).not.toContain("\u001b");
  expect(frame(fixture.terminal)).toMatchInlineSnapshot(`
    "
        0ms  lead started: Tell all.
        0ms  lead/researcher#1 started: Read the docs.
        0ms  lead/researcher#2 started: Read the code.
        0ms  lead/researcher#1 input required: mail {"to":"ann@example.org","text":"\\u001b[…: A mail to ann@example.org leaves the house.
        0ms  lead/researcher#2 input required: mail {"to":"ann@example.org","text":"\\u001b[…: A mail to ann@example.org leaves the house.
        0ms  lead/researcher#1 paused (input_required: Waits for approval of mail (lead/researcher#1).)
        0ms  lead/researcher#2 paused (input_required: Waits for approval of mail (lead/researcher#2).)
        0ms  lead paused (input_required: Subagents are paused.)
        0ms  lead run paused: 2 answers needed, 45 tokens, cost unknown, 0ms
        0ms  lead run resumed after 1m 00s, with 2 answers
        0ms  lead resumed: Tell all.
        0ms  lead/researcher#1 resumed: Read the docs.
        0ms  lead/researcher#2 resumed: Read the code.
        0ms  lead/researcher#1 mail was approved by the caller after 1m 00s
        0ms  lead/researcher#2 mail was denied by the caller after 1m 00s: Not now.
        0ms  lead/researcher#2 step 1: 15 tokens, cost unknown, 1 tool call
        0ms  lead/researcher#1 step 1: 15 tokens, cost unknown, 1 tool call
        0ms  lead/researcher#2 step 2: 15 tokens, cost unknown
        0ms  lead/researcher#2 completed: 2 steps, 30 tokens, cost unknown, 1m 00s
        0ms  lead/researcher#1 step 2: 15 tokens, cost unknown
        0ms  lead/researcher#1 completed: 2 steps, 30 tokens, cost unknown, 1m 00s
        0ms  lead step 1: 15 tokens, cost unknown, 2 tool calls
        0ms  lead step 2: 15 tokens, cost unknown
        0ms  lead completed: 2 steps, 30 tokens, cost unknown, subtree 90 tokens, cost unknown, 1m 00s
    "
  `);
  expect(formatRunReport(result)).toContain("completed in 1m 00s, of which 1m 00s paused");
});

interface Theatre {
  readonly terminal: FakeTerminal;
  readonly clock: ManualClock;
  readonly sink: RecordingSink;
  readonly orchestrator: Orchestrator;
}

function theatre(options: OrchestratorOptions = {}, isTTY = true): Theatre {
  const terminal = new FakeTerminal({ columns: 120, isTTY });
  const clock = new ManualClock();
  const sink = new RecordingSink();
  const view = terminalView({ stream: terminal, env: {}, clock });
  const sinks = [sink, view];
  const ids = sequentialIds();
  return {
    terminal,
    clock,
    sink,
    orchestrator: new Orchestrator({ clock, ids, ...options, sinks }),
  };
}

/** Two researchers, each of which wants to mail its findings. */
function newLead(): AgentRole {
  const mail = defineTool({
    name: "mail",
    description: "Sends a mail.",
    inputSchema: z.object({ to: z.string(), text: z.string() }),
    needsApproval: ({ to }) => `A mail to ${to} leaves the house.`,
    execute: () => "Sent.",
  });
  const researcher = defineAgent({
    name: "researcher",
    description: "Researches.",
    instructions: "Research.",
    model: new ScriptedModel(({ messages }) =>
      messages.some(({ role }) => role === "tool")
        ? says("Told.")
        : asks("mail", { to: "ann@example.org", text: "\u001b[31mred\u001b[0m" }),
    ),
    tools: [mail],
  });
  return defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: new ScriptedModel([
      { calls: [spawn("Read the docs."), spawn("Read the code.")] },
      says("All is told."),
    ]),
    subagents: [researcher],
  });
}

function spawn(task: string): ScriptedCall {
  return { toolName: "SpawnSubagent", arguments: { role: "researcher", task } };
}

/** Approves the first question and denies the others. */
function answersTo(questions: readonly Question[]): readonly Answer[] {
  return questions.map((one, index) =>
    index === 0 ? approve(one) : deny(one, "Not \u001b[2Jnow."),
  );
}

async function resume(
  { orchestrator }: Theatre,
  role: AgentRole,
  { pausedRun, questions }: RunResult,
): Promise<RunResult> {
  if (pausedRun === undefined) throw new Error("Expected a paused run.");
  return await orchestrator.resume(pausedRun, { answers: answersTo(questions), role }).result;
}

function summary(agent: ShownAgent | undefined): readonly string[] {
  if (agent === undefined) return [];
  const { activity, agentPath, step, own, subtree } = agent;
  const state = activity === "delegating" || activity === "asking" ? "calling" : activity;
  const spent = `own ${own.totalTokens} tree ${subtree.totalTokens}`;
  return [`${agentPath} ${state} step ${step} ${spent}`, ...agent.children.flatMap(summary)];
}

function frame(terminal: FakeTerminal): string {
  return shown(terminal.screen);
}

function shown(text: string): string {
  return `\n${text}\n`;
}
