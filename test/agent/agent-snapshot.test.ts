// Goal: an inactive state survives JSON: the same state is restored, frozen, and its snapshot has
// no transient parts.
// Method: random states, reached by changes alone, are converted both ways; the keys are compared
// as one exact list.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";

import { AgentSnapshotSchema, toSnapshot, restoreState } from "../../src/agent/agent-snapshot.ts";
import {
  getPausedChildren,
  getPendingCalls,
  findAskedQuestions,
  type AgentState,
  type Deferral,
  type SettledState,
} from "../../src/agent/agent-state.ts";
import { omitUndefined, type JsonObject, parseJson } from "../../src/kernel/json.ts";
import type { Attachment } from "../../src/protocol/attachment.ts";
import { AgentIdSchema, createStepId } from "../../src/protocol/ids.ts";
import { createUserMessage } from "../../src/protocol/message.ts";
import type { SpawnRequest } from "../../src/protocol/subagent.ts";
import type { StopSignal } from "../../src/protocol/stop.ts";
import { NO_TIMING } from "../../src/protocol/step-timing.ts";
import { proves } from "../harness/proves.ts";
import {
  after,
  AGENT_ID,
  changes,
  EXECUTION_ID,
  executionOf,
  questionAbout,
  replyOf,
  settledState,
  states,
  subagentOn,
  unparsedQuestion,
  toolCall,
  twoCalls,
  transition,
  type Change,
} from "../support/changes.ts";
import { unfrozenParts } from "../support/frozen.ts";
import { keysIn, keysOfSchema, listed } from "../support/json-keys.ts";
import { callUsage } from "../support/ledger-fixture.ts";
import { ENDED_KEYS, SHARED_KEYS, STEP_KEYS, words } from "../support/snapshot-keys.ts";
import { COMPACTION, CONTENT, partsOf } from "../support/step-context.ts";

const FIXED = { seed: 20_261_121, numRuns: 300 };

const [FIRST, SECOND] = twoCalls();

/** Returns the persistent part of a state: without undefined keys and transient parts. */
function lasting(state: SettledState): object {
  const { log, telemetry, step } = state;
  const lasts = { ...state, log: omitUndefined(log), telemetry: omitUndefined(telemetry) };
  return omitUndefined({ ...lasts, step: step && omitUndefined({ ...step, error: undefined }) });
}

function thereAndBack(state: SettledState): SettledState {
  return restoreState(AgentSnapshotSchema().parse(JSON.parse(JSON.stringify(toSnapshot(state)))));
}

/** Options for numbers and objects that JSON can represent. */
const FINITE = { noNaN: true, noDefaultInfinity: true, min: 0 };
const PLAIN = { noNullPrototype: true };
const text = fc.string({ unit: "grapheme", maxLength: 8 });
const facts: fc.Arbitrary<JsonObject> = fc.record({ note: text, share: fc.double(FINITE) }, PLAIN);
const error = fc.record({ code: text, message: text, data: facts }, PLAIN);
const reason = fc.record({ code: fc.string({ minLength: 1 }), message: text, data: facts }, PLAIN);
const signal: fc.Arbitrary<StopSignal> = fc
  .record(
    {
      source: fc.constantFrom("caller", "hook"),
      reason,
      name: fc.option(text),
      isOvershoot: fc.boolean(),
    },
    PLAIN,
  )
  .map(({ name, isOvershoot, ...rest }) => ({
    ...rest,
    ...(name === null ? {} : { name }),
    ...(isOvershoot ? { isOvershoot } : {}),
  }));

/** Replies of a model; the order of the changes decides which calls they contain. */
const replies = fc.record({ said: text, refusal: fc.option(text), hasCalls: fc.boolean() });

/** Failures of a call; each is counted in a different way. */
const FAILURES = [
  { type: "failed", errorCode: "tool_error", severity: "recoverable" },
  { type: "retry", errorCode: "invalid_arguments", severity: "retryable" },
  { type: "refused", errorCode: "blocked", severity: "fatal", blockedBy: "no-writing" },
] as const;

/** One attachment of each kind; together they have every key. */
const ATTACHMENTS: readonly Attachment[] = [
  { type: "image", mediaType: "image/png", name: "chart.png", data: "aGVsbG8=" },
  { type: "audio", mediaType: "audio/mpeg", uri: "https://example.com/sound.mp3" },
  { type: "file", mediaType: "text/plain", name: "notes.txt", text: "Notes." },
];

const someIds = fc.array(
  fc.constantFrom("agent_6", "agent_7").map((id) => AgentIdSchema().parse(id)),
);

const anyChange: fc.Arbitrary<Change> = fc.oneof(
  fc.constantFrom(...Object.values(changes())),
  fc.constantFrom(...Object.values(changes())),
  replies.map(({ said, refusal, hasCalls }): Change => {
    const { message, finishReason } = replyOf(said, hasCalls ? [FIRST, SECOND] : []);
    const spoken = refusal === null ? message : { ...message, refusal };
    const prefix = { messageCount: 3, tokens: 15 };
    return { type: "recordReply", reply: { message: spoken, finishReason }, prefix };
  }),
  fc
    .record({
      said: text,
      failure: fc.constantFrom(...FAILURES),
      whole: fc.option(text),
      metadata: fc.option(facts),
      hasSubtask: fc.boolean(),
      startedAgentIds: fc.option(someIds),
      reportedAgentIds: fc.option(someIds),
      isWaiting: fc.boolean(),
    })
    .map(({ said, failure, whole, metadata, hasSubtask, isWaiting, ...ids }): Change => ({
      type: "recordExecutions",
      executions: [
        ...(isWaiting ? [] : [{ ...executionOf(FIRST), ...failure, text: said }]),
        {
          ...executionOf(SECOND),
          ...failure,
          text: said,
          ...(whole === null ? {} : { fullText: whole, attachments: ATTACHMENTS }),
          ...(metadata === null ? {} : { metadata }),
          ...(hasSubtask ? { subtasks: [{ role: "helper", task: `${said}.` }] } : {}),
          ...(ids.startedAgentIds === null ? {} : { startedAgentIds: ids.startedAgentIds }),
          ...(ids.reportedAgentIds === null ? {} : { reportedAgentIds: ids.reportedAgentIds }),
        },
      ],
      deferrals: isWaiting ? [questionAbout(FIRST)] : [],
    })),
  fc
    .jsonValue({ maxDepth: 3 })
    .filter((value) => !JSON.stringify(value).includes("__proto__"))
    .map((value): Change => ({ type: "recordOutput", output: parseJson(JSON.stringify(value)) })),
  error.map((error): Change => ({ type: "failWith", error })),
  signal.map((signal): Change => ({ type: "addSignal", signal })),
  someIds.map((reportedAgentIds): Change => ({ ...changes().addMessages, reportedAgentIds })),
  fc.double(FINITE).map((waitedMs): Change => ({ type: "addTime", waitedMs })),
  fc.nat({ max: 9_999 }).map((tokens): Change => ({
    type: "addUsage",
    usage: callUsage(tokens, 1, { costUsd: tokens / 1_000_000 }),
  })),
);

/** Random changes, with sequences in between that reach deep into steps. */
const anyChanges = fc
  .array(
    fc.oneof(
      fc.array(anyChange, { maxLength: 4 }),
      fc.constantFrom<readonly Change[]>(
        [changes().openStep, changes().recordReply],
        [changes().recordExecutions, changes().applyToolResults],
        [changes().applyToolResults, changes().recordStep],
        [changes().recordStep, changes().openStep],
        [changes().resume],
        [changes().nextExecution, changes().markStarted],
      ),
    ),
    { maxLength: 15, size: "max" },
  )
  .map((lists) => lists.flat());

const anyRestingState: fc.Arbitrary<SettledState> = fc
  .record({ list: anyChanges, isPaused: fc.boolean(), reason })
  .map(({ list, isPaused, reason }) => {
    const state = list.reduce(movedIfAllowed, after(states().pending, changes().markStarted));
    if (state.status === "pending")
      return settledState(after(state, changes().markStarted, { type: "pause", reason }));
    if (state.status !== "running") return settledState(state);
    const open = state.step !== undefined;
    if (isPaused || open) return settledState(transition(state, { type: "pause", reason }));
    return settledState(transition(state, { ...changes().end, reason }));
  });

function movedIfAllowed(state: AgentState, change: Change): AgentState {
  try {
    return transition(state, change);
  } catch {
    return state;
  }
}

proves(["R47"], "any inactive state is restored from its JSON text, frozen", () => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(anyRestingState, (state) => {
      seen.add(`${state.status}${state.step === undefined ? "" : " in a step"}`);
      const before = structuredClone(state);
      const back = thereAndBack(state);
      expect(back).toStrictEqual(lasting(state));
      expect(unfrozenParts(back)).toEqual([]);
      expect(state).toStrictEqual(before);
      expect(toSnapshot(back)).toStrictEqual(toSnapshot(state));
    }),
    FIXED,
  );
  expect([...seen].toSorted()).toEqual(["paused", "paused in a step", "stopped"]);
});

test("a snapshot is plain JSON", () => {
  fc.assert(
    fc.property(anyRestingState, (state) => {
      const snapshot = toSnapshot(state);
      expect(JSON.parse(JSON.stringify(snapshot))).toStrictEqual(snapshot);
    }),
    { ...FIXED, numRuns: 100 },
  );
});

test("a snapshot is frozen", () => {
  const { waiting, completed } = states();
  for (const state of [waiting, completed])
    expect(unfrozenParts(toSnapshot(settledState(state)))).toEqual([]);
});

// The caller owns the snapshot and may change it afterwards.
test("a restored state is a copy of its snapshot", () => {
  const snapshot: unknown = JSON.parse(JSON.stringify(toSnapshot(settledState(states().waiting))));
  const parsed = AgentSnapshotSchema().parse(snapshot);
  const before = structuredClone(parsed);
  const state = restoreState(parsed);
  expect(Object.isFrozen(parsed.conversation)).toBe(false);
  Object.assign(parsed.conversation.prefix, { tokens: 99 });
  expect(state.conversation.prefix).toEqual(before.conversation.prefix);
});

/** A request with every option of a delegation. */
const REQUEST: SpawnRequest = {
  role: "helper",
  task: "Look.",
  background: true,
  includeResultsFrom: ["helper#1"],
  allowedTools: ["read"],
  deniedTools: ["write"],
  roleDefinition: { instructions: "Help.", tools: ["read"], model: "small", steps: 3 },
};

const REQUESTS = [REQUEST, { role: "helper", task: CONTENT }];

/** A paused state in which every key has a value, including optional ones. */
function fullState(): SettledState {
  const all = changes();
  const { openStep, addUsage, recordOutput, recordSubtasks, pause } = all;
  const [secondId, stepId] = [createStepId(EXECUTION_ID, 2), createStepId(EXECUTION_ID, 3)];
  const [third, fourth, fifth] = ["call_3", "call_4", "call_5"].map((id) => toolCall(id));
  if (third === undefined || fourth === undefined || fifth === undefined) throw new Error("three");
  const full = {
    ...executionOf(fifth),
    type: "retry",
    fullText: "All of it.",
    structured: "all of it",
    causeCode: "invalid_json",
    attachments: ATTACHMENTS,
    errorCode: "invalid_arguments",
    severity: "retryable",
    arguments: "all",
    isRepaired: true,
    isTextOnly: true,
    blockedBy: "no-writing",
    metadata: { note: "Odd." },
    subtasks: REQUESTS,
    startedAgentIds: [AgentIdSchema().parse("agent_6"), AgentIdSchema().parse("agent_7")],
    reportedAgentIds: [AgentIdSchema().parse("agent_7")],
  } as const;
  const childId = AgentIdSchema().parse("agent_3");
  const { message, finishReason } = replyOf("Once more.", [third, fourth, fifth]);
  const prefix = { messageCount: 7, tokens: 70 };
  const parts = [
    ...partsOf(message.text, third.callId),
    ...[fourth, fifth].map(({ callId }) => ({ type: "call", callId }) as const),
  ];
  const written = { parts, writtenBy: "scripted/eu" };
  const reply = { message: { ...message, refusal: "Never.", ...written }, finishReason };
  const [first, second] = twoCalls();
  return settledState(
    after(
      states().running,
      { ...all.brief, messages: [createUserMessage(CONTENT, "task")] },
      openStep,
      addUsage,
      {
        ...all.recordReply,
        reply: {
          ...reply,
          message: {
            ...reply.message,
            toolCalls: [first],
            parts: partsOf(reply.message.text, first.callId),
            writtenBy: "scripted/eu",
          },
        },
      },
      { type: "recordExecutions", executions: [{ ...full, call: first }], deferrals: [] },
      all.applyToolResults,
      all.failWith,
      all.recordStep,
      recordOutput,
      {
        ...recordSubtasks,
        subtasks: REQUESTS.map((request) => ({ request, childId, text: second.toolName })),
      },
      { type: "addSignal", signal: { ...all.addSignal.signal, name: "enough", isOvershoot: true } },
      all.addTime,
      { ...openStep, stepId: secondId, number: 2 },
      { type: "recordReply", reply: replyOf("All of it.", []), prefix },
      all.recordStep,
      { ...openStep, stepId, number: 3 },
      addUsage,
      { type: "recordReply", reply, prefix },
      all.recordEvaluation,
      {
        type: "recordExecutions",
        executions: [full],
        deferrals: [
          unparsedQuestion(third, stepId),
          { ...subagentOn(fourth), subtasks: REQUESTS, startedAgentIds: full.startedAgentIds },
        ],
        limitSignal: { ...all.addSignal.signal, name: "enough", isOvershoot: true },
      },
      pause,
    ),
  );
}

proves(["R47"], "the keys of a snapshot are exactly those of its version", () => {
  const schema: unknown = z.toJSONSchema(AgentSnapshotSchema(), { unrepresentable: "any" });
  expect(listed(keysOfSchema(schema))).toEqual(
    listed([...SHARED_KEYS, ...ENDED_KEYS, ...STEP_KEYS]),
  );
  const full = fullState();
  const { sections } = changes().recordSections;
  const { fired } = changes().recordFired;
  const log = { ...full.log, compactions: [COMPACTION], waits: 1, sections, fired };
  const [first, ...tags] = full.conversation.tags;
  if (first === undefined) throw new Error("A history has tags.");
  const tag = { ...first, agentId: AGENT_ID, note: "left_out" } as const;
  const conversation = {
    ...full.conversation,
    tags: [tag, ...tags],
    dropped: full.conversation.messages.map((message) => ({ message, tag })),
  };
  expect(listed(keysIn(toSnapshot({ ...full, log, conversation })))).toEqual(
    listed([...SHARED_KEYS, ...STEP_KEYS]),
  );
});

proves(["R47"], "a snapshot taken in a step excludes the error of the refused request", () => {
  const { addMessages, openStep, recordOverflow, failWith, pause } = changes();
  const open = after(states().running, openStep);
  for (const state of [after(open, pause), after(open, recordOverflow, pause)]) {
    const snapshot = toSnapshot(settledState(state));
    expect(JSON.stringify(snapshot)).not.toContain(recordOverflow.error.message);
    expect(Object.keys("step" in snapshot ? (snapshot.step ?? {}) : {}).toSorted()).toEqual(
      words(
        "context deferrals executions hasAppliedResults hiddenTools lastStep messageCount number startedAtMs stepId timing usage",
      ),
    );
    const back = restoreState(snapshot).step;
    expect([back?.error, back?.messageCount]).toEqual([undefined, openStep.messageCount]);
  }
  // An error that ends the run is in the log as well, and remains.
  const failed = toSnapshot(settledState(after(open, addMessages, failWith, pause)));
  expect(failed.log.errors).toEqual([failWith.error]);
});

test("a restored state waits for the same questions and subagents", () => {
  const { running, replied } = states();
  const { recordSubtasks, recordExecutions, applyToolResults, pause, resume } = changes();
  const deferrals: readonly Deferral[] = [questionAbout(FIRST), subagentOn(SECOND)];
  const both = settledState(
    after(replied, recordSubtasks, { type: "recordExecutions", executions: [], deferrals }, pause),
  );
  const back = thereAndBack(both);
  expect(back).toStrictEqual(lasting(both));
  expect(findAskedQuestions(back)).toEqual(findAskedQuestions(both));
  expect(findAskedQuestions(back).map(({ callId }) => callId)).toEqual([FIRST.callId]);
  expect(getPausedChildren(back)).toEqual(["agent_of_call_2", "agent_2"]);
  expect(getPendingCalls(back)).toEqual([FIRST, SECOND]);
  const [gone, stayed] = [back, both].map((state) =>
    after(state, resume, recordExecutions, applyToolResults),
  );
  expect(gone?.conversation).toEqual(stayed?.conversation);
  const between = settledState(after(running, recordSubtasks, pause));
  expect(getPausedChildren(thereAndBack(between))).toEqual(["agent_2"]);
});

proves(["R45"], "later snapshots exclude the transient parts of a recorded step", () => {
  const { applied, open } = states();
  const { recordStep, failWith, openStep, pause } = changes();
  for (const state of [after(applied, recordStep), after(open, failWith, recordStep)]) {
    const between = toSnapshot(settledState(transition(state, pause)));
    expect(between).not.toHaveProperty("step");
    const bare = { hiddenTools: [], lastStep: undefined };
    const next = { ...openStep, ...bare, stepId: createStepId(EXECUTION_ID, 2), number: 2 };
    const snapshot = toSnapshot(settledState(after(state, next, pause)));
    expect(snapshot).toHaveProperty("step", {
      stepId: "execution_1.2",
      number: 2,
      startedAtMs: 2,
      context: openStep.context,
      messageCount: 2,
      hiddenTools: [],
      executions: [],
      deferrals: [],
      hasAppliedResults: false,
      usage: callUsage(0, 0, { modelCalls: 0, steps: 0 }),
      timing: NO_TIMING,
    });
  }
});

for (const [what, patch] of [
  ["a status that is not at rest", { status: "running" }],
  ["an ended state with a step", { status: "completed" }],
  ["an unknown key", { mood: "good" }],
  ["no log", { log: undefined }],
] as const) {
  test(`${what} is not a valid snapshot`, () => {
    const snapshot = { ...toSnapshot(settledState(states().waiting)), ...patch };
    expect(AgentSnapshotSchema().safeParse(snapshot).success).toBe(false);
  });
}
