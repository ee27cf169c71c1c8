// Goal: the four suites that guard the promises of a run (golden trace, state transition,
// continuation, serialisation) exist, run wherever the tests run, and fail when their subject is
// broken.
// Method: each suite's check is a function of its subject: it passes for the real one, and throws
// for each planted break.

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, test } from "vitest";

import { toSnapshot, restoreState } from "../src/agent/agent-snapshot.ts";
import { decideStepOutcome } from "../src/agent/step-outcome.ts";
import type { EspalierEvent } from "../src/protocol/event.ts";
import { proves } from "./harness/proves.ts";
import { checkContinuation } from "./support/golden-continuation.ts";
import { checkGolden } from "./support/golden-files.ts";
import { checkSerialisation, checkTransitions, type Serialiser } from "./support/golden-laws.ts";
import { goldenLines } from "./support/golden-lines.ts";
import { GOLDEN_SCRIPTS } from "./support/golden-scripts.ts";
import { transition } from "./support/changes.ts";

const folder = mkdtempSync(join(tmpdir(), "golden-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function trace(): Promise<readonly EspalierEvent[]> {
  const { fixture } = (await GOLDEN_SCRIPTS["pause"]?.()) ?? expect.fail("no script");
  return fixture.sink.events;
}

type Breakage = (events: readonly EspalierEvent[]) => readonly EspalierEvent[];

function replaced(change: (event: EspalierEvent) => EspalierEvent): Breakage {
  return (events) => events.map(change);
}

const BROKEN_TRACES: Readonly<Record<string, Breakage>> = {
  "an event is missing": (events) => events.filter((_event, index) => index !== 5),
  "an event comes twice": (events) =>
    events.flatMap((event, at) => (at === 5 ? [event, event] : [event])),
  "two events are swapped": (events) => [
    ...events.slice(0, 5),
    ...events.slice(5, 7).toReversed(),
    ...events.slice(7),
  ],
  "a status is another": replaced((event) =>
    event.type === "agent.ended" ? { ...event, status: "stopped" } : event,
  ),
  "a usage is another": replaced((event) =>
    event.type === "step.completed"
      ? { ...event, usage: { ...event.usage, totalTokens: event.usage.totalTokens + 1 } }
      : event,
  ),
  "an agent is another": replaced((event) => ({ ...event, agentPath: "nobody" })),
};

describe("golden trace", () => {
  proves(["R185"], "passes for an unchanged run and fails for every break", async () => {
    const events = await trace();
    checkGolden("pause", goldenLines(events));
    for (const [what, broken] of Object.entries(BROKEN_TRACES))
      expect(() => checkGolden("pause", goldenLines(broken(events))), what).toThrow(/golden/);
  });

  proves(
    ["R179", "R185"],
    "fails for a missing or different golden file without writing it",
    () => {
      for (const environment of [{}, { CI: "true" }, { CI: "1", UPDATE_GOLDEN: "1" }]) {
        const file = join(folder, "trace.txt");
        const place = { folder, environment };
        expect(() => checkGolden("trace", "one\n", place)).toThrow(/golden file .*got none/);
        expect(existsSync(file)).toBe(false);
        writeFileSync(file, "two\n");
        expect(() => checkGolden("trace", "one\n", place)).toThrow(/UPDATE_GOLDEN/);
        expect(readFileSync(file, "utf8")).toBe("two\n");
        rmSync(file);
      }
    },
  );

  test("writes a golden file on request, and passes afterwards", () => {
    const place = { folder, environment: { UPDATE_GOLDEN: "1" } };
    checkGolden("written", "one\n", place);
    expect(readFileSync(join(folder, "written.txt"), "utf8")).toBe("one\n");
    checkGolden("written", "one\n", { folder, environment: {} });
  });
});

type Move = Parameters<typeof checkTransitions>[0];

const BROKEN_MOVES: Readonly<Record<string, Move>> = {
  "what has ended moves on": (state, change) =>
    change.type === "end" && state.status !== "running" ? state : transition(state, change),
  "a paused execution runs again without a word": (state, change) =>
    state.status === "paused" && change.type === "openStep" ? state : transition(state, change),
  "results come in the order of their end": (state, change) => {
    const next = transition(state, change);
    if (change.type !== "applyToolResults") return next;
    const { messages } = next.conversation;
    const results = messages.filter(({ role }) => role === "tool").toReversed();
    const others = messages.filter(({ role }) => role !== "tool");
    return Object.freeze({
      ...next,
      conversation: Object.freeze({
        ...next.conversation,
        messages: Object.freeze([...others, ...results]),
      }),
    });
  },
  "a new signal takes the place of the old": (state, change) => {
    const next = transition(state, change);
    if (change.type !== "addSignal") return next;
    return { ...next, log: { ...next.log, signals: [change.signal, change.signal] } };
  },
  "a pause forgets the step": (state, change) => {
    const next = transition(state, change);
    return next.status === "paused" ? { ...next, step: undefined } : next;
  },
  "an end forgets the steps": (state, change) => {
    const next = transition(state, change);
    return change.type === "end" ? { ...next, log: { ...next.log, steps: [] } } : next;
  },
  "states are not frozen": (state, change) => structuredClone(transition(state, change)),
  "nothing is refused": (state, change) => {
    try {
      return transition(state, change);
    } catch {
      return state;
    }
  },
};

describe("state transition", () => {
  proves(["R185"], "passes for the real transitions", () => checkTransitions(transition));

  for (const [what, broken] of Object.entries(BROKEN_MOVES))
    proves(["R185"], `fails when ${what}`, () => expect(() => checkTransitions(broken)).toThrow());
});

type Judge = typeof decideStepOutcome;

const BROKEN_JUDGES: Readonly<Record<string, Judge>> = {
  "signals are not handled": (log, facts) => decideStepOutcome({ ...log, signals: [] }, facts),
  "calls are not handled": (log, facts) => {
    const steps = log.steps.map((step) => ({ ...step, tools: { calls: [], executions: [] } }));
    return decideStepOutcome({ ...log, steps }, facts);
  },
  "useless replies are forgiven for ever": (log, facts) =>
    decideStepOutcome({ ...log, uselessReplies: Math.min(1, log.uselessReplies) }, facts),
  "an overflow counts as an answer": (log, facts) =>
    decideStepOutcome({ ...log, overflows: 0 }, facts),
  "messages are not handled": (log, facts) =>
    decideStepOutcome(log, { ...facts, hasMessages: false }),
  "subtasks are not handled": (log, facts) => decideStepOutcome({ ...log, subtasks: [] }, facts),
  "a typed result is not asked for": (log, facts) =>
    decideStepOutcome(log, { ...facts, hasOutput: false }),
  "a typed result is not taken": (log, facts) =>
    decideStepOutcome({ ...log, output: undefined }, facts),
  "nothing ever ends": (log, facts) => {
    const outcome = decideStepOutcome(log, facts);
    return outcome.type === "stop" ? { type: "continue", work: ["messages"] } : outcome;
  },
  "a failure is an end": (log, facts) => {
    const outcome = decideStepOutcome(log, facts);
    return outcome.type === "fail" ? { type: "stop", signal: undefined } : outcome;
  },
};

describe("continuation", () => {
  proves(["R185"], "passes for the real decisions", () => checkContinuation(decideStepOutcome));

  for (const [what, broken] of Object.entries(BROKEN_JUDGES))
    proves(["R185"], `fails when ${what}`, () => expect(() => checkContinuation(broken)).toThrow());
});

/** A serialiser that loses or alters something when it restores a state. */
function losing(
  alter: (state: ReturnType<Serialiser["stateOf"]>) => ReturnType<Serialiser["stateOf"]>,
): Serialiser {
  return { snapshotOf: toSnapshot, stateOf: (snapshot) => alter(restoreState(snapshot)) };
}

const BROKEN_SERIALISERS: Readonly<Record<string, Serialiser>> = {
  "subtasks are lost": losing((state) => ({ ...state, log: { ...state.log, subtasks: [] } })),
  "signals are lost": losing((state) => ({ ...state, log: { ...state.log, signals: [] } })),
  "the typed result is lost": losing((state) => ({
    ...state,
    log: { ...state.log, output: undefined },
  })),
  "the bounds of retries begin anew": losing((state) => ({
    ...state,
    log: { ...state.log, uselessReplies: 0, overflows: 0, vetoes: 0 },
  })),
  "the open step is lost": losing((state) =>
    state.status === "paused" ? { ...state, step: undefined } : state,
  ),
  "open questions are lost": losing((state) =>
    state.status === "paused" && state.step !== undefined
      ? { ...state, step: { ...state.step, deferrals: [] } }
      : state,
  ),
  "the reason is another": losing((state) => ({
    ...state,
    reason: { ...state.reason, code: "completed" },
  })),
  "the state is not frozen": losing((state) => structuredClone(state)),
  "the snapshot is no JSON": {
    snapshotOf: (state) =>
      Object.assign(structuredClone(toSnapshot(state)), { extra: undefined, at: 1n }),
    stateOf: restoreState,
  },
};

describe("serialisation", () => {
  proves(["R185"], "passes for the real snapshots", () =>
    checkSerialisation({ snapshotOf: toSnapshot, stateOf: restoreState }),
  );

  for (const [what, broken] of Object.entries(BROKEN_SERIALISERS))
    proves(["R185"], `fails when ${what}`, () =>
      expect(() => checkSerialisation(broken)).toThrow(),
    );
});

proves(["R185"], "run in the gate and before every release", () => {
  expect(readFileSync(".ci/run", "utf8")).toMatch(/^npm run check$/m);
  const scripts: unknown = JSON.parse(readFileSync("package.json", "utf8"));
  const check: unknown = expect.stringMatching(/&& npm test &&/);
  expect(scripts).toMatchObject({ scripts: { test: "vitest run", check } });
  expect(readFileSync("vitest.config.ts", "utf8")).toContain('include: ["test/**/*.test.ts"]');
  const suites = [
    "behaviour/events/golden-traces",
    "agent/transition",
    "behaviour/loop/step-outcomes",
    "agent/agent-snapshot",
  ];
  for (const suite of suites)
    expect(readFileSync(`test/${suite}.test.ts`, "utf8")).not.toMatch(/\b(skip|todo|only)\(/);
});
