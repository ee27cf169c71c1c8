// Goal: streamed model text and the tree of its run share a terminal.
// Method: text in chunks before, during and after runs, on a fake terminal.

import { expect, test } from "vitest";

import { terminalView, type TerminalView } from "../../src/terminal/terminal.ts";
import { defineAgent, Orchestrator, type AgentRole, type StreamPart } from "../../src/index.ts";
import { ManualClock, says, ScriptedModel, sequentialIds } from "../../src/testing/index.ts";
import { proves } from "../harness/proves.ts";
import { latch, flushEventLoop } from "../harness/run-scripted.ts";
import { FakeTerminal, type FakeTerminalOptions } from "../support/terminal/fake-terminal.ts";

proves(
  ["V25"],
  "prints text above the tree, its last row included, and leaves it after the run",
  async () => {
    const { terminal, clock, view, orchestrator } = theatre({ columns: 60 });
    const { opened, open } = latch();
    const run = orchestrator.start(waiter(opened), "Wait.");
    await flushEventLoop();
    view.print("The code is ");
    view.print("long.\nIts ");
    clock.advance(100);
    expect(frame(terminal)).toMatchInlineSnapshot(`
      "
      The code is long.
      Its
      agent             state              tree tok  tree cost
      lead              ⠙ thinking                0          –
      ⠙ 100ms  1 agent, 1 running
      "
    `);
    view.print("tests are longer than a row of a terminal that is so narrow");
    clock.advance(100);
    expect(frame(terminal)).toMatchInlineSnapshot(`
      "
      The code is long.
      Its tests are longer than a row of a terminal that is so
      narrow
      agent             state              tree tok  tree cost
      lead              ⠹ thinking                0          –
      ⠹ 200ms  1 agent, 1 running
      "
    `);
    open();
    await run.result;
    expect(frame(terminal)).toMatchInlineSnapshot(`
      "
      The code is long.
      Its tests are longer than a row of a terminal that is so
      narrow
      agent  state        step  own tok  tree tok  tree cost
      lead   ✔ completed     1       15        15    unknown
      ✔ completed in 200ms  1 agent
      "
    `);
    expect([terminal.isCursorShown, terminal.listeners, clock.pendingTimers]).toEqual([true, 0, 0]);
  },
);

proves(["V25"], "prevents text from controlling the terminal, wherever it is split", async () => {
  const text = "a\u001b[2Jb\u001b]0;title\u0007c\u202ed\r\ne\tf\u0000g";
  for (let cut = 0; cut <= text.length; cut += 1) {
    const { terminal, clock, view, orchestrator } = theatre();
    const { opened, open } = latch();
    const run = orchestrator.start(waiter(opened), "Wait.");
    await flushEventLoop();
    view.print(text.slice(0, cut));
    clock.advance(100);
    view.print(text.slice(cut));
    open();
    await run.result;
    // The fake terminal throws on any sequence that the live view does not use.
    expect(terminal.screen).toMatch(/^a.*b.*c.*d\n/);
    expect(terminal.screen).not.toContain("\u202e");
  }
});

test("prints text at once without a run, and nothing after the view was stopped", () => {
  for (const isTTY of [true, false]) {
    const { terminal, view } = theatre({ isTTY });
    view.print("Hello.");
    view.print("Two\nlines.\n");
    expect(terminal.screen).toBe("Hello.\nTwo\nlines.");
    view.stop();
    view.print("Nothing.");
    expect(terminal.screen).toBe("Hello.\nTwo\nlines.");
    expect(terminal.listeners).toBe(0);
  }
});

test("prints text between plain lines in whole rows", async () => {
  const { terminal, view, orchestrator } = theatre({ isTTY: false });
  const { opened, open } = latch();
  const run = orchestrator.start(waiter(opened), "Wait.");
  await flushEventLoop();
  view.print("The code is ");
  view.print("long.\nIts end");
  expect(frame(terminal)).toMatchInlineSnapshot(`
    "
        0ms  lead started: Wait.
    The code is long.
    "
  `);
  open();
  await run.result;
  expect(frame(terminal)).toMatchInlineSnapshot(`
    "
        0ms  lead started: Wait.
    The code is long.
        0ms  lead step 1: 15 tokens, cost unknown
        0ms  lead completed: 1 step, 15 tokens, cost unknown, 0ms
    Its end
    "
  `);
});

proves(["V25"], "prints the texts of all runs of an orchestrator above their trees", async () => {
  const terminal = new FakeTerminal();
  const view = terminalView({ stream: terminal, env: {}, clock: new ManualClock() });
  const onStreamPart = (piece: StreamPart): void => {
    if (piece.type === "text") view.print(`${piece.text}\n`);
  };
  const orchestrator = new Orchestrator({
    sinks: [view],
    onStreamPart,
    ids: sequentialIds(),
  });
  const role = (text: string) =>
    defineAgent({ name: "lead", instructions: "Lead.", model: new ScriptedModel([says(text)]) });
  await Promise.all(
    ["One.", "Two."].map((text) => orchestrator.start(role(text), "Speak.").result),
  );
  expect(terminal.screen.split("\n").filter((line) => /^(?:One|Two)\.$/.test(line))).toEqual([
    "One.",
    "Two.",
  ]);
});

interface Theatre {
  readonly terminal: FakeTerminal;
  readonly clock: ManualClock;
  readonly view: TerminalView;
  readonly orchestrator: Orchestrator;
}

function theatre(screen: FakeTerminalOptions = {}): Theatre {
  const terminal = new FakeTerminal(screen);
  const clock = new ManualClock();
  const view = terminalView({ stream: terminal, env: {}, clock });
  const orchestrator = new Orchestrator({ clock, ids: sequentialIds(), sinks: [view] });
  return { terminal, clock, view, orchestrator };
}

function waiter(after: Promise<void>): AgentRole {
  const model = new ScriptedModel([says("Done.", { after })]);
  return defineAgent({ name: "lead", instructions: "Wait.", model });
}

function frame(terminal: FakeTerminal): string {
  return `\n${terminal.screen}\n`;
}

proves(["V52"], "writes nothing while suspended, and catches up once resumed", async () => {
  for (const isTTY of [true, false]) {
    const { terminal, clock, view, orchestrator } = theatre({ columns: 60, isTTY });
    const { opened, open } = latch();
    const run = orchestrator.start(waiter(opened), "Wait.");
    await flushEventLoop();
    clock.advance(100);
    const resume = view.suspend();
    const again = view.suspend();
    const before = terminal.writes.length;
    view.print("Said meanwhile.\n");
    clock.advance(300);
    open();
    await run.result;
    view.print("Said after the run.\n");
    again();
    again();
    expect([isTTY, terminal.writes.length - before]).toEqual([isTTY, 0]);
    resume();
    const shown = terminal.writes.slice(before).join("");
    expect(shown.indexOf("Said meanwhile.")).toBeGreaterThan(-1);
    expect(shown.indexOf("completed")).toBeGreaterThan(shown.indexOf("Said meanwhile."));
    expect(shown.indexOf("Said after the run.")).toBeGreaterThan(shown.indexOf("completed"));
    expect([terminal.isCursorShown, clock.pendingTimers]).toEqual([true, 0]);
  }
});
