// Views made by hand, of any agents at any moment, and pictures of them.

import type { Activity, AgentView } from "../../src/terminal/agent-view.ts";
import { openQuestion, type OpenQuestion } from "../../src/terminal/open-questions.ts";
import { renderRun, type RenderOptions } from "../../src/terminal/render-tree.ts";
import type { RunView } from "../../src/terminal/run-view.ts";
import {
  AgentIdSchema,
  CallIdSchema,
  QuestionIdSchema,
  RunIdSchema,
} from "../../src/protocol/ids.ts";
import type { Question } from "../../src/protocol/question.ts";

export const THINKING: Activity = { kind: "thinking" };
export const ENDED = ended("completed", "The agent gave its answer.");
export const STOPPED: Activity = {
  kind: "settled",
  status: "stopped",
  reason: { code: "steps_limit", message: "All 3 steps are used.", data: {} },
  durationMs: 1_000,
};

export const PAUSED: Activity = {
  kind: "settled",
  status: "paused",
  reason: { code: "answers_needed", message: "Somebody has to answer.", data: {} },
  durationMs: 2_000,
};

export function ended(status: "completed" | "failed" | "cancelled", message: string): Activity {
  return {
    kind: "settled",
    status,
    reason: { code: status, message, data: {} },
    durationMs: 61_000,
  };
}

export function agent(
  name: string,
  activity: Activity,
  children: readonly AgentView[] = [],
): AgentView {
  const spent = { totalTokens: 1_200, costMicroUsd: 12_300, unpricedCalls: 0 };
  return {
    agentId: AgentIdSchema.parse(name),
    agentPath: name,
    role: name.replace(/#.*/, ""),
    task: `Task of ${name}`,
    startedAtMs: 0,
    activity,
    step: 2,
    own: spent,
    subtree: spent,
    refusals: 0,
    children,
  };
}

export function run(root: AgentView): RunView {
  return {
    runId: RunIdSchema.parse("run_1"),
    traceId: "0af7651916cd43dd8448eb211c80319c",
    startedAtMs: 0,
    budget: { steps: 20 },
    left: { steps: 3 },
    refusals: 0,
    root,
    questions: [],
    stoodMs: 0,
    standsSinceMs: undefined,
    end: undefined,
  };
}

export function question(agentPath: string, more: Partial<Question> = {}): OpenQuestion {
  return openQuestion({
    questionId: QuestionIdSchema.parse(`${agentPath}.1.0`),
    kind: "approval",
    agentId: AgentIdSchema.parse(agentPath),
    agentPath,
    callId: CallIdSchema.parse("call_1"),
    toolName: "mail",
    arguments: { to: "ann", text: "Hello." },
    argumentsHash: "0",
    reason: "Mails leave the house.",
    askedAtMs: 0,
    deadlineAtMs: null,
    ...more,
  });
}

export function picture(view: RunView, options: Partial<RenderOptions>): string {
  return ["", ...renderRun(view, { width: 100, nowMs: 0, hasColor: false, ...options }), ""].join(
    "\n",
  );
}
