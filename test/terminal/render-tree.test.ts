// Goal: a run is readable at a glance at any width, height and moment, and no line is wider than
// the terminal.
// Method: whole pictures of hand-made and real views; random trees for the bounds.

import { stripVTControlCharacters } from "node:util";

import * as fc from "fast-check";
import { expect, test } from "vitest";

import type { ShownAgent } from "../../src/terminal/fold-tree.ts";
import { renderRun, type ShownRun } from "../../src/terminal/render-tree.ts";
import { measureDisplayWidth } from "../../src/terminal/terminal-text.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import {
  agent,
  ENDED,
  ended,
  PAUSED,
  picture,
  question,
  run,
  STOPPED,
  THINKING,
  type Activity,
} from "../support/terminal/hand-made-views.ts";
import { foldOf } from "../support/read-model/fold-of.ts";
import { TASK, newTreeFixture } from "../support/terminal/tree-fixture.ts";

test("shows state, step, own and subtree usage and the remaining budget of a running tree", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const fixture = newFixture();
  const budget = { totalTokens: 100_000, costUsd: 100, steps: 20, timeMs: 60_000 };
  const run = fixture.start(lead, TASK, { budget });
  await isWaiting;
  fixture.clock.advance(2_500);

  expect(picture(foldOf(fixture.sink.events), { nowMs: 2_500, width: 130 })).toMatchInlineSnapshot(`
    "
    agent             state              step  own tok  tree tok  own cost  tree cost    time  task
    lead              ⠴ waiting for 2       1       15        30   $0.0300    $0.0330    2.5s  1 spawn refused · Survey the repositor…
    ├─ researcher#1   ⠴ thinking            1        0         0         –          –    2.5s  Read the docs.
    └─ researcher#2   ⠴ thinking            2       15        15   $0.0030    $0.0030    2.5s  Read the code.
    ⠴ 2.5s  3 agents, 3 running  1 spawn refused
    left  tokens ██████ 99,970 of 100,000  cost ██████ $99.97 of $100.00  steps █████░ 18 of 20  time ██████ 57.5s of 1m 00s
    "
  `);

  docs.open();
  code.open();
  await fixture.outcome(run);
  expect(picture(foldOf(fixture.sink.events), { nowMs: 9_000, width: 130 })).toMatchInlineSnapshot(`
    "
    agent            state        step  own tok  tree tok  own cost  tree cost  time  task
    lead             ✔ completed     2       30        75   $0.0600    $0.0690  2.5s  1 spawn refused · Survey the repository.
    ├─ researcher#1  ✔ completed     1       15        15   $0.0030    $0.0030  2.5s  Read the docs.
    └─ researcher#2  ✔ completed     2       30        30   $0.0060    $0.0060  2.5s  Read the code.
    ✔ completed in 2.5s  3 agents  1 spawn refused
    left  tokens ██████ 99,925 of 100,000  cost ██████ $99.93 of $100.00  steps █████░ 15 of 20  time ██████ 57.5s of 1m 00s
    "
  `);
});

test("drops columns on a narrow terminal, the least important first", async () => {
  const { lead, isWaiting, docs, code } = newTreeFixture();
  const fixture = newFixture();
  const run = fixture.start(lead, TASK, { budget: { steps: 20, totalTokens: 100_000 } });
  await isWaiting;
  const view = foldOf(fixture.sink.events);

  expect(picture(view, { width: 79 })).toMatchInlineSnapshot(`
    "
    agent             state              step  own tok  tree tok  tree cost
    lead              ⠋ waiting for 2       1       15        30    $0.0330
    ├─ researcher#1   ⠋ thinking            1        0         0          –
    └─ researcher#2   ⠋ thinking            2       15        15    $0.0030
    ⠋ 0ms  3 agents, 3 running  1 spawn refused
    left  tokens ██████ 99,970 of 100,000  steps █████░ 18 of 20
    "
  `);
  expect(picture(view, { width: 44 })).toMatchInlineSnapshot(`
    "
    agent            state              tree tok
    lead             ⠋ waiting for 2          30
    ├─ researcher#1  ⠋ thinking                0
    └─ researcher#2  ⠋ thinking               15
    ⠋ 0ms  3 agents, 3 running  1 spawn refused
    left  tokens ██████ 99,970 of 100,000
    steps █████░ 18 of 20
    "
  `);
  docs.open();
  code.open();
  await fixture.outcome(run);
});

test("folds finished agents and then groups them if the tree is taller than the terminal", () => {
  const view = run(
    agent("lead", THINKING, [
      done("researcher#1", done("reader#1"), done("reader#2")),
      agent("researcher#2", THINKING, [done("reader#1"), agent("reader#2", THINKING)]),
      done("researcher#3", done("reader#1")),
      agent("critic#1", STOPPED),
    ]),
  );

  expect(picture(view, { height: 20 })).toMatchInlineSnapshot(`
    "
    agent             state              step  own tok  tree tok  own cost  tree cost  task
    lead              ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of lead
    ├─ researcher#1   ✔ completed           2     1.2k      1.2k   $0.0123    $0.0123  Task of research…
    │  ├─ reader#1    ✔ completed           2     1.2k      1.2k   $0.0123    $0.0123  Task of reader#1
    │  └─ reader#2    ✔ completed           2     1.2k      1.2k   $0.0123    $0.0123  Task of reader#2
    ├─ researcher#2   ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of research…
    │  ├─ reader#1    ✔ completed           2     1.2k      1.2k   $0.0123    $0.0123  Task of reader#1
    │  └─ reader#2    ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of reader#2
    ├─ researcher#3   ✔ completed           2     1.2k      1.2k   $0.0123    $0.0123  Task of research…
    │  └─ reader#1    ✔ completed           2     1.2k      1.2k   $0.0123    $0.0123  Task of reader#1
    └─ critic#1       ■ step_limit          2     1.2k      1.2k   $0.0123    $0.0123  Task of critic#1…
    ⠋ 0ms  10 agents, 3 running
    left  steps █░░░░░ 3 of 20
    "
  `);
  expect(picture(view, { height: 9 })).toMatchInlineSnapshot(`
    "
    agent              state              step  own tok  tree tok  own cost  tree cost  task
    lead               ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of lead
    ├─ researcher ×2…  ✔ completed                           2.4k              $0.0246
    ├─ researcher#2    ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of researc…
    │  ├─ reader#1     ✔ completed           2     1.2k      1.2k   $0.0123    $0.0123  Task of reader#1
    │  └─ reader#2     ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of reader#2
    └─ critic#1        ■ step_limit          2     1.2k      1.2k   $0.0123    $0.0123  Task of critic#…
    ⠋ 0ms  10 agents, 3 running
    left  steps █░░░░░ 3 of 20
    "
  `);
  expect(picture(view, { height: 8 })).toMatchInlineSnapshot(`
    "
    agent             state              step  own tok  tree tok  own cost  tree cost  task
    lead              ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of lead
    └─ researcher#2   ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of research…
       └─ reader#2    ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of reader#2
    └─ … 7 more
    ⠋ 0ms  10 agents, 3 running
    left  steps █░░░░░ 3 of 20
    "
  `);
  expect(picture(view, { height: 6 })).toMatchInlineSnapshot(`
    "
    agent             state              step  own tok  tree tok  own cost  tree cost  task
    lead              ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of lead
    └─ researcher#2   ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123  Task of research…
    └─ … 8 more       1 running
    ⠋ 0ms  10 agents, 3 running
    left  steps █░░░░░ 3 of 20
    "
  `);
});

proves(["S7.33"], "shows unknown costs as unknown in every row", () => {
  const unknown = (one: ShownAgent): ShownAgent => {
    const spent = { totalTokens: 1_200, costUsd: 0, unpricedCalls: 1 };
    return { ...one, own: spent, subtree: spent, children: one.children.map(unknown) };
  };
  const children = [
    ...Array.from({ length: 9 }, (_, index) => agent(`lead/reader#${index + 1}`, ENDED)),
    agent("lead/reader#10", THINKING),
  ];
  const root = unknown(agent("lead", THINKING, children));
  const shown = { ...run(root), budget: { costUsd: 1 } };
  const view: ShownRun = { ...shown, remaining: { costUsd: 1 } };
  for (const height of [30, 9, 6, 4]) {
    const drawn = picture(view, { height });
    expect(drawn).not.toMatch(/\$0(?![.\d])/);
    expect(drawn).toContain("cost ██████ ≤$1.00 of $1.00");
  }
  expect(picture(view, { height: 9 })).toMatch(/reader ×9 +✔ completed +11k +unknown/);
});

test("shows every activity and every ending with its own words and sign", () => {
  const calls = [
    { callId: null, toolName: "read", kind: "tool" },
    { callId: null, toolName: "read", kind: "tool" },
    { callId: null, toolName: "mail", kind: "question" },
    { callId: null, toolName: "SpawnSubagent", kind: "delegation" },
  ] as const;
  const view = run(
    agent("lead", { kind: "calling", calls }, [
      agent("a#1", { kind: "preparing" }),
      agent("a#2", { kind: "queued" }),
      agent("a#3", { kind: "retrying", attempt: 2, code: "model_overloaded" }),
      agent("a#4", ended("failed", "The model broke.")),
      agent("a#5", ended("cancelled", "Told to end.")),
      agent("a#6", STOPPED),
      agent("a#7", PAUSED),
      agent("a#8", { kind: "calling", calls: calls.filter(({ kind }) => kind === "question") }),
    ]),
  );

  expect(picture(view, { width: 130 })).toMatchInlineSnapshot(`
    "
    agent             state                                 step  own tok  tree tok  own cost  tree cost    time  task
    lead              ⠋ waiting for 1, asks: mail, read ×2     2     1.2k      1.2k   $0.0123    $0.0123     0ms  Task of lead
    ├─ a#1            ⠋ preparing                              2     1.2k      1.2k   $0.0123    $0.0123     0ms  Task of a#1
    ├─ a#2            ⠋ queued                                 2     1.2k      1.2k   $0.0123    $0.0123     0ms  Task of a#2
    ├─ a#3            ⠋ attempt 2                              2     1.2k      1.2k   $0.0123    $0.0123     0ms  Task of a#3
    ├─ a#4            ✖ failed                                 2     1.2k      1.2k   $0.0123    $0.0123  1m 01s  Task of a#4 · The m…
    ├─ a#5            ⊘ cancelled                              2     1.2k      1.2k   $0.0123    $0.0123  1m 01s  Task of a#5 · Told…
    ├─ a#6            ■ step_limit                             2     1.2k      1.2k   $0.0123    $0.0123    1.0s  Task of a#6 · All 3…
    ├─ a#7            ‖ input_required                         2     1.2k      1.2k   $0.0123    $0.0123    2.0s  Task of a#7 · Someb…
    └─ a#8            ? asks: mail                             2     1.2k      1.2k   $0.0123    $0.0123     0ms  Task of a#8
    ⠋ 0ms  9 agents, 5 running, 1 paused
    left  steps █░░░░░ 3 of 20
    "
  `);
});

test("prints the whole state of each agent on a terminal with 80 columns", () => {
  const states: readonly (readonly [Activity, string])[] = [
    [{ kind: "awaiting_budget" }, "⠋ awaiting budget"],
    [{ kind: "retrying", attempt: 2, code: "model_rate_limited" }, "⠋ attempt 2"],
    [ended("stopped", "No more.", "tool_call_limit"), "■ tool_call_limit"],
    [ended("paused", "Paused.", "pause_requested"), "‖ pause_requested"],
  ];
  const name = "researcher-of-the-whole-market";
  const children = states.map(([activity], index) => agent(`${name}#${index}`, activity));
  const drawn = picture(run(agent("lead", THINKING, children)), { width: 79 });
  for (const [, words] of states) expect(drawn).toContain(`${words}  `);
});

test("prevents model text from controlling the terminal, and aligns wide characters", () => {
  const view = run(
    agent("lead", THINKING, [
      { ...agent("a#1", THINKING), task: "\u001b[2J\u001b]0;title\u0007Read\u202E the\tdocs" },
      { ...agent("a#2", THINKING), task: "文書を読む 👩‍👩‍👧 e\u0301" },
      { ...agent("a#3", ended("failed", "line one\nline\u009b31m two")), task: "" },
    ]),
  );

  expect(picture(view, { width: 130 })).toMatchInlineSnapshot(`
    "
    agent             state              step  own tok  tree tok  own cost  tree cost    time  task
    lead              ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123     0ms  Task of lead
    ├─ a#1            ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123     0ms  Read the docs
    ├─ a#2            ⠋ thinking            2     1.2k      1.2k   $0.0123    $0.0123     0ms  文書を読む 👩‍👩‍👧 é
    └─ a#3            ✖ failed              2     1.2k      1.2k   $0.0123    $0.0123  1m 01s  line one line two
    ⠋ 0ms  4 agents, 3 running
    left  steps █░░░░░ 3 of 20
    "
  `);
});

test("changes no character of a line by colouring it", () => {
  const view = run(agent("lead", THINKING, [agent("a#1", STOPPED), agent("a#2", ENDED)]));
  const options = { width: 90, height: 20, nowMs: 0 };
  const coloured = renderRun(view, { ...options, hasColor: true });

  expect(coloured.join("")).toContain("\u001b[");
  expect(coloured.map(stripVTControlCharacters)).toEqual(
    renderRun(view, { ...options, hasColor: false }),
  );
});

test("never exceeds the width and height of the terminal for any tree", () => {
  const options = fc.record({
    width: fc.integer({ min: 1, max: 130 }),
    height: fc.integer({ min: 1, max: 30 }),
    nowMs: fc.nat(1_000_000),
    hasColor: fc.boolean(),
  });
  fc.assert(
    fc.property(treesOfDepth(4), questions, options, (root, asked, size) => {
      const lines = renderRun({ ...run(root), questions: asked }, size);
      expect(lines.length).toBeLessThanOrEqual(size.height);
      for (const line of lines) expect(measureDisplayWidth(line)).toBeLessThanOrEqual(size.width);
    }),
  );
});

const names = fc.oneof(
  fc.stringMatching(/^[A-Za-z][A-Za-z0-9_-]{0,20}#[1-9]$/),
  fc.string({ unit: "grapheme", minLength: 1, maxLength: 30 }),
);
const activities = fc.constantFrom<Activity>(THINKING, ENDED, STOPPED, PAUSED, { kind: "queued" });
const questions = fc.array(
  fc
    .record({ path: names, toolName: names, reason: names, text: names })
    .map(({ path, text, ...texts }) => question(path, { ...texts, arguments: { text } })),
  { maxLength: 6 },
);
const treesOfDepth: fc.Memo<ShownAgent> = fc.memo((depth) =>
  fc
    .tuple(
      names,
      activities,
      depth <= 1 ? fc.constant([]) : fc.array(treesOfDepth(), { maxLength: 5 }),
    )
    .map(([name, activity, children]) => agent(name, activity, children)),
);

function done(name: string, ...below: readonly ShownAgent[]): ShownAgent {
  return agent(name, ENDED, below);
}
