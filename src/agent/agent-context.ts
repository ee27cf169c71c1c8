import type { Bounds } from "../kernel/cancel.ts";
import type { JsonObject } from "../kernel/json.ts";
import type { HookSet } from "../hooks/hook-set.ts";
import type { HookBounds } from "../hooks/call-hook.ts";
import type { HookContext } from "../hooks/hook-points.ts";
import type { AgentId, CallId, ExecutionId, QuestionId, RunId, StepId } from "../protocol/ids.ts";
import type { EventBody } from "../protocol/event.ts";
import type { Answer } from "../protocol/question.ts";
import type { StopSignal } from "../protocol/stop.ts";
import type { RemovedTool } from "../protocol/tool-rule.ts";
import type { MessageRetentionPolicy } from "../policies/retention-policy.ts";
import type { UsageReport } from "../protocol/usage.ts";
import type { ToolSet } from "../tools/tool-set.ts";
import type { AgentRole } from "./agent-role.ts";
import type { AgentState } from "./agent-state.ts";
import type { BudgetGate } from "./budget-gate.ts";
import type { DefinitionTable } from "./definition-table.ts";
import type { Effects } from "./effects.ts";

/** Everything that one execution of one agent works with. Fixed for the execution; what changes is the state. */
export interface AgentContext {
  readonly identity: AgentIdentity;
  readonly role: AgentRole;
  readonly tools: ToolSet;
  /** Tools of its role that are not in `tools`, and why. */
  readonly removedTools: readonly RemovedTool[];
  readonly effects: Effects;
  readonly budget: BudgetGate;
  readonly hooks: HookSet;
  /** Of the whole run. */
  readonly definitions: DefinitionTable;
  /** What the agent was told to do. */
  readonly task: string;
  readonly metadata: JsonObject;
  /** The call in its parent that started it; undefined for the root and for subtasks. */
  readonly spawnCallId: CallId | undefined;
  /** How much of the history of its session it begins with; undefined: it has none. */
  readonly retention: MessageRetentionPolicy | undefined;
  readonly inbox: Inbox;
  /** True once the agent was told to end: nothing further is worth beginning. The loop hears why from its inbox. */
  readonly isEnding: boolean;
  /** True while what was under way when the process died is taken in again: until that is done, nothing from outside is heeded. */
  readonly isCatchingUp: boolean;
  /** Subagents that were under way when the process died, and that nobody has taken in again. */
  readonly strayIds: readonly AgentId[];
  /** Sets going again what worked in the background when the agent was paused. */
  reviveSubagents(childIds: readonly AgentId[]): void;
  /** True if one of these subagents is paused. */
  hasPaused(childIds: readonly AgentId[]): boolean;
  /** Working and idle subagents, as the model is told of them after a compaction; undefined: it has none. */
  subagentList(): string | undefined;
  /** True if a paused subagent, at any depth below, has to be reached first: it must end, or its question was answered. */
  hasDueBelow(): boolean;
  /** What a chain of hooks needs to run at this step. */
  hookBounds(stepNumber: number): HookBounds<HookContext>;
  /** How long a stop condition may take. */
  readonly conditionBounds: Bounds & { readonly timeoutMs: number };
  /** The answer to a question that was open when the run was paused. */
  answerTo(questionId: QuestionId): Answer | undefined;
  /** Time since its start that does not count: somebody was asked, or the run was paused. */
  pausedMs(): number;
  /** What the agent and its subtree have consumed. */
  usage(): UsageReport;
  record(body: EventBody, place?: EventPlace): void;
  /** A step was opened: that is kept, so that it is completed whatever happens. */
  keepStep(state: AgentState): void;
}

/** What comes to an agent from outside. Only the loop and its phases look (L1). */
export interface Inbox {
  /** True if a stop signal has come since they were last taken. */
  readonly hasSignals: boolean;
  /** Gives the stop signals that came since it was last asked. */
  takeSignals(): readonly StopSignal[];
  /** True while the caller wants the run to pause. */
  readonly isPauseRequested: boolean;
  /** Why the calls of the open step are to be left out; undefined: they are not. Forgotten once given. */
  takeSkip(): string | undefined;
  /** True if somebody has written to the agent since the last time. */
  readonly hasMessages: boolean;
  /** Gives what was written to the agent since the last time. Its senders are told when the step begins. */
  takeMessages(): readonly Letter[];
  /** Tells the senders of what was taken that it is before the model in this step (X23). */
  confirmDelivery(stepNumber: number): void;
}

/** Something that was written to an agent. */
export interface Letter {
  readonly text: string;
  /** The subagent in the background whose result it is; undefined: somebody steers the agent. */
  readonly from: AgentId | undefined;
  /** The agent that steers it; undefined: somebody outside the tree. */
  readonly by?: AgentId | undefined;
}

/** Where in an execution an event belongs. */
export interface EventPlace {
  readonly stepId?: StepId;
  readonly callId?: CallId;
  /** From 2: a further call that hooks made of one model call. */
  readonly modelCallNumber?: number;
}

/** The ids of one agent in one execution. */
export interface AgentIdentity {
  readonly runId: RunId;
  readonly agentId: AgentId;
  readonly parentAgentId: AgentId | null;
  readonly agentPath: string;
  readonly depth: number;
  readonly executionId: ExecutionId;
}
