// Hand-made views of any agents at any moment, and their pictures.

import type { ShownAgent } from "../../../src/terminal/fold-tree.ts";
import { renderRun, type RenderOptions, type ShownRun } from "../../../src/terminal/render-tree.ts";
import { AgentIdSchema, CallIdSchema, QuestionIdSchema } from "../../../src/protocol/ids.ts";
import type { Question } from "../../../src/protocol/question.ts";
import type { SettledStatus, StopReason } from "../../../src/protocol/stop.ts";
import type { CallUnderWay } from "../../../src/read-model/step-fold.ts";

type Call = CallUnderWay & { readonly callId: null };

/** The current activity of an agent. */
export type Activity =
  | { readonly kind: "preparing" | "queued" | "thinking" | "awaiting_budget" }
  | { readonly kind: "retrying"; readonly attempt: number; readonly code: string }
  | { readonly kind: "calling"; readonly calls: readonly Call[] }
  | {
      readonly kind: "settled";
      readonly status: SettledStatus;
      readonly reason: StopReason;
      readonly durationMs: number;
    };

export const THINKING: Activity = { kind: "thinking" };
export const ENDED = ended("completed", "The agent gave its answer.");
export const STOPPED: Activity = {
  kind: "settled",
  status: "stopped",
  reason: { code: "step_limit", message: "All 3 steps are used.", data: {} },
  durationMs: 1_000,
};

export const PAUSED: Activity = {
  kind: "settled",
  status: "paused",
  reason: { code: "input_required", message: "Somebody has to answer.", data: {} },
  durationMs: 2_000,
};

export function ended(status: SettledStatus, message: string, code: string = status): Activity {
  return {
    kind: "settled",
    status,
    reason: { code, message, data: {} },
    durationMs: 61_000,
  };
}

export function agent(
  name: string,
  activity: Activity,
  children: readonly ShownAgent[] = [],
): ShownAgent {
  const spent = { totalTokens: 1_200, costUsd: 0.0123, unpricedCalls: 0 };
  return {
    agentPath: name,
    role: name.replace(/#.*/, ""),
    task: `Task of ${name}`,
    executionStartedAtMs: 0,
    ...faceOf(activity),
    step: 2,
    own: spent,
    subtree: spent,
    refusalCount: 0,
    children,
  };
}

function faceOf(activity: Activity): Pick<ShownAgent, "activity" | "retry" | "end" | "openCalls"> {
  const idle = { retry: undefined, end: undefined, openCalls: [] };
  switch (activity.kind) {
    case "settled": {
      const { kind: _settled, ...rest } = activity;
      return { ...idle, activity: rest.status, end: { ...rest, atMs: 0 } };
    }
    case "calling":
      return { ...idle, activity: activity.kind, openCalls: activity.calls };
    case "retrying":
      return { ...idle, activity: activity.kind, retry: activity };
    default:
      return { ...idle, activity: activity.kind };
  }
}

export function run(root: ShownAgent): ShownRun {
  return {
    startedAtMs: 0,
    time: { startedAtMs: 0, durationMs: 0, idleMs: 0, isIdle: false },
    budget: { steps: 20 },
    remaining: { steps: 3 },
    refusals: [],
    root,
    questions: [],
    end: undefined,
  };
}

export function question(agentPath: string, more: Partial<Question> = {}): Question {
  return {
    questionId: QuestionIdSchema().parse(`${agentPath}.1.0`),
    kind: "approval",
    agentId: AgentIdSchema().parse(agentPath),
    agentPath,
    callId: CallIdSchema().parse("call_1"),
    toolName: "mail",
    arguments: { to: "ann", text: "Hello." },
    argumentsHash: "0",
    reason: "Mails leave the house.",
    askedAtMs: 0,
    deadlineAtMs: null,
    ...more,
  };
}

export function picture(view: ShownRun, options: Partial<RenderOptions>): string {
  return ["", ...renderRun(view, { width: 100, nowMs: 0, hasColor: false, ...options }), ""].join(
    "\n",
  );
}
