// A stored paused run: a parent that waits for a question and a subagent, a paused child and an
// ended child.

import { toSnapshot } from "../../src/agent/agent-snapshot.ts";
import { PAUSED_RUN_VERSION } from "../../src/orchestrator/durability/paused-run.ts";
import { NO_USAGE } from "../../src/protocol/usage.ts";
import {
  after,
  AGENT_ID,
  changes,
  questionAbout,
  settledState,
  STEP_ID,
  states,
  subagentOn,
  twoCalls,
} from "./changes.ts";
import { hashText } from "../../src/protocol/definition.ts";

export const CHILD_ID = "agent_of_call_2";
export const ENDED_ID = "agent_3";
const [FIRST, SECOND] = twoCalls();

function agent(agentId: string, parentAgentId: string | null, state: object): object {
  const isRoot = parentAgentId === null;
  const executionId = `execution_of_${agentId}`;
  return {
    agentId,
    executionId,
    parentAgentId,
    agentPath: isRoot ? "lead" : `lead/${agentId}`,
    depth: isRoot ? 0 : 1,
    role: isRoot ? "lead" : "helper",
    task: "Do it.",
    metadata: { user: "ann" },
    spawnCallId: isRoot ? null : SECOND.callId,
    spawnStepId: isRoot ? null : STEP_ID,
    startedAtMs: 1,
    ordinals: isRoot ? { helper: 2 } : {},
    execution: 1,
    isDetached: false,
    toolRules: [],
    state: { ...state, executionId },
  };
}

export function account(agentId: string, parentAgentId: string | null): object {
  const amounts = {
    steps: 0,
    totalTokens: 0,
    inputTokens: 0,
    cachedInputTokens: 0,
    outputTokens: 0,
    costMicroUsd: 0,
    toolCalls: 0,
  };
  return {
    agentId,
    parentAgentId,
    agentPath: parentAgentId === null ? "lead" : `lead/${agentId}`,
    limits: { steps: 9 },
    reserve: {},
    grants: [],
    fixedDeadlineAtMs: null,
    timeLimitMs: 1_000,
    openedAtMs: 1,
    pausedMs: 0,
    own: NO_USAGE,
    total: NO_USAGE,
    reserved: amounts,
    excess: amounts,
  };
}

const question = questionAbout(FIRST);
if (question.type !== "question") throw new Error("a question");

const PRICE = { inputUsdPerMillion: 1, cachedInputUsdPerMillion: 0, outputUsdPerMillion: 2.5 };

/** Returns a stored paused run, created at each call, so that a test can change its own. */
export function stored() {
  const { replied, rested, completed } = states();
  const root = after(
    replied,
    {
      type: "recordExecutions",
      executions: [],
      deferrals: [question, subagentOn(SECOND)],
    },
    changes().pause,
  );
  return structuredClone({
    version: PAUSED_RUN_VERSION,
    runId: "run_1",
    pauseCount: 1,
    pausedAtMs: 9,
    traceId: "0".repeat(32),
    eventCount: 20,
    leaseCount: 2,
    limits: { maxDepth: 2, maxBreadthPerParent: 4, maxTotalSubagents: 8 },
    refusalsByCode: { depth_limit: 1 },
    questions: question.type === "question" ? [question.question] : [],
    answered: ["execution_0.1.0"],
    agents: [
      agent(AGENT_ID, null, toSnapshot(settledState(root))),
      agent(CHILD_ID, AGENT_ID, toSnapshot(settledState(rested))),
      agent(ENDED_ID, AGENT_ID, toSnapshot(settledState(completed))),
    ],
    definitions: { [hashText("Work.")]: "Work.", [hashText("[]")]: "[]" },
    prices: [
      {
        provider: "openai",
        model: "small",
        price: { ...PRICE, asOf: "2026-09-23", source: "list" },
      },
      { provider: "own", model: "free", price: null },
    ],
    accounts: [account(AGENT_ID, null), account(CHILD_ID, AGENT_ID), account(ENDED_ID, AGENT_ID)],
  });
}
