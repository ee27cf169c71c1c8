// Goal: a terminal shows a tree that is updated in place, other streams get plain lines, and the
// terminal is restored afterwards.
// Method: runs on a fake terminal with a manual clock; a separate process for signals.

import { spawn } from "node:child_process";
import { once } from "node:events";

import { expect, test } from "vitest";

import {
  terminalView,
  type TerminalView,
  type TerminalViewOptions,
} from "../../src/terminal/terminal.ts";
import { defineAgent, type AgentRole, type EspalierEvent } from "../../src/index.ts";
import { ManualClock, ScriptedModel, says } from "../../src/testing/index.ts";
import { proves } from "../harness/proves.ts";
import {
  latch,
  newFixture,
  flushEventLoop,
  type Latch,
  type Fixture,
} from "../harness/run-scripted.ts";
import { FakeTerminal, type FakeTerminalOptions } from "../support/terminal/fake-terminal.ts";
import { TASK, newTreeFixture } from "../support/terminal/tree-fixture.ts";

test("draws a live tree in place and leaves its last frame", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const { terminal, fixture } = theatre();
  const run = fixture.start(lead, TASK, { budget: { steps: 20 } });
  await isWaiting;
  expect(terminal.writes).toEqual([]);

  fixture.clock.advance(100);
  expect(frame(terminal)).toMatchInlineSnapshot(`
    "
    agent             state              step  own tok  tree tok  own cost  tree cost  task
    lead              ⠙ waiting for 2       1       15        30   $0.0300    $0.0330  1 spawn refused…
    ├─ researcher#1   ⠙ thinking            1        0         0         –          –  Read the docs.
    └─ researcher#2   ⠙ thinking            2       15        15   $0.0030    $0.0030  Read the code.
    ⠙ 100ms  3 agents, 3 running  1 spawn refused
    left  steps █████░ 18 of 20
    "
  `);
  expect(terminal.isCursorShown).toBe(false);

  fixture.clock.advance(1_000);
  docs.open();
  code.open();
  await fixture.outcome(run);
  expect(frame(terminal)).toMatchInlineSnapshot(`
    "
    agent            state        step  own tok  tree tok  own cost  tree cost  time  task
    lead             ✔ completed     2       30        75   $0.0600    $0.0690  1.1s  1 spawn refused…
    ├─ researcher#1  ✔ completed     1       15        15   $0.0030    $0.0030  1.1s  Read the docs.
    └─ researcher#2  ✔ completed     2       30        30   $0.0060    $0.0060  1.1s  Read the code.
    ✔ completed in 1.1s  3 agents  1 spawn refused
    left  steps █████░ 15 of 20
    "
  `);
  expect(terminal.isCursorShown).toBe(true);
});

proves(["S7.5"], "shows times that are independent of changes of the wall clock", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const { terminal, fixture } = theatre();
  const run = fixture.start(lead, TASK, { budget: { steps: 20 } });
  await isWaiting;
  fixture.clock.setWallClock(3_600_000);
  fixture.clock.advance(1_000);
  expect(terminal.screen).toContain(" 1.0s  3 agents, 3 running");
  docs.open();
  code.open();
  await fixture.outcome(run);
  expect(terminal.screen).toContain("completed in 1.0s");
});

test("draws ten frames per second at most", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const { terminal, fixture } = theatre();
  const run = fixture.start(lead, TASK);
  await isWaiting;
  fixture.clock.advance(99);
  expect(terminal.writes).toHaveLength(0);
  fixture.clock.advance(901);
  expect(terminal.writes).toHaveLength(10);
  docs.open();
  code.open();
  await fixture.outcome(run);
});

test("erases the last frame if requested", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const { terminal, fixture } = theatre({}, { lastFrame: "erase" });
  terminal.write("before\n");
  const run = fixture.start(lead, TASK);
  await isWaiting;
  fixture.clock.advance(100);
  expect(terminal.screen).toContain("researcher#2");
  docs.open();
  code.open();
  await fixture.outcome(run);
  expect(terminal.screen).toBe("before");
});

test("folds a tree that is taller than the terminal", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const { terminal, fixture } = theatre({ rows: 5 });
  const run = fixture.start(lead, TASK);
  docs.open();
  await isWaiting;
  // The refused spawn, and the researcher that has answered.
  const ofLead = ({ agentPath }: EspalierEvent): boolean => agentPath === "lead";
  while (!fixture.sink.ofType("tool.rejected").some(ofLead)) await flushEventLoop();
  while (!fixture.sink.ofType("tool.ended").some(ofLead)) await flushEventLoop();
  fixture.clock.advance(100);
  expect(frame(terminal)).toMatchInlineSnapshot(`
    "
    agent             state              step  own tok  tree tok  own cost  tree cost  task
    lead              ⠙ waiting for 1       1       15        45   $0.0300    $0.0360  1 spawn refused…
    └─ … 2 more       1 running
    ⠙ 100ms  3 agents, 2 running  1 spawn refused
    "
  `);
  code.open();
  await fixture.outcome(run);
});

proves(
  ["D221"],
  "draws in place as on 80 by 24 if the terminal does not know its size",
  async () => {
    const screens: string[] = [];
    for (const size of [
      { columns: 0, rows: 0 },
      { columns: 80, rows: 24 },
    ]) {
      const { lead, isWaiting, docs, code } = newTreeFixture();
      const { terminal, fixture } = theatre(size);
      const run = fixture.start(lead, TASK);
      await isWaiting;
      fixture.clock.advance(200);
      screens.push(frame(terminal));
      docs.open();
      code.open();
      await fixture.outcome(run);
    }
    const [unknown, usual] = screens;
    expect(unknown).toContain("researcher#2");
    expect(unknown).toBe(usual);
  },
);

test("shares the screen between two runs and leaves the last frame of each", async () => {
  const { terminal, fixture } = theatre({ rows: 9 });
  const [first, second] = [latch(), latch()];
  const runs = [fixture.start(waiter("first", first)), fixture.start(waiter("second", second))];
  while (fixture.sink.ofType("model.requested").length < 2) await flushEventLoop();
  fixture.clock.advance(100);
  expect(frame(terminal)).toMatchInlineSnapshot(`
    "
    agent             state              step  own tok  tree tok  own cost  tree cost    time  task
    first             ⠙ thinking            1        0         0         –          –   100ms  Do it.
    ⠙ 100ms  1 agent, 1 running
    agent             state              step  own tok  tree tok  own cost  tree cost    time  task
    second            ⠙ thinking            1        0         0         –          –   100ms  Do it.
    ⠙ 100ms  1 agent, 1 running
    "
  `);
  second.open();
  await runs[1]?.result;
  fixture.clock.advance(100);
  expect(frame(terminal)).toMatchInlineSnapshot(`
    "
    agent   state        step  own tok  tree tok  own cost  tree cost   time  task
    second  ✔ completed     1       15        15   unknown    unknown  100ms  Do it.
    ✔ completed in 100ms  1 agent
    agent             state              step  own tok  tree tok  own cost  tree cost    time  task
    first             ⠹ thinking            1        0         0         –          –   200ms  Do it.
    ⠹ 200ms  1 agent, 1 running
    "
  `);
  first.open();
  await runs[0]?.result;
  expect(frame(terminal)).toMatchInlineSnapshot(`
    "
    agent   state        step  own tok  tree tok  own cost  tree cost   time  task
    second  ✔ completed     1       15        15   unknown    unknown  100ms  Do it.
    ✔ completed in 100ms  1 agent
    agent  state        step  own tok  tree tok  own cost  tree cost   time  task
    first  ✔ completed     1       15        15   unknown    unknown  200ms  Do it.
    ✔ completed in 200ms  1 agent
    "
  `);
});

test("leaves no timer, no listener and no hidden cursor after a run", async () => {
  const before = listeners();
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const { terminal, fixture, clock } = theatre();
  const run = fixture.start(lead, TASK);
  await isWaiting;
  fixture.clock.advance(100);
  expect(terminal.listeners).toBe(1);
  expect(listeners()).toEqual(before.map((count) => count + 1));
  docs.open();
  code.open();
  await fixture.outcome(run);
  expect([clock.pendingTimers, terminal.listeners, terminal.isCursorShown]).toEqual([0, 0, true]);
  expect(listeners()).toEqual(before);
});

test("restores the terminal when the view is stopped, and lets the run continue", async () => {
  const before = listeners();
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const { terminal, fixture, view } = theatre();
  const run = fixture.start(lead, TASK);
  await isWaiting;
  fixture.clock.advance(100);
  view.stop();
  view.stop();
  const seen = terminal.writes.length;
  expect([terminal.isCursorShown, terminal.listeners, listeners()]).toEqual([true, 0, before]);
  docs.open();
  code.open();
  const { status } = await fixture.outcome(run);
  expect([status, terminal.writes.length]).toEqual(["completed", seen]);
});

test.each([true, false])(
  "silences the view when its reader disconnects; terminal: %s",
  async (isTTY) => {
    const { lead, isWaiting, docs, code } = newTreeFixture();
    const { terminal, fixture } = theatre({ isTTY });
    const run = fixture.start(lead, TASK);
    await isWaiting;
    terminal.break();
    const seen = terminal.writes.length;
    fixture.clock.advance(1_000);
    docs.open();
    code.open();
    const { status } = await fixture.outcome(run);
    expect([status, terminal.writes.length, terminal.listeners]).toEqual(["completed", seen, 0]);
  },
);

test.each([
  { name: "a pipe", terminal: { isTTY: false }, env: {}, isLive: false },
  { name: "a terminal", terminal: {}, env: {}, isLive: true },
  { name: "NO_COLOR", terminal: {}, env: { NO_COLOR: "1" }, isLive: false },
  { name: "an empty NO_COLOR", terminal: {}, env: { NO_COLOR: "" }, isLive: true },
  { name: "CI", terminal: {}, env: { CI: "true" }, isLive: false },
  { name: "a dumb terminal", terminal: {}, env: { TERM: "dumb" }, isLive: false },
])("chooses between tree and lines by $name", ({ terminal, env, isLive }) => {
  expect(terminalView({ stream: new FakeTerminal(terminal), env }).isLive).toBe(isLive);
});

test("prints each event once as a plain line without escape sequences", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const { terminal, fixture } = theatre({ isTTY: false });
  const run = fixture.start(lead, TASK);
  await isWaiting;
  fixture.clock.advance(1_234);
  docs.open();
  while (fixture.sink.ofType("subagent.ended").length === 0) await flushEventLoop();
  code.open();
  await fixture.outcome(run);

  expect(terminal.writes.join("")).not.toContain("\u001b");
  expect(`\n${terminal.screen}\n`).toMatchInlineSnapshot(`
    "
        0ms  lead started: Survey the repository.
        0ms  lead spawn of poet refused (unknown_role): Not started: there is no subagent "poet". You can start: researcher. Call again with one of these.
        0ms  lead/researcher#1 started: Read the docs.
        0ms  lead/researcher#2 started: Read the code.
        0ms  lead/researcher#2 compile failed (tool_error): no compiler
        0ms  lead/researcher#2 step 1: 15 tokens, $0.0030, 1 tool call
       1.2s  lead/researcher#1 step 1: 15 tokens, $0.0030
       1.2s  lead/researcher#1 completed: 1 step, 15 tokens, $0.0030, 1.2s
       1.2s  lead/researcher#2 step 2: 15 tokens, $0.0030
       1.2s  lead/researcher#2 completed: 2 steps, 30 tokens, $0.0060, 1.2s
       1.2s  lead step 1: 15 tokens, $0.0300, 3 tool calls
       1.2s  lead step 2: 15 tokens, $0.0300
       1.2s  lead completed: 2 steps, 30 tokens, $0.0600, subtree 75 tokens, $0.0690, 1.2s
    "
  `);
});

test("prints retries and limit stops with the reason as plain lines", async () => {
  const { ModelError } = await import("../../src/index.ts");
  const overloaded = new ModelError({ code: "model_overloaded", message: "Too many requests." });
  const model = new ScriptedModel(
    [{ error: overloaded }, { calls: [{ toolName: "nothing", arguments: {} }] }],
    { allowUnknownTools: true },
  );
  const { terminal, fixture, clock } = theatre({ isTTY: false });
  const run = fixture.start(defineAgent({ name: "lead", instructions: "Lead.", model }), "Work.", {
    budget: { steps: 1 },
  });
  while (fixture.sink.ofType("model.retried").length === 0) await flushEventLoop();
  clock.advance(500);
  await fixture.outcome(run);

  expect(`\n${terminal.screen}\n`).toMatchInlineSnapshot(`
    "
        0ms  lead started: Work.
        0ms  lead attempt 1 failed (model_overloaded), next attempt in 500ms: Too many requests.
      500ms  lead has spent 80 % of its steps budget
      500ms  lead has spent 95 % of its steps budget
      500ms  lead nothing failed (unknown_tool): There is no tool named "nothing". You have no tools; answer in text.
      500ms  lead step 1: 15 tokens, cost unknown
      500ms  lead stopped (step_limit: The steps budget of lead allows 1; 1 is spent and 1 more was requested.): 1 step, 15 tokens, cost unknown, 500ms
    "
  `);
});

test.each(["SIGTERM", "SIGINT"] as const)(
  "ends the program on %s and shows the cursor",
  async (signal) => {
    const program = `
    import { defineAgent, Orchestrator } from "espalier";
    import { terminalView } from "espalier/terminal";
    const { write } = process.stdout;
    const stream = { isTTY: true, on() {}, off() {}, write: write.bind(process.stdout) };
    const generate = () => new Promise(() => setInterval(() => {}, 60_000));
    const model = { provider: "test", id: "slow", generate };
    const lead = defineAgent({ name: "lead", instructions: "Wait.", model });
    new Orchestrator({ sinks: [terminalView({ stream, env: {} })] }).start(lead, "Wait.");
  `;
    const args = ["--conditions=@espalier/source", "--input-type=module", "-e", program];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    let output = "";
    for await (const chunk of child.stdout.setEncoding("utf8")) {
      output += String(chunk);
      if (!child.killed && output.includes("thinking")) child.kill(signal);
    }
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");

    expect(child.signalCode).toBe(signal);
    expect(output.lastIndexOf("\u001b[?25h")).toBeGreaterThan(output.lastIndexOf("\u001b[?25l"));
  },
);

interface Theatre {
  readonly terminal: FakeTerminal;
  readonly fixture: Fixture;
  readonly view: TerminalView;
  readonly clock: ManualClock;
}

function theatre(screen: FakeTerminalOptions = {}, options: TerminalViewOptions = {}): Theatre {
  const terminal = new FakeTerminal(screen);
  const clock = new ManualClock();
  const view = terminalView({ stream: terminal, env: {}, clock, ...options });
  const fixture = newFixture({ clock, sinks: [view] });
  return { terminal, fixture: { ...fixture, clock }, view, clock };
}

/** A role that answers when its latch is opened. */
function waiter(name: string, { opened: after }: Latch): AgentRole {
  const model = new ScriptedModel([says("Done.", { after })]);
  return defineAgent({ name, instructions: "Wait.", model });
}

function frame(terminal: FakeTerminal): string {
  return `\n${terminal.screen}\n`;
}

function listeners(): readonly number[] {
  return ["exit", "SIGINT", "SIGTERM", "SIGHUP"].map((name) => process.listenerCount(name));
}
