// Goal: an agent tracks the background subagents whose report is missing, whatever its calls start
// and report.
// Method: the changes involved, complete values before and after.

import { test, expect } from "vitest";

import { getBackgroundChildren } from "../../src/agent/agent-state.ts";
import { AgentIdSchema } from "../../src/protocol/ids.ts";
import { proves } from "../harness/proves.ts";
import {
  added,
  after,
  changes,
  executionOf,
  states,
  subagentOn,
  twoCalls,
  transition,
} from "../support/changes.ts";

const THIRD = AgentIdSchema().parse("agent_3");
const FOURTH = AgentIdSchema().parse("agent_4");
const FIFTH = AgentIdSchema().parse("agent_5");

proves(
  ["R42"],
  "`awaitSubagents` marks the agent as waiting until its next step, and changes nothing else",
  () => {
    const { stepped } = states();
    const { awaitSubagents, addTime, openStep } = changes();
    const waiting = transition(stepped, awaitSubagents);
    expect(waiting).toEqual({ ...stepped, log: { ...stepped.log, isAwaiting: true } });
    expect(transition(waiting, awaitSubagents)).toEqual(waiting);
    const second = { ...openStep, number: 2 };
    expect(transition(waiting, second)).toEqual(transition(stepped, second));
    expect(after(waiting, addTime, second)).toEqual(after(stepped, addTime, second));
  },
);

proves(
  ["R42"],
  "background subagents of calls are awaited in call order until their results are in the history",
  () => {
    const { replied } = states();
    const [first, second] = twoCalls().map(executionOf);
    if (first === undefined || second === undefined) throw new Error("two executions");
    const started = after(replied, {
      type: "recordExecutions",
      executions: [
        { ...second, startedAgentIds: [THIRD] },
        { ...first, startedAgentIds: [FIFTH, FOURTH] },
      ],
      deferrals: [],
    });
    expect(started.log.background).toEqual([]);
    const told = transition(started, changes().applyToolResults);
    expect(told.log).toEqual({ ...started.log, background: [FIFTH, FOURTH, THIRD] });
    const { conversation } = told;
    const { messages } = changes().addMessages;
    const report = { type: "addMessages", messages, reportedAgentIds: [FOURTH, FIFTH] } as const;
    expect(transition(told, report)).toEqual({
      ...told,
      conversation: added(conversation, messages, 1),
      log: { ...told.log, background: [THIRD] },
    });
    expect(after(told, report, report)).toMatchObject({ log: { background: [THIRD] } });
  },
);

proves(
  ["R42"],
  "a result returned by a call is no longer awaited, even if another call started its subagent",
  () => {
    const { replied } = states();
    const [first, second] = twoCalls().map(executionOf);
    if (first === undefined || second === undefined) throw new Error("two executions");
    const answered = after(replied, {
      type: "recordExecutions",
      executions: [
        { ...first, startedAgentIds: [THIRD, FOURTH] },
        { ...second, reportedAgentIds: [THIRD] },
      ],
      deferrals: [],
    });
    expect(getBackgroundChildren(answered)).toEqual([FOURTH]);
    const told = transition(answered, changes().applyToolResults);
    expect(told.log.background).toEqual([FOURTH]);
    expect(getBackgroundChildren(told)).toEqual([FOURTH]);
  },
);

proves(
  ["R42"],
  "`dropSubagents` removes awaited and paused subagents, and changes nothing else",
  () => {
    const { replied } = states();
    const { recordSubtasks, recordStep, applyToolResults, dropSubagents } = changes();
    const [first, second] = twoCalls().map(executionOf);
    if (first === undefined || second === undefined) throw new Error("two executions");
    const executions = [{ ...first, startedAgentIds: [THIRD] }, second];
    const recorded = { type: "recordExecutions", executions, deferrals: [] } as const;
    const busy = after(replied, recordSubtasks, recorded, applyToolResults, recordStep);
    const { log } = busy;
    expect([log.background, log.subtasks.length]).toEqual([[THIRD], 2]);
    expect(transition(busy, dropSubagents)).toEqual({
      ...busy,
      log: { ...log, background: [], subtasks: log.subtasks.slice(1) },
    });
  },
);

test("a subagent started before a pause of its call is awaited at once, and counted once", () => {
  const { replied } = states();
  const { applyToolResults, pause, resume } = changes();
  const [first, second] = twoCalls();
  const paused = after(
    replied,
    {
      type: "recordExecutions",
      executions: [executionOf(second)],
      deferrals: [{ ...subagentOn(first), startedAgentIds: [THIRD] }],
    },
    pause,
  );
  expect([getBackgroundChildren(paused), paused.log.background]).toEqual([[THIRD], []]);
  const executions = [{ ...executionOf(first), startedAgentIds: [THIRD] }];
  const settled = after(paused, resume, { type: "recordExecutions", executions, deferrals: [] });
  expect(getBackgroundChildren(settled)).toEqual([THIRD]);
  expect(transition(settled, applyToolResults).log.background).toEqual([THIRD]);
});
