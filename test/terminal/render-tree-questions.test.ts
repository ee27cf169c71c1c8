// Goal: open questions are shown first, however little room there is.
// Method: whole pictures of hand-made views.

import { expect, test } from "vitest";

import type { ShownAgent } from "../../src/terminal/fold-tree.ts";
import type { ShownRun } from "../../src/terminal/render-tree.ts";
import {
  agent,
  ENDED,
  PAUSED,
  picture,
  question,
  run,
  THINKING,
  type Activity,
} from "../support/terminal/hand-made-views.ts";
import { proves } from "../harness/proves.ts";

test("lists open questions at the top, in as many lines as fit", () => {
  const asks: Activity = {
    kind: "calling",
    calls: [{ callId: null, toolName: "mail", kind: "question" }],
  };
  const root = agent("lead", THINKING, [agent("a#1", asks), agent("a#2", PAUSED)]);
  const long = { text: "\u001b[2J\u202eevil ".repeat(100) };
  const asked = [
    question("lead/a#1", { deadlineAtMs: 300_000 }),
    question("lead/a#2", { toolName: "delete_everything", arguments: long }),
    question("lead/a#3", { reason: "One\ntwo." }),
  ];
  const view = { ...run(root), questions: asked };

  expect(picture(view, { width: 130, nowMs: 61_000 })).toMatchInlineSnapshot(`
    "
    input required (3)  tool                     waits  arguments                                 reason
    ? lead/a#1          mail               3m 59s left  {"to":"ann","text":"Hello."}              Mails leave the house.
    ? lead/a#2          delete_everything       1m 01s  {"text":"\\u001b[2Jevil \\u001b[2Jevil \\u…  Mails leave the house.
    ? lead/a#3          mail                    1m 01s  {"to":"ann","text":"Hello."}              One two.
    agent             state              step  own tok  tree tok  own cost  tree cost    time  task
    lead              ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  1m 01s  Task of lead
    ├─ a#1            ? asks: mail          2     1.2k      1.2k   $0.0123    $0.0123  1m 01s  Task of a#1
    └─ a#2            ‖ input_required      2     1.2k      1.2k   $0.0123    $0.0123  1m 01s  Task of a#2 · Somebody has to answer.
    ⠋ 1m 01s  3 agents, 2 running, 1 paused
    left  steps █░░░░░ 3 of 20
    "
  `);
  expect(picture(view, { width: 60, height: 11 })).toMatchInlineSnapshot(`
    "
    input required (3)  tool               arguments
    ? lead/a#1          mail               {"to":"ann","text":"…
    ? lead/a#2          delete_everything  {"text":"\\u001b[2Jev…
    ? lead/a#3          mail               {"to":"ann","text":"…
    agent           state              step  tree tok  tree cost
    lead            ⠋ thinking            2      1.2k    $0.0123
    ├─ a#1          ? asks: mail          2      1.2k    $0.0123
    └─ a#2          ‖ input_required      2      1.2k    $0.0123
    ⠋ 0ms  3 agents, 2 running, 1 paused
    left  steps █░░░░░ 3 of 20
    "
  `);
  expect(picture(view, { width: 30, height: 6 })).toMatchInlineSnapshot(`
    "
    input required (3)  tool
    agent           state
    lead            ⠋ thinking
    ⠋ 0ms
    3 agents, 2 running, 1 paused
    left  steps █░░░░░ 3 of 20
    "
  `);
});

proves(["D770"], "shows each state of a paused tree in full at usual widths", () => {
  const resting = run(agent("lead", PAUSED, [agent("researcher#1", PAUSED)]));
  for (const width of [80, 100, 120]) {
    const states = picture(resting, { width }).match(/‖.*?(?=  )/g);
    expect(states, String(width)).toEqual(Array.from({ length: 2 }, () => "‖ input_required"));
  }
});

proves(["D772"], "marks the agents at work as lost if the process of the run is gone", () => {
  const children = [agent("a#1", THINKING), agent("a#2", ENDED), agent("a#3", PAUSED)];
  const lost = run(agent("lead", THINKING, children));
  expect(picture(lost, { width: 80, isLost: true })).toMatchInlineSnapshot(`
    "
    agent   state             step  own tok  tree tok  tree cost  task
    lead    ◌ lost: thinking     2     1.2k      1.2k    $0.0123  Task of lead
    ├─ a#1  ◌ lost: thinking     2     1.2k      1.2k    $0.0123  Task of a#1
    ├─ a#2  ✔ completed          2     1.2k      1.2k    $0.0123  Task of a#2
    └─ a#3  ‖ input_required     2     1.2k      1.2k    $0.0123  Task of a#3 · Som…
    ◌ 0ms  4 agents, 2 lost, 1 paused
    left  steps █░░░░░ 3 of 20
    "
  `);
});

test("folds paused agents after ended ones and before running ones", () => {
  const children = [paused("a#1"), paused("a#2"), agent("a#3", ENDED), agent("b#1", PAUSED)];
  const resting = run(agent("lead", PAUSED, children));
  expect(picture(resting, { height: 9 })).toMatchInlineSnapshot(`
    "
    agent       state             step  own tok  tree tok  own cost  tree cost    time  task
    lead        ‖ input_required     2     1.2k      1.2k   $0.0123    $0.0123    2.0s  Task of lead ·…
    ├─ a ×2 +4  ‖ paused                             2.4k              $0.0246
    ├─ a#3      ✔ completed          2     1.2k      1.2k   $0.0123    $0.0123  1m 01s  Task of a#3
    └─ b#1      ‖ input_required     2     1.2k      1.2k   $0.0123    $0.0123    2.0s  Task of b#1 · S…
    ⠋ 0ms  9 agents, 0 running, 6 paused
    left  steps █░░░░░ 3 of 20
    "
  `);
  expect(picture(resting, { height: 6 })).toMatchInlineSnapshot(`
    "
    agent        state             step  own tok  tree tok  own cost  tree cost  time  task
    lead         ‖ input_required     2     1.2k      1.2k   $0.0123    $0.0123  2.0s  Task of lead · S…
    ├─ a#1       ‖ input_required     2     1.2k      1.2k   $0.0123    $0.0123  2.0s  Task of a#1 · So…
    └─ … 7 more  4 paused
    ⠋ 0ms  9 agents, 0 running, 6 paused
    left  steps █░░░░░ 3 of 20
    "
  `);

  const running = run(agent("lead", THINKING, [...children, agent("a#4", THINKING)]));
  expect(picture(running, { height: 6 })).toMatchInlineSnapshot(`
    "
    agent             state              step  own tok  tree tok  own cost  tree cost  task
    lead              ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of lead
    └─ a#4            ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of a#4
    └─ … 8 more       5 paused
    ⠋ 0ms  10 agents, 2 running, 5 paused
    left  steps █░░░░░ 3 of 20
    "
  `);
});

test("pauses the time of a run that only waits for an answer", () => {
  const view: ShownRun = {
    ...run(agent("lead", THINKING)),
    budget: { timeMs: 60_000 },
  };
  const time = { startedAtMs: 0, durationMs: 30_000, idleMs: 10_000, isIdle: false };
  const left = (more: Partial<ShownRun>): string =>
    picture({ ...view, ...more }, { nowMs: 50_000 }).match(/[0-9.s]+ of 1m/)?.[0] ?? "";

  expect(left({ time })).toBe("20.0s of 1m");
  expect(left({ time: { ...time, isIdle: true } })).toBe("40.0s of 1m");
  const parked = { ...time, durationMs: 20_000, isIdle: true };
  expect(left({ time: parked, end: { status: "paused", atMs: 0 } })).toBe("50.0s of 1m");
});

function paused(name: string): ShownAgent {
  return agent(name, PAUSED, [agent("reader#1", ENDED), agent("reader#2", PAUSED)]);
}
