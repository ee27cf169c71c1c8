// Goal: the caller can stop between any two phases, a state changes only through its changes, hooks
// see only their own trigger, and an agent hands out no live objects.
// Method: one script stopped after each of its reports; each change on each state; walks over all
// values handed out, compared by identity with every state.

import { expect } from "vitest";

import type { AgentState } from "../../../src/agent/agent-state.ts";
import type { HookContext, TransformPoint } from "../../../src/hooks/hook-points.ts";
import { observe, transform, type Hook } from "../../../src/hooks/hook.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { AgentIdSchema } from "../../../src/protocol/ids.ts";
import { approve } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import type { ToolContext } from "../../../src/tools/tool-context.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { after, changes, opening, states, transition, type Change } from "../../support/changes.ts";
import { POINTS } from "../../support/hook-sites.ts";
import { approveAll } from "../../support/pause-stories.ts";
import { calls, part, spawn, use } from "../../harness/scripted-agents.ts";
import { agentStateOf } from "../../support/agent-state-of.ts";

const REPORTS =
  "prepare infer evaluate execute applyToolResults decide prepare infer evaluate execute applyToolResults decide prepare infer evaluate decide ended";

const STOPPED = "stopped stop_requested";
const ran = (name: string): string => `${name} succeeded: ${name} done`;
const left = (name: string): string =>
  `${name} not_executed: Not executed: the agent stopped before this call (stop_requested).`;
const FIRST = { left: [left("work"), left("pay")], ran: [ran("work"), ran("pay")] };

/**
 * The report after which the stop is requested, then the end, its text, requests, tool runs, and
 * all results.
 */
const STOPS = [
  ["prepare", STOPPED, "", 0, 0, []],
  ["infer", STOPPED, "", 1, 0, FIRST.left],
  ["evaluate", STOPPED, "", 1, 0, FIRST.left],
  ["execute", STOPPED, "", 1, 2, FIRST.ran],
  ["applyToolResults", STOPPED, "", 1, 2, FIRST.ran],
  ["decide", STOPPED, "", 1, 2, FIRST.ran],
  ["prepare", STOPPED, "", 1, 2, FIRST.ran],
  ["infer", STOPPED, "", 2, 2, [...FIRST.ran, left("work")]],
  ["evaluate", STOPPED, "", 2, 2, [...FIRST.ran, left("work")]],
  ["execute", STOPPED, "", 2, 3, [...FIRST.ran, ran("work")]],
  ["applyToolResults", STOPPED, "", 2, 3, [...FIRST.ran, ran("work")]],
  ["decide", STOPPED, "", 2, 3, [...FIRST.ran, ran("work")]],
  ["prepare", STOPPED, "", 2, 3, [...FIRST.ran, ran("work")]],
  ["infer", STOPPED, "done", 3, 3, [...FIRST.ran, ran("work")]],
  ["evaluate", STOPPED, "done", 3, 3, [...FIRST.ran, ran("work")]],
  // The agent has its answer, but has not ended, so the stop request outranks the answer.
  ["decide", STOPPED, "done", 3, 3, [...FIRST.ran, ran("work")]],
  ["ended", "completed completed", "done", 3, 3, [...FIRST.ran, ran("work")]],
] as const;

function answers({ steps }: RunResult): readonly string[] {
  return steps.flatMap(({ tools }) =>
    tools.executions.map(({ call, type, text }) => `${call.toolName} ${type}: ${text}`),
  );
}

proves(["R3"], "the table of stops lists every report of an unstopped run", async () => {
  const run = newFixture().start(
    soloist([calls(use("work"), use("pay")), asks("work", {}), says("done")], {
      tools: [spyTool("work"), spyTool("pay")],
    }).role,
  );
  const phases: string[] = [];
  for await (const { phase } of run.iterate()) phases.push(phase);
  expect(phases.join(" ")).toBe(REPORTS);
  expect(STOPS.map(([phase]) => phase).join(" ")).toBe(REPORTS);
});

for (const [index, [phase, end, text, requests, runs, results]] of STOPS.entries()) {
  proves(["R3"], `a stop after report ${index + 1}, ${phase}, takes effect there`, async () => {
    const tools = [spyTool("work"), spyTool("pay")];
    const { role, model } = soloist(
      [calls(use("work"), use("pay")), asks("work", {}), says("done")],
      { tools },
    );
    const fixture = newFixture();
    const run = fixture.start(role);
    const phases: string[] = [];
    let last: AgentState | undefined;
    for await (const report of run.iterate()) {
      if (phases.push(report.phase) === index + 1) run.requestStop("Enough.");
      last = agentStateOf(report.state);
    }
    const result = await fixture.outcome(run);
    expect([`${result.status} ${result.reason.code}`, result.text]).toEqual([end, text]);
    expect([model.requests.length, tools.flatMap((tool) => tool.calls).length]).toEqual([
      requests,
      runs,
    ]);
    expect(answers(result)).toEqual(results);
    // The stop is followed by the completion of the step and the end of the loop.
    const still = phases
      .slice(index + 1)
      .filter((one) => one !== "decide" && one !== "applyToolResults");
    expect(still).toEqual(phase === "ended" ? [] : ["ended"]);
    const told = last?.conversation.messages.filter(({ role: by }) => by === "tool") ?? [];
    expect(told.map((message) => message.text)).toEqual(
      result.steps.flatMap(({ tools: used }) => used.executions.map((one) => one.text)),
    );
  });
}

/** Returns states in which each change has an effect on every field that it can change. */
function many(): readonly AgentState[] {
  const all = changes();
  const { openStep, discardReply, recordOverflow, recordStep, addTime } = all;
  const { addUsage, recordVeto, recordWait, recordSubtasks, recordOutput } = all;
  const { recordExecutions, awaitSubagents, addSignal, failWith } = all;
  const { running, applied, replied, ...rest } = states();
  const subtasks = [{ role: "helper", task: "Look." }];
  const startedAgentIds = [REPORTED];
  const planned = recordExecutions.executions.map((one) => ({ ...one, subtasks, startedAgentIds }));
  const failed = recordExecutions.executions.map((one) => ({ ...one, ...FAILED }));
  const answered = after(replied, { ...recordExecutions, executions: failed });
  const fruitless = after(running, openStep, discardReply, recordStep);
  const next = { ...openStep, number: 2 };
  const spoken = after(running, recordVeto, recordWait, recordSubtasks, recordOutput);
  const full = after(spoken, addSignal, failWith, addTime, awaitSubagents);
  const worked = after(full, openStep, addUsage, recordOverflow, recordStep);
  const ended = (state: AgentState): AgentState => after(state, all.end);
  return [
    ...Object.values(rest),
    running,
    applied,
    replied,
    after(fruitless, next),
    after(fruitless, next, recordOverflow, recordStep, { ...openStep, number: 3 }),
    after(applied, addUsage),
    ended(after(worked, next, discardReply, recordStep)),
    ended(worked),
    full,
    ended(full),
    after(replied, { ...recordExecutions, executions: planned }),
    after(replied, { ...recordExecutions, executions: planned }, all.applyToolResults),
    answered,
    ended(after(answered, all.applyToolResults, recordStep)),
  ];
}

const REPORTED = AgentIdSchema().parse("agent_4");
const FAILED = { type: "failed", errorCode: "tool_error", severity: "recoverable" } as const;

/**
 * Returns for each field of a part the changes that alter it in some state. Other parts keep their
 * identity.
 */
function changedBy(
  part: "conversation" | "log" | "telemetry",
): Readonly<Record<string, readonly string[]>> {
  const found = new Map<string, Set<string>>();
  const { addMessages, ...others } = changes();
  const reporting = { ...addMessages, reportedAgentIds: [REPORTED] };
  const list: readonly Change[] = [...Object.values(others), addMessages, reporting];
  for (const state of many()) {
    for (const change of list) {
      const next = moved(state, change);
      if (next === undefined || next[part] === state[part]) continue;
      for (const field of differences(state[part], next[part]))
        found.set(field, (found.get(field) ?? new Set()).add(change.type));
    }
  }
  return Object.fromEntries(
    [...found].map(([field, types]) => [field, [...types].toSorted()] as const),
  );
}

/** Returns the fields with different values. */
function differences(before: object, next: object): readonly string[] {
  const old = new Map(Object.entries(before));
  return Object.entries(next)
    .filter(([field, value]) => JSON.stringify([value]) !== JSON.stringify([old.get(field)]))
    .map(([field]) => field);
}

function moved(state: AgentState, change: Change): AgentState | undefined {
  try {
    return transition(state, change);
  } catch (cause) {
    expect(cause).toMatchObject({ code: "illegal_transition" });
    return undefined;
  }
}

proves(["R41"], "only changes that add or remove messages alter the conversation", () => {
  const said = [
    "addMessages",
    "applyToolResults",
    "brief",
    "nextExecution",
    "recordReply",
    "recordSections",
    "recordVeto",
  ];
  expect(changedBy("conversation")).toEqual({
    messages: [...said, "compact"].toSorted(),
    prefix: ["compact", "recordReply"],
    tags: [...said.filter((type) => type !== "nextExecution"), "compact", "markStarted"].toSorted(),
    added: [
      ...said.filter((type) => type !== "nextExecution"),
      "compact",
      "markStarted",
    ].toSorted(),
    dropped: ["compact"],
  });
  const { running } = states();
  const { addMessages } = changes();
  const grown = transition(running, addMessages);
  expect(grown.conversation.messages).toEqual([...opening(), ...addMessages.messages]);
  expect([grown.log === running.log, grown.telemetry === running.telemetry]).toEqual([true, true]);
});

proves(
  ["R41"],
  "each field of the log is altered only by its own changes, and reset by the next execution",
  () => {
    expect(changedBy("log")).toEqual({
      steps: ["nextExecution", "recordStep"],
      compactions: ["compact"],
      signals: ["addSignal", "failWith", "nextExecution"],
      errors: ["failWith", "nextExecution"],
      output: ["nextExecution", "recordOutput"],
      outputParse: ["recordOutput"],
      isTaskHandled: ["brief", "nextExecution"],
      uselessReplies: ["awaitSubagents", "discardReply", "nextExecution", "recordReply"],
      overflows: ["discardReply", "nextExecution", "recordOverflow", "recordReply"],
      failures: ["applyToolResults", "nextExecution"],
      vetoes: ["nextExecution", "recordVeto"],
      waits: ["recordWait"],
      subtasks: ["applyToolResults", "dropSubagents", "recordSubtasks"],
      background: ["addMessages", "applyToolResults", "dropSubagents"],
      isAwaiting: ["awaitSubagents", "nextExecution", "openStep"],
      sections: ["recordSections"],
      fired: ["recordFired"],
    });
  },
);

proves(
  ["R41"],
  "telemetry is altered only by the clock and by completed steps, and reset by the next execution",
  () => {
    expect(changedBy("telemetry")).toEqual({
      usage: ["nextExecution", "recordStep"],
      startedAtMs: ["markStarted", "nextExecution"],
      pausedBeforeMs: ["markStarted"],
      endedAtMs: ["end", "nextExecution"],
      budgetWaitMs: ["addTime", "nextExecution"],
    });
  },
);

/**
 * A lead with hooks at every point, whose first reply calls a tool, a tool with an approval and a
 * child.
 */
function watched(hooks: readonly Hook[], child: readonly Hook[]) {
  const seen: ToolContext[] = [];
  const tools = [
    spyTool("work", (context) => void seen.push(context)),
    spyTool("pay", (context) => void seen.push(context), { needsApproval: true }),
  ];
  const helper = part("helper", [says("Helped.")], { hooks: child });
  const lead = part("lead", [calls(use("work"), use("pay"), spawn("helper")), says("Done.")], {
    tools,
    subagents: [helper.role],
    hooks,
    compaction: { maxInputTokens: 5 },
  });
  return { lead, seen };
}

/**
 * Returns path and kind of each part that is not plain JSON. A state, a part of a state and a cycle
 * are never plain.
 */
function alive(value: unknown, states: ReadonlySet<object>): readonly string[] {
  const walk = (part: unknown, path: string, above: readonly object[]): readonly string[] => {
    if (part === undefined || part === null || typeof part === "string") return [];
    if (typeof part === "boolean" || Number.isFinite(part)) return [];
    if (part instanceof AbortSignal) return [`${path}: signal`];
    if (typeof part !== "object") return [`${path}: ${typeof part}`];
    if (states.has(part)) return [`${path}: state`];
    if (above.includes(part)) return [`${path}: cycle`];
    const plain: unknown = Object.getPrototypeOf(part);
    if (plain !== Object.prototype && plain !== Array.prototype) return [`${path}: class`];
    return Object.entries(part).flatMap(([key, below]) =>
      walk(below, path === "" ? key : `${path}.${key}`, [...above, part]),
    );
  };
  return walk(value, "", []);
}

async function statesOf(run: Run): Promise<readonly object[]> {
  const found: object[] = [];
  for await (const { state } of run.iterate()) {
    const { conversation, log, telemetry } = state;
    const step = "step" in state && state.step !== undefined ? [state.step] : [];
    found.push(state, conversation, log, telemetry, ...step);
  }
  return found;
}

proves(
  ["R46"],
  "values of a paused and resumed run contain JSON and services only, and no state or cycle",
  async () => {
    const contexts: (readonly [point: string, context: object])[] = [];
    const inputs: object[] = [];
    const at = (point: TransformPoint): Hook =>
      transform(point, (input: object, context: object) => {
        contexts.push([point, context]);
        inputs.push(input);
      });
    const ofChild = [at("subagentStop")];
    const { lead, seen } = watched(POINTS.map(at), ofChild);
    const fixture = newFixture();
    const first = fixture.start(lead.role, "Do it.", { metadata: { tenant: { name: "a" } } });
    const before = await statesOf(first);
    const paused = await fixture.outcome(first);
    expect([paused.status, paused.questions.length]).toEqual(["paused", 1]);
    const second = fixture.resume(lead.role, paused.pausedRun, approveAll(paused));
    const states = new Set([...before, ...(await statesOf(second))]);
    const result = await fixture.outcome(second);
    expect([result.status, states.size > 20]).toEqual(["completed", true]);
    expect(new Set(contexts.map(([point]) => point))).toEqual(new Set(POINTS));

    const plain = [paused, result, ...fixture.sink.events, ...inputs];
    expect(plain.flatMap((value) => alive(value, states))).toEqual([]);
    expect(JSON.parse(JSON.stringify(paused.pausedRun))).toEqual(paused.pausedRun);
    for (const [point, context] of contexts)
      expect([point, alive(context, states).toSorted()]).toEqual([
        point,
        ["requestStop: function", "signal: signal"],
      ]);
    expect(seen).toHaveLength(2);
    for (const context of seen)
      expect(alive(context, states).toSorted()).toEqual([
        "ask: function",
        "queueSubtask: function",
        "reportProgress: function",
        "signal: signal",
      ]);
    expect(alive({ deep: [before[0]] }, states)).toEqual(["deep.0: state"]);
  },
);

/** The fields of a hook's input at each point. */
const SHOWN: Readonly<Record<TransformPoint, string>> = {
  userInput: "metadata role task",
  beforeModel: "instructions messages steps",
  beforeTool: "arguments callId toolName",
  afterTool: "arguments callId outcome text toolName",
  beforeCompaction: "inputTokens maxInputTokens messages",
  subagentStart: "childDepth role task",
  stop: "isActive output steps text vetoes",
  subagentStop: "isActive output steps text vetoes",
};
/**
 * The number of times that such a tree passes a point, if not once. The child has no compaction.
 */
const TIMES: Readonly<Record<string, number>> = {
  beforeModel: 3,
  beforeTool: 3,
  afterTool: 3,
  beforeCompaction: 2,
};

const shown = (input: object): string => Object.keys(input).toSorted().join(" ");

proves(
  ["R84"],
  "a handler sees only its own trigger in a run, with zero, one or two parameters",
  async () => {
    const none: string[] = [];
    const one: (readonly [point: string, shown: string])[] = [];
    const two: (readonly [point: string, shown: string, hook: string, depth: number])[] = [];
    const hooks = POINTS.flatMap((point) => [
      transform(point, () => void none.push(point)),
      transform(point, (input: object) => void one.push([point, shown(input)])),
      transform(point, (input: object, { hookName, depth }: HookContext) => {
        two.push([point, shown(input), hookName, depth]);
      }),
    ]);
    const fixture = newFixture({ hooks, approver: (question) => approve(question) });
    const result = await fixture.run(watched([], []).lead.role);
    expect(result.agents.map(({ status }) => status)).toEqual(["completed", "completed"]);
    for (const point of POINTS) {
      const times = TIMES[point] ?? 1;
      expect([point, none.filter((name) => name === point).length]).toEqual([point, times]);
      expect(one.filter(([name]) => name === point)).toEqual(
        Array.from({ length: times }, () => [point, SHOWN[point]]),
      );
      const full = two.filter(([name]) => name === point);
      expect(full.map((seen) => seen.slice(0, 3))).toEqual(
        Array.from({ length: times }, () => [point, SHOWN[point], `${point}#3`]),
      );
      if (point !== "beforeModel")
        expect(full.every(([, , , depth]) => depth === (point === "subagentStop" ? 1 : 0))).toBe(
          true,
        );
    }
  },
);

proves(["R84"], "an observer of one event type sees only that type in a run", async () => {
  const seen: (readonly [wanted: string, type: string, hook: string | undefined])[] = [];
  const types = [
    "agent.started",
    "step.completed",
    "tool.ended",
    "agent.ended",
    "run.ended",
  ] as const;
  const hooks = types.flatMap((wanted) => [
    observe(wanted, ({ type }) => void seen.push([wanted, type, undefined])),
    observe([wanted], ({ type }, { hookName }) => void seen.push([wanted, type, hookName])),
  ]);
  const fixture = newFixture({ hooks, approver: (question) => approve(question) });
  await fixture.run(watched([], []).lead.role);
  for (const [index, wanted] of types.entries()) {
    const times = fixture.sink.ofType(wanted).length;
    expect(times).toBeGreaterThan(0);
    expect(seen.filter(([type]) => type === wanted)).toEqual(
      Array.from({ length: times }, () => [
        [wanted, wanted, undefined],
        [wanted, wanted, `observe#${2 * index + 2}`],
      ]).flat(),
    );
  }
});
