// Goal: each change alters exactly the documented fields.
// Method: complete values before and after.

import { expect, test } from "vitest";

import { getOpenStep } from "../../src/agent/agent-state.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import { NO_TIMING } from "../../src/protocol/step-timing.ts";
import { proves } from "../harness/proves.ts";
import {
  added,
  after,
  changes,
  EXECUTION_ID,
  executionOf,
  opening,
  questionAbout,
  replyOf,
  states,
  STEP_ID,
  subagentOn,
  twoCalls,
  transition,
} from "../support/changes.ts";
import { callUsage } from "../support/ledger-fixture.ts";
import { TIMING } from "../support/step-context.ts";

proves(["R42"], "`markStarted` sets the execution and its times, and changes nothing else", () => {
  const { pending } = states();
  expect(transition(pending, changes().markStarted)).toEqual({
    ...pending,
    status: "running",
    executionId: EXECUTION_ID,
    conversation: { ...added({ ...pending.conversation, messages: [] }, opening(), 0) },
    telemetry: { ...pending.telemetry, startedAtMs: 1, pausedBeforeMs: 3 },
    step: undefined,
  });
});

proves(["R42"], "`openStep` opens an empty step with the context of its request", () => {
  const { running } = states();
  expect(transition(running, changes().openStep)).toEqual({
    ...running,
    step: {
      stepId: STEP_ID,
      number: 1,
      messageCount: 2,
      hiddenTools: [{ toolName: "write", filter: "read-only" }],
      startedAtMs: 2,
      context: changes().openStep.context,
      reply: undefined,
      executions: [],
      deferrals: [],
      hasAppliedResults: false,
      lastStep: { accountPath: "lead", maximum: 3 },
      usage: NO_USAGE,
      timing: NO_TIMING,
      error: undefined,
    },
  });
});

proves(
  ["R42"],
  "`addUsage` adds to the open step, and the total of the execution waits for its record",
  () => {
    const { open } = states();
    const twice = after(open, changes().addUsage, {
      type: "addUsage",
      usage: { ...NO_USAGE, toolCalls: 2 },
    });
    const usage = { ...callUsage(10, 5, { costUsd: 0.000007 }), toolCalls: 2 };
    expect(twice).toEqual({ ...open, step: { ...getOpenStep(open), usage, timing: TIMING } });
    const thrice = after(twice, changes().addUsage);
    expect(getOpenStep(thrice).timing).toEqual({
      inferenceMs: 2,
      toolsMs: 4,
      toolsSumMs: 6,
      hooksMs: 8,
      formattingMs: 10,
    });
  },
);

proves(
  ["R42"],
  "`recordReply` adds the reply to history and step, and resets useless replies and overflows",
  () => {
    const { running } = states();
    const { openStep, discardReply, recordOverflow, recordStep, recordReply } = changes();
    const open = after(
      running,
      openStep,
      discardReply,
      recordStep,
      { ...openStep, number: 2 },
      recordOverflow,
      recordStep,
      { ...openStep, number: 3 },
    );
    expect([open.log.uselessReplies, open.log.overflows]).toEqual([1, 1]);
    const { reply, prefix } = recordReply;
    expect(transition(open, recordReply)).toEqual({
      ...open,
      conversation: { ...added(open.conversation, [reply.message], 3), prefix },
      log: { ...open.log, uselessReplies: 0, overflows: 0 },
      step: { ...getOpenStep(open), reply },
    });
  },
);

proves(
  ["R42"],
  "`discardReply` keeps the reply out of the history, counts it, and resets overflows",
  () => {
    const { running } = states();
    const { openStep, recordOverflow, recordStep, discardReply } = changes();
    const open = after(running, openStep, recordOverflow, recordStep, { ...openStep, number: 2 });
    expect(open.log.overflows).toBe(1);
    expect(transition(open, discardReply)).toEqual({
      ...open,
      log: { ...open.log, uselessReplies: 1, overflows: 0 },
      step: { ...getOpenStep(open), reply: discardReply.reply },
    });
  },
);

proves(
  ["S7.15", "R42"],
  "a step whose request was too long is reopened after a compaction, and keeps its usage",
  () => {
    const { openStep, addUsage, recordOverflow, compact, recordReply } = changes();
    const { running } = states();
    const refused = after(running, openStep, addUsage, recordOverflow);
    expect(() => transition(refused, openStep)).toThrow(/^Cannot apply openStep to a running/);
    const shorter = after(refused, compact);
    expect(shorter.log.compactions.map(({ afterStep }) => afterStep)).toEqual([1]);
    const context = { ...openStep.context, toolNames: ["another"] };
    const anew = transition(shorter, {
      ...openStep,
      context,
      messageCount: compact.messages.length,
      startedAtMs: openStep.startedAtMs + 7,
    });
    expect(anew).toEqual({
      ...shorter,
      log: {
        ...shorter.log,
        compactions: shorter.log.compactions.map((one) => ({ ...one, afterStep: 0 })),
      },
      step: {
        ...getOpenStep(shorter),
        context,
        messageCount: compact.messages.length,
      },
    });
    expect(() => transition(after(anew, recordReply), openStep)).toThrow(/^Cannot apply openStep/);
  },
);

proves(["R42"], "`recordOverflow` counts and marks the open step, and records no error", () => {
  const { open } = states();
  const { recordOverflow } = changes();
  expect(transition(open, recordOverflow)).toEqual({
    ...open,
    log: { ...open.log, overflows: 1 },
    step: { ...getOpenStep(open), error: recordOverflow.error },
  });
});

proves(["R42"], "`recordEvaluation` marks the open step, and changes nothing else", () => {
  const { replied } = states();
  expect(transition(replied, changes().recordEvaluation)).toEqual({
    ...replied,
    step: { ...getOpenStep(replied), isEvaluated: true },
  });
});

proves(
  ["R42"],
  "`recordExecutions` keeps one result per call in call order, and the open questions",
  () => {
    const { replied } = states();
    const [first, second] = twoCalls();
    const deferrals = [questionAbout(first)];
    const half = transition(replied, {
      type: "recordExecutions",
      executions: [executionOf(second)],
      deferrals,
    });
    const step = getOpenStep(replied);
    expect(half).toEqual({
      ...replied,
      step: { ...step, executions: [executionOf(second)], deferrals },
    });
    const whole = transition(half, {
      type: "recordExecutions",
      executions: [executionOf(first)],
      deferrals: [],
    });
    const executions = [executionOf(first), executionOf(second)];
    expect(whole).toEqual({ ...replied, step: { ...step, executions } });
  },
);

proves(
  ["R42"],
  "`applyToolResults` adds one result per call to the history in call order, and queues their subtasks",
  () => {
    const { replied } = states();
    const { recordSubtasks } = changes();
    const [first, second] = twoCalls().map(executionOf);
    if (first === undefined || second === undefined) throw new Error("two executions");
    const request = { role: "helper", task: "Tidy." };
    const answered = after(replied, recordSubtasks, {
      type: "recordExecutions",
      executions: [second, { ...first, subtasks: [request] }],
      deferrals: [],
    });
    const results = [first, second].map(({ call: { callId, toolName } }) => ({
      role: "tool" as const,
      callId,
      toolName,
      text: `result of ${callId}`,
    }));
    expect(transition(answered, changes().applyToolResults)).toEqual({
      ...answered,
      conversation: added(answered.conversation, results, 1),
      log: {
        ...answered.log,
        subtasks: [...recordSubtasks.subtasks, { request }],
      },
      step: { ...getOpenStep(answered), hasAppliedResults: true },
    });
  },
);

test("`applyToolResults` clears the deferred calls", () => {
  const { replied } = states();
  const [first] = twoCalls();
  const { recordExecutions, applyToolResults } = changes();
  const late = { ...recordExecutions, deferrals: [subagentOn(first)] };
  expect(getOpenStep(after(replied, late, applyToolResults)).deferrals).toEqual([]);
});

proves(
  ["R42"],
  "`brief` adds the task to the history and marks it as handled, even without a message",
  () => {
    const { running } = states();
    const { brief } = changes();
    const { conversation, log } = running;
    expect(transition(running, brief)).toEqual({
      ...running,
      conversation: added(conversation, brief.messages, 0),
      log: { ...log, isTaskHandled: true },
    });
    expect(transition(running, { type: "brief", messages: [] })).toEqual({
      ...running,
      log: { ...log, isTaskHandled: true },
    });
  },
);

proves(["R42"], "`recordVeto` adds the message to the model, and counts", () => {
  const { stepped } = states();
  const { recordVeto } = changes();
  const { conversation, log } = stepped;
  expect(after(stepped, recordVeto, recordVeto)).toEqual({
    ...stepped,
    conversation: added(conversation, [recordVeto.message, recordVeto.message], 1),
    log: { ...log, vetoes: 2 },
  });
});

proves(["R42"], "`recordWait` counts waits from zero", () => {
  const { stepped } = states();
  const { recordWait } = changes();
  const { log } = stepped;
  expect(after(stepped, recordWait)).toEqual({ ...stepped, log: { ...log, waits: 1 } });
  expect(after(stepped, recordWait, recordWait).log.waits).toBe(2);
});

proves(["R42"], "`compact` replaces the history and resets its measured prefix", () => {
  const { stepped } = states();
  const { compact } = changes();
  const { conversation } = stepped;
  expect(stepped.conversation.prefix.tokens).toBeGreaterThan(0);
  expect(transition(stepped, compact)).toEqual({
    ...stepped,
    conversation: {
      messages: compact.messages,
      prefix: { messageCount: 0, tokens: 0 },
      tags: [{ executionId: EXECUTION_ID, stepNumber: 1, number: 6, note: "left_out" }],
      dropped: conversation.messages.slice(1).map((message, index) => ({
        message,
        tag: conversation.tags[index + 1],
      })),
      added: 6,
    },
    log: {
      ...stepped.log,
      compactions: [
        {
          afterStep: 1,
          before: [
            { type: "unrecorded", messages: compact.messages },
            { type: "dropped", from: 0, to: 4 },
          ],
        },
      ],
    },
  });
});

proves(
  ["R42"],
  "`recordOutput`, `recordSubtasks`, `addMessages`, `addSignal` and `addTime` each change one field",
  () => {
    const { stepped } = states();
    const { recordOutput, recordSubtasks, addMessages, addSignal, addTime } = changes();
    const { conversation, log, telemetry } = stepped;
    expect(transition(stepped, recordOutput)).toEqual({
      ...stepped,
      log: { ...log, output: recordOutput.output, outputParse: recordOutput.outputParse },
    });
    expect(after(stepped, recordOutput, { type: "recordOutput", output: undefined })).toEqual(
      stepped,
    );
    const { subtasks } = recordSubtasks;
    expect(transition(stepped, recordSubtasks)).toEqual({ ...stepped, log: { ...log, subtasks } });
    expect(after(stepped, recordSubtasks, { ...recordSubtasks, subtasks: [] })).toEqual(stepped);
    expect(transition(stepped, addMessages)).toEqual({
      ...stepped,
      conversation: added(conversation, addMessages.messages, 1),
    });
    const signals = [addSignal.signal, addSignal.signal];
    expect(transition(stepped, addSignal)).toEqual({ ...stepped, log: { ...log, signals } });
    const waited = after(stepped, addTime, { type: "addTime", waitedMs: 2 });
    expect(waited).toEqual({ ...stepped, telemetry: { ...telemetry, budgetWaitMs: 11 } });
  },
);

proves(
  ["R42"],
  "`recordFired` replaces conditions that fired at the same place, and keeps the rest",
  () => {
    const { stepped } = states();
    const { type, fired } = changes().recordFired;
    const state = after(stepped, { type, fired: { "0.0": [], "0.1": [] } }, { type, fired });
    expect(state).toEqual({ ...stepped, log: { ...stepped.log, fired: { "0.0": [], ...fired } } });
  },
);

proves(["R42"], "`pause` adds a reason and keeps all else, and `resume` restores the state", () => {
  const { pause, resume } = changes();
  const { running, open, spoken, replied, deferred, answered, applied, stepped } = states();
  for (const state of [running, open, spoken, replied, deferred, answered, applied, stepped]) {
    const paused = transition(state, pause);
    expect(paused).toEqual({ ...state, status: "paused", reason: pause.reason });
    expect(transition(paused, resume)).toEqual(state);
    expect(Object.keys(transition(paused, resume)).toSorted()).toEqual(
      Object.keys(state).toSorted(),
    );
  }
});

proves(
  ["R42"],
  "`failWith` records the error once, raises its signal, and marks an open step",
  () => {
    const { failWith } = changes();
    const { error } = failWith;
    const signal = {
      source: "loop",
      reason: { code: "error", message: "Too slow.", data: { error: "model_timeout" } },
    };
    for (const state of [states().running, states().open]) {
      const log = { ...state.log, errors: [error], signals: [signal] };
      const step =
        state.status === "running" && state.step !== undefined
          ? { ...state.step, error }
          : undefined;
      expect(transition(state, failWith)).toEqual({ ...state, log, step });
    }
  },
);

proves(
  ["R42", "R43"],
  "`recordStep` turns the open step into one record, and adds its usage",
  () => {
    const { applied } = states();
    const { reply } = changes().recordReply;
    const usage = callUsage(10, 5, { costUsd: 0.000007 });
    const record = {
      stepId: STEP_ID,
      number: 1,
      context: changes().openStep.context,
      io: { messageCount: 2, text: "Let me see.", finishReason: "tool_calls" },
      tools: {
        calls: reply.message.toolCalls,
        executions: reply.message.toolCalls.map(executionOf),
      },
      telemetry: { usage, startedAtMs: 2, endedAtMs: 5, elapsedMs: 3, timing: TIMING },
    };
    expect(transition(applied, changes().recordStep)).toEqual({
      ...applied,
      log: { ...applied.log, steps: [record] },
      telemetry: { ...applied.telemetry, usage },
      step: undefined,
    });
  },
);

proves(["R43"], "the record of a step that was cut off contains its error, and no text", () => {
  const { open } = states();
  const { openStep, failWith, addUsage, recordStep } = changes();
  const failed = after(open, addUsage, failWith, recordStep);
  expect(failed.log.steps).toEqual([
    {
      stepId: STEP_ID,
      number: 1,
      context: openStep.context,
      io: { messageCount: 2, text: "", finishReason: "error" },
      tools: { calls: [], executions: [] },
      telemetry: {
        usage: callUsage(10, 5, { costUsd: 0.000007 }),
        startedAtMs: 2,
        endedAtMs: 5,
        elapsedMs: 3,
        timing: TIMING,
      },
      error: failWith.error,
    },
  ]);
});

proves(["R43"], "the record of a refusal contains the model's own words", () => {
  const { open } = states();
  const { message } = replyOf("");
  const reply = {
    message: { ...message, refusal: "I would rather not." },
    finishReason: "stop",
  } as const;
  const { prefix } = changes().recordReply;
  const declined = after(open, { type: "recordReply", reply, prefix }, changes().recordStep);
  const io = { messageCount: 2, text: "", refusal: "I would rather not.", finishReason: "stop" };
  expect(declined.log.steps.map((step) => step.io)).toEqual([io]);
});

proves(["R42"], "`end` keeps all parts, and adds status, reason and time", () => {
  const { stepped } = states();
  const { end } = changes();
  const { conversation, log, telemetry } = stepped;
  expect(transition(stepped, end)).toEqual({
    status: "stopped",
    reason: end.reason,
    executionId: EXECUTION_ID,
    conversation,
    log,
    telemetry: { ...telemetry, endedAtMs: 6 },
  });
});
