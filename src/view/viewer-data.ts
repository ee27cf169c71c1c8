// What the server of the viewer sends to its page, as JSON (`/api/v1`): lists of runs, one run as rows, what changed of it, and the content of
// steps, which is read only when a step is opened. Types alone, so that server, page and command agree on them.

import type { ContextManifest } from "../protocol/context-manifest.ts";
import type { AgentId, RunId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { Answer, Question } from "../protocol/question.ts";
import type { ErrorRecord, StopReason, TerminalStatus } from "../protocol/stop.ts";
import type { ToolOutcomeType } from "../protocol/tool-outcome.ts";
import type { StepTiming } from "../protocol/step-timing.ts";
import type { StepContext } from "../protocol/step-context.ts";
import type { SpawnRefusal } from "../protocol/subagent.ts";
import type { Usage } from "../protocol/usage.ts";

/**
 * How a run stands, for a person. `needs_you`: it waits for an answer, whether a process leads it or it is paused; `lost`: it was under way, and its
 * process gave no sign of life for 30 s; `waiting`: it has something to do, and no process leads it; `ended`: how is known once it is folded.
 */
export type RunRowStatus = RunFoldStatus | "lost" | "waiting" | "ended";

/** How a run stands by its events alone. */
export type RunFoldStatus = "needs_you" | "working" | "paused" | TerminalStatus;

/** The process that leads a run. */
export interface Leader {
  readonly hostname: string;
  readonly processId: number;
  /** True if it is the process of the server: what is asked of the run is done at once. */
  readonly isHere: boolean;
}

/** What a store knows of a run. */
export interface RunListing {
  readonly runId: RunId;
  readonly title: string;
  readonly status: RunRowStatus;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** Null: nobody leads it. */
  readonly leader: Leader | null;
}

/** A run in a list. What only its fold knows is left out until it was folded once, or has ended. */
export interface RunRow extends RunListing, Partial<RunSummary> {
  readonly questions?: readonly QuestionRow[] | undefined;
}

/** What stands above the tree of a run. */
export interface RunHead extends RunListing, Omit<RunOverview, "status"> {}

/** What a row of a list has of the fold of a run. */
export interface RunSummary {
  readonly agents: number;
  readonly running: number;
  readonly failedAgents: number;
  /** Until its end, or until its last event; pauses count. */
  readonly durationMs: number;
  readonly spent: Spent;
  readonly budget: AxisAmounts;
  /** Of the budget; what is held for calls in flight still counts as left. */
  readonly left: AxisAmounts;
  /** Why it ended as it did, or is paused. */
  readonly reason?: Pick<StopReason, "code" | "message"> | undefined;
  readonly forkedFrom?: { readonly runId: RunId; readonly stepNumber: number } | undefined;
}

/** What the events of a run say of it as a whole. */
export interface RunOverview extends RunSummary {
  readonly status: RunFoldStatus;
  readonly traceId: string;
  readonly startedAtMs: number;
  /** When its last event happened, by the clock of the run. */
  readonly lastAtMs: number;
  readonly endedAtMs?: number | undefined;
  readonly refusals: number;
  readonly toolErrors: number;
  /** For how long it was paused, or nobody led it. */
  readonly pausedMs: number;
  /** For how long its clock stood still besides, because all that was left was waiting for answers. */
  readonly stoodMs: number;
}

/** By axis of the budget; limited axes only. */
export type AxisAmounts = Readonly<Record<string, number>>;

/** Of which calls no price is known is part of the sum: unknown is never zero. */
export type Spent = Pick<Usage, "totalTokens" | "costMicroUsd" | "unpricedCalls">;

/** A question and where it stands. Arguments are whole. */
export interface QuestionRow extends Question {
  readonly runId: RunId;
  readonly role: string;
  readonly task: string;
}

/**
 * What an agent is doing, as a number, so that thousands of them are small: its place in `ACTIVITIES`.
 */
export const ACTIVITIES = [
  "preparing",
  "queued",
  "thinking",
  "retrying",
  "calling",
  "delegating",
  "asking",
  "paused",
  "completed",
  "stopped",
  "failed",
  "cancelled",
] as const;
/** What an agent is doing. `calling`: at least one tool is at work; `delegating`: it waits for subagents alone; `asking`: for an answer alone. */
export type ActivityName = (typeof ACTIVITIES)[number];

/** What a span shows, by its place in `SPAN_KINDS`. `wait`: for a subagent; `queue`: for a slot or a lease; `park`: the run was at rest. */
export const SPAN_KINDS = ["chat", "tool", "wait", "queue", "retry", "ask", "park"] as const;
/** How a span ended, by its place in `SPAN_ENDS`. */
export const SPAN_ENDS = ["open", "ok", "failed", "rejected", "cut"] as const;

/**
 * Spans of an agent, five numbers each: the kind; beginning and end in milliseconds after the start of the run, the end -1 while it is open; how
 * it ended; the number of its step, 0 for none.
 */
export type SpanNumbers = readonly number[];
/** Numbers of one span. */
export const SPAN_WIDTH = 5;

/** An agent in a row of its tree, as a tuple: thousands of them are sent at once. Rows stand in the order in which agents were started. */
export type AgentRow = readonly [
  /** The index of the row of its parent; -1: it is the root. */
  parent: number,
  id: AgentId,
  /** The last part of its path, such as `surveyor#3`. */
  name: string,
  role: string,
  /** Its first 200 characters; empty while content is not shown. */
  task: string,
  startedAtMs: number,
  /** -1: it has not ended. */
  endedAtMs: number,
  activity: number,
  /** What it waits for or calls, or why it rests: `read`, `2 subagents`, `steps_limit`. */
  note: string,
  /** Since when it does what it does. */
  sinceMs: number,
  /** The step it is at, from 1; 0 before the first. */
  step: number,
  ownTokens: number,
  ownMicroUsd: number,
  ownUnpricedCalls: number,
  treeTokens: number,
  treeMicroUsd: number,
  treeUnpricedCalls: number,
  /** Spawns of its own that were refused. */
  refusals: number,
  /** Calls of its own that failed. */
  toolErrors: number,
];

/** What a run failed of or was stopped by, or what went wrong in it, or was stopped or refused by a limit: one of them. */
export interface Cause {
  readonly agentId: AgentId;
  readonly agentPath: string;
  readonly step?: number | undefined;
  /** The call that failed. */
  readonly toolName?: string | undefined;
  readonly code: string;
  readonly message: string;
  /** It is no error: a limit stopped the agent (of a budget, of time, of its errors), or refused its spawn. */
  readonly isLimit?: true;
  readonly atMs: number;
}

/** A run as it is after a record. `Head`: `RunOverview`, as long as nobody has said what the store knows. */
export interface RunSnapshot<Head = RunHead> {
  /** The number of the last record in it: the feed goes on after it. */
  readonly record: number;
  readonly run: Head;
  readonly agents: readonly AgentRow[];
  /** Of each agent, by its index. */
  readonly spans: readonly SpanNumbers[];
  /** Open ones, in the order in which they were asked. */
  readonly questions: readonly QuestionRow[];
  /** What `RunFold.causes` gives. */
  readonly causes: readonly Cause[];
  /** Refused spawns, newest last: these have no row of an agent. */
  readonly refusals: readonly RefusalRow[];
}

/** A spawn that was refused. */
export interface RefusalRow {
  /** The index of the agent that asked. */
  readonly agent: number;
  /** The step in which it asked; 0: before the first. */
  readonly step: number;
  readonly atMs: number;
  readonly role: string;
  readonly code: SpawnRefusal["code"];
  readonly message: string;
}

/** What is new of a run since an earlier record: whole rows of the agents that were touched, and their spans from one on. */
export interface RunPatch<Head = RunHead> {
  readonly record: number;
  readonly run: Head;
  readonly agents: readonly (readonly [index: number, row: AgentRow])[];
  /** `from`: the place of the first number that is new or another; what stood there and after it goes. */
  readonly spans: readonly (readonly [index: number, from: number, numbers: SpanNumbers])[];
  /** Left out: they are the same. */
  readonly questions?: readonly QuestionRow[] | undefined;
  readonly causes?: readonly Cause[] | undefined;
  /** New ones, which follow those before. Left out: there are none. */
  readonly refusals?: readonly RefusalRow[] | undefined;
}

/**
 * An entry of the feed of a run, an event stream with `id: <record>`. `patch`: apply it; `reset`: fetch the snapshot again; `lagging`: the reader was too
 * slow, and is to do the same; `end`: the run has ended, nothing more comes.
 */
export type FeedEntry =
  | { readonly type: "patch"; readonly patch: RunPatch }
  | { readonly type: "reset" | "lagging" | "end" };

/** What the page asks first. */
export interface ViewerMeta {
  readonly version: string;
  /** False: the content of prompts, tasks, calls and results is not sent, and why. */
  readonly content: boolean;
  readonly actions: readonly ViewerAction[];
  /** What the store is called: the name of its file. */
  readonly store: string;
  readonly jaegerUrl?: string | undefined;
  /** Milliseconds since 1970, by the clock of the server. */
  readonly nowMs: number;
}

/** What can be asked of a run by the page. `resume`: needs a process with its roles, so only a viewer with an orchestrator has it. */
export type ViewerAction = "answer" | "cancel" | "pause" | "resume";

/** `key`: the same one twice is done once. */
export type ActionRequest = { readonly key: string } & (
  | { readonly type: "answer"; readonly answers: readonly Answer[] }
  | { readonly type: "cancel"; readonly message?: string | undefined }
  | { readonly type: "pause" }
  | { readonly type: "resume" }
);

/** 202. `isLed`: a process leads the run and does it within some seconds; false: it is done when one goes on with the run. */
export interface ActionTaken {
  readonly isLed: boolean;
  /** Questions that are still open, after answers. */
  readonly open?: readonly Question[] | undefined;
}

/** What every refused request says, with a status of 400 or more. */
export interface ViewerError {
  readonly code: string;
  readonly message: string;
}

/** What is known of an agent without the content of its steps. */
export interface AgentDetail {
  readonly agentId: AgentId;
  readonly agentPath: string;
  readonly depth: number;
  readonly role: string;
  readonly provider: string;
  readonly model: string;
  readonly task: string;
  readonly status: ActivityName;
  readonly reason?: StopReason | undefined;
  readonly error?: ErrorRecord | undefined;
  readonly executions: number;
  readonly startedAtMs: number;
  readonly endedAtMs?: number | undefined;
  /** What it could spend when it began; limited axes only. */
  readonly budget: AxisAmounts;
  /** Undefined until it has been charged something. */
  readonly left?: AxisAmounts | undefined;
  readonly own: Spent;
  readonly subtree: Spent;
  readonly steps: readonly StepRow[];
  /** What it was given besides instructions and task; undefined for the root. */
  readonly given?: ContextManifest | undefined;
  readonly refusals: readonly RefusalRow[];
  /** Its last text, once it has ended; left out while content is not shown. */
  readonly text?: string | undefined;
}

/** A step of an agent. */
export interface StepRow {
  /** The execution of the agent, from 1. */
  readonly execution: number;
  readonly number: number;
  readonly startedAtMs: number;
  readonly endedAtMs?: number | undefined;
  readonly calls: readonly CallRow[];
  readonly usage?: Usage | undefined;
  readonly error?: ErrorRecord | undefined;
}

/** A call of a step. */
export interface CallRow {
  readonly callId: string;
  readonly toolName: string;
  readonly outcome: ToolOutcomeType | "open";
  readonly errorCode?: string | undefined;
  readonly durationMs?: number | undefined;
  /** The index of the agent that it started or let go on. */
  readonly child?: number | undefined;
}

/** One step with its content. */
export interface StepDetail extends StepRow {
  readonly agentId: AgentId;
  /** How many steps the execution has so far. */
  readonly of: number;
  readonly context: StepContext;
  readonly timing?: StepTiming | undefined;
  readonly request?:
    | {
        readonly messages: readonly ShownMessage[];
        /** So many at its beginning were in the request of the step before, too. */
        readonly sameAsBefore: number;
        readonly toolNames: readonly string[];
      }
    | undefined;
  /** What the model wrote, as far as it is known. */
  readonly text: string;
  readonly refusal?: string | undefined;
  readonly finishReason?: string | undefined;
  readonly callDetails: readonly CallDetail[];
}

/** A message of a request. */
export interface ShownMessage {
  readonly message: Message;
  /** The agent that it was inherited from, by its path. */
  readonly from?: string | undefined;
}

/** A call of a step, with its content. */
export interface CallDetail extends CallRow {
  readonly argumentsText: string;
  /** What the model reads of the result. */
  readonly result?: string | undefined;
  readonly error?: ErrorRecord | undefined;
  /** Characters of the whole result, if the model reads fewer. */
  readonly resultCharacters?: number | undefined;
}

/** A call of a tool that has begun and not ended: if the process of the run is gone, the tool may run again when the run goes on. */
export interface OpenToolCall {
  readonly agentPath: string;
  readonly toolName: string;
}

/** A line of the log of a run: an event, without content while that is not shown. */
export interface LogEntry {
  readonly record: number;
  readonly event: Readonly<Record<string, unknown>>;
}
