// What the server of the viewer sends to its page, as JSON (`/api/v1`): lists of runs, one run as rows, what changed of it, and the content of
// steps, which is read only when a step is opened. Types alone, so that server, page and command agree on them.

import type { InheritanceRecord } from "../protocol/context-manifest.ts";
import type { JsonValue } from "../kernel/json.ts";
import type { AgentId, CallId, RunId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { Answer, Question } from "../protocol/question.ts";
import type { ErrorRecord, StopReason, TerminalStatus } from "../protocol/stop.ts";
import type { StepTiming } from "../protocol/step-timing.ts";
import type { StepContext } from "../protocol/step-context.ts";
import type { SpawnRefusal } from "../protocol/subagent.ts";
import type { Usage } from "../protocol/usage.ts";
import type { CallFold, StepFold } from "./step-fold.ts";

/**
 * How a run stands, for a person. `input_required`: it waits for an answer, whether a process leads it or it is paused; `lost`: it was under way, and its
 * process gave no sign of life for 30 s; `waiting`: it has something to do, and no process leads it; `ended`: how is known once it is folded.
 */
export type RunRowStatus = RunOverview["status"] | "lost" | "waiting" | "ended";

/** The process that leads a run. */
export interface OwnerProcess {
  /** The machine. */
  readonly hostname: string;
  /** The process, as that machine numbers it. */
  readonly processId: number;
  /** True if it is the process of the server: what is asked of the run is done at once. */
  readonly isThisProcess: boolean;
}

/** What a store knows of a run. */
export interface RunListing {
  /** Which run. */
  readonly runId: RunId;
  /** In what words it was started, up to 200 characters; the role alone while content is not shown. */
  readonly title: string;
  /** As the store and, once it is folded, its events say. */
  readonly status: RunRowStatus;
  /** When the run was made, in milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** When it was last written to or changed hands, in milliseconds since the epoch. */
  readonly updatedAtMs: number;
  /** Null: no process leads it. */
  readonly owner: OwnerProcess | null;
}

/** A run in a list. What only its fold knows is left out until it was folded once, or has ended. */
export interface RunRow extends RunListing, Partial<RunSummary> {
  /** Those that are open now, in the order in which they were asked. Left out: it was not folded yet. */
  readonly questions?: readonly QuestionRow[] | undefined;
}

/** What stands above the tree of a run. */
export interface RunHead extends RunListing, Omit<RunOverview, "status"> {}

/** The time of a run until a moment. Until a later one: `timeAt`. */
export interface RunTime {
  /**
   * When it began, in milliseconds since the epoch. If nothing before a resumption was seen: when it
   * was resumed.
   */
  readonly startedAtMs: number;
  /** When it ended, in milliseconds since the epoch. Left out: it has not; a pause is no end. */
  readonly endedAtMs?: number | undefined;
  /**
   * The time of the run: from its start to its end, or until now if it has not ended. Rests count.
   * Of a fold without the facts of a store: until its last event.
   */
  readonly durationMs: number;
  /**
   * Part of `durationMs` in which the run rested: it was paused, no process ran it, or all of its
   * agents waited for answers.
   */
  readonly idleMs: number;
  /** True while it rests. */
  readonly isIdle: boolean;
}

/** What a row of a list has of the fold of a run. */
export interface RunSummary extends RunTime {
  /** Agents that were started so far, the root among them. */
  readonly agentCount: number;
  /** Agents that are not at rest: neither paused nor ended. */
  readonly running: number;
  /** Part of `running`: agents whose next model call waits for budget. */
  readonly awaitingBudget: number;
  /** Agents whose last execution failed. */
  readonly failedAgents: number;
  /** By all its agents together. */
  readonly spent: Spent;
  /** What the run may spend, grants included. Limited axes only. */
  readonly budget: Readonly<Record<string, number>>;
  /** Of the budget; what is held for calls in flight still counts as left. Limited axes only. */
  readonly remaining: Readonly<Record<string, number>>;
  /** Why it ended as it did, or is paused. */
  readonly reason?: Pick<StopReason, "code" | "message"> | undefined;
  /** The run of which it is a fork. Left out: it is none. */
  readonly forkedFrom?:
    | {
        /** The other run. */
        readonly runId: RunId;
        /** The step of its root after which the fork goes its own way; 0: before the first. */
        readonly stepNumber: number;
      }
    | undefined;
}

/** What the events of a run say of it as a whole. */
export interface RunOverview extends RunSummary {
  /** As its events say; whether a process leads it, the store knows. */
  readonly status: "input_required" | "working" | "paused" | TerminalStatus;
  /** 32 hexadecimal digits: the OpenTelemetry trace that shows the run. */
  readonly traceId: string;
  /** When its last event happened, in milliseconds since the epoch, by the clock of the run. */
  readonly lastAtMs: number;
  /** Models for which it was charged without a known price, by their ids. Left out: there are none. */
  readonly unpricedModels?: readonly string[] | undefined;
  /** Spawns that were refused. */
  readonly refusalCount: number;
  /** Tool calls that failed or had to be corrected. */
  readonly toolErrorCount: number;
}

/** By axis of the budget; limited axes only. */
export type AxisAmounts = Readonly<Record<string, number>>;

/** An amount spent. A cost of which no part is known is null. */
export type Spent = Pick<Usage, "totalTokens" | "costUsd" | "unpricedCalls">;

/** A question and where it stands. Arguments are whole. */
export interface QuestionRow extends Question {
  /** Of the agent that asks. */
  readonly runId: RunId;
  /** Of the agent that asks; empty if that was not seen. */
  readonly role: string;
  /** Of the agent that asks, whole; empty if that was not seen, and while content is not shown. */
  readonly task: string;
  /** The last answer to it that came to nothing, so that it is open still. Left out: none did. */
  readonly rejectedAnswer?:
    | {
        /** The number of the answer in the mailbox of the run, from 1. */
        readonly number: number;
        /** Why: its arguments do not fit the call, for instance. Empty while content is not shown. */
        readonly problem: string;
      }
    | undefined;
  /** The title of its run. Only in the list of the questions of all runs. */
  readonly runTitle?: string | undefined;
}

export type RejectedAnswer = NonNullable<QuestionRow["rejectedAnswer"]>;

/**
 * What an agent is doing, as a number, so that thousands of them are small: its place in `ACTIVITIES`.
 */
export const ACTIVITIES = [
  "preparing",
  "awaiting_budget",
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

/**
 * What a span shows, by its place in `SPAN_KINDS`. `wait`: for a subagent; `budget`: until calls in
 * flight give room back; `queue`: for a slot or a provider limit; `busy`: the process was busy
 * before it sent a request; `park`: the run was at rest.
 */
export const SPAN_KINDS = [
  "chat",
  "tool",
  "wait",
  "budget",
  "queue",
  "busy",
  "retry",
  "ask",
  "park",
] as const;
/** How a span ended, by its place in `SPAN_ENDS`. */
export const SPAN_ENDS = ["open", "ok", "failed", "rejected", "cut"] as const;

export type SpanNumbers = readonly number[];
/**
 * How many numbers a span has: its kind; its beginning and its end in milliseconds after the start of the run, the end -1 while it is open;
 * how it ended; the number of its step, 0 for none; for `budget` the index of the agent whose budget lacks room, -1 if unknown.
 */
export const SPAN_WIDTH = 6;

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
  /** What it waits for or calls, or why it rests: `read`, `2 subagents`, `step_limit`. */
  note: string,
  /** Since when it does what it does. */
  sinceMs: number,
  /** The step it is at, from 1; 0 before the first. */
  step: number,
  ownTokens: number,
  /** Null: not known. */
  ownUsd: number | null,
  ownUnpricedCalls: number,
  treeTokens: number,
  /** Null: not known. */
  treeUsd: number | null,
  treeUnpricedCalls: number,
  /** Spawns of its own that were refused. */
  refusals: number,
  /** Calls of its own that failed. */
  toolErrors: number,
];

/** What a run failed of or was stopped by, or what went wrong in it, or was stopped or refused by a limit: one of them. */
export interface Cause {
  /** The agent in which it went wrong. */
  readonly agentId: AgentId;
  /** Its place in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** The step it was at, from 1. Left out: it had taken none. */
  readonly step?: number | undefined;
  /** The call that failed. */
  readonly toolName?: string | undefined;
  /** Of its error, or else of the reason for which it ended; of a call, the code of its error, or else its outcome. */
  readonly code: string;
  /** What happened, for a person. */
  readonly message: string;
  /** It is no error: a limit stopped the agent (of a budget, of time, of its errors), or refused its spawn. */
  readonly isLimit?: true;
  /** When, in milliseconds since the epoch: when the agent came to rest, or when the call ended. */
  readonly atMs: number;
}

/** A run as it is after a record. `Head`: `RunOverview`, as long as the facts of the store are not added. */
export interface RunSnapshot<Head = RunHead> {
  /** The number of the last record in it: the feed continues after it. */
  readonly record: number;
  /** What stands above its tree. */
  readonly run: Head;
  /** In the order in which they were first started; the root first. */
  readonly agents: readonly AgentRow[];
  /** The spans of each agent, by its index: `SPAN_WIDTH` numbers each. */
  readonly spans: readonly (readonly number[])[];
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
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  /** What was to be started, as the model wrote it. */
  readonly role: string;
  /** Why. */
  readonly code: SpawnRefusal["code"];
  /** Why, in words, as the model read it. */
  readonly message: string;
}

/** What is new of a run since an earlier record: whole rows of the agents that were touched, and their spans from one on. */
export interface RunPatch<Head = RunHead> {
  /** The number of the last record in it: the next entry continues after it. */
  readonly record: number;
  /** As it is now, whole. */
  readonly run: Head;
  /** Rows of the agents that were touched, each with its index; a new agent has the next one. */
  readonly agents: readonly (readonly [index: number, row: AgentRow])[];
  /** `from`: the place of the first number that is new or another; what stood there and after it goes. */
  readonly spans: readonly (readonly [index: number, from: number, numbers: readonly number[]])[];
  /** Left out: they are the same. */
  readonly questions?: readonly QuestionRow[] | undefined;
  /** All of them, in place of those before. Left out: they are the same. */
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
  /** Of espalier, as its package has it. */
  readonly version: string;
  /**
   * False: the content of prompts, tasks, calls and results is not sent. `redacted`: it is changed by
   * the `redact` of the viewer, so arguments cannot be edited.
   */
  readonly content: boolean | "redacted";
  /** Those that are offered; none: it is a viewer that only shows. */
  readonly actions: readonly ViewerAction[];
  /** What the store is called: the name of its file. */
  readonly store: string;
  /** Where the traces can be looked at, if the viewer was given the address. */
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

/** The reply to an action that was taken, with the status 202: it is requested, not yet done. */
export interface ActionResult {
  /** True: a process leads the run and does it within some seconds; false: it is done when a process continues the run. */
  readonly hasOwner: boolean;
  /** Questions that are still open, after answers. */
  readonly openQuestions?: readonly Question[] | undefined;
}

/** What every refused request says, with a status of 400 or more. */
export interface ViewerError {
  /** Of an `EspalierError`, or one of the viewer's own such as `content_off`. Match on it. */
  readonly code: string;
  /** What was expected, what came, and what to do. */
  readonly message: string;
}

/** What is known of an agent without the content of its steps. */
export interface AgentDetail {
  /** Which agent. */
  readonly agentId: AgentId;
  /** Place in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** 0 for the root. */
  readonly depth: number;
  /** What it is. */
  readonly role: string;
  /** Of its model. */
  readonly provider: string;
  /** The id of its model. */
  readonly model: string;
  /** Of its last execution, whole; empty while content is not shown. */
  readonly task: string;
  /** What it does, or how it came to rest. */
  readonly status: ActivityName;
  /** Why it rests. Left out: it does not. */
  readonly reason?: StopReason | undefined;
  /** What it failed of. Left out: it did not fail. */
  readonly error?: ErrorRecord | undefined;
  /** How often it was given a task, the first included. */
  readonly executionCount: number;
  /** When it was first started, in milliseconds since the epoch. */
  readonly startedAtMs: number;
  /** When it last ended, in milliseconds since the epoch. Left out: it runs or is paused. */
  readonly endedAtMs?: number | undefined;
  /** What it could spend when it began; limited axes only. */
  readonly budget: Readonly<Record<string, number>>;
  /** Of its budget, after it was last charged; left out until then. Limited axes only. */
  readonly remaining?: Readonly<Record<string, number>> | undefined;
  /** What the agent itself has used of its budget, without its subagents. Limited axes only. */
  readonly used: Readonly<Record<string, number>>;
  /** By its own calls. */
  readonly own: Spent;
  /** By its own calls and those of all below it. */
  readonly subtree: Spent;
  /** Of all its executions, in order. */
  readonly steps: readonly StepFold[];
  /** What it was given besides instructions and task; undefined for the root. */
  readonly inherited?: InheritanceRecord | undefined;
  /** Spawns of its own that were refused, in order. */
  readonly refusals: readonly RefusalRow[];
  /** Its typed result, once it has ended. Left out if it has none, and while content is not shown. */
  readonly output?: JsonValue | undefined;
  /** Its last text, once it has ended; left out while content is not shown. */
  readonly text?: string | undefined;
}

/** One step with its content. */
export interface StepDetail extends StepFold {
  /** Whose step it is. */
  readonly agentId: AgentId;
  /** How many steps the execution has so far. */
  readonly stepCount: number;
  /** What it began with, without `shown`: that is in `request`. */
  readonly context: StepContext;
  /** What the time went into. Left out: it is not completed. */
  readonly timing?: StepTiming | undefined;
  /** What the model was asked. Left out: not all of it was kept. */
  readonly request?:
    | {
        /** In order, without what providers sealed and without the bytes of attachments. */
        readonly messages: readonly {
          /** As the model read it, or what redaction leaves of it. */
          readonly message: Message;
          /** The agent that it was inherited from, by its path. */
          readonly from?: string | undefined;
        }[];
        /** So many at its beginning were in the request of the step before, too. */
        readonly sameAsBefore: number;
        /** The tools that the model was offered, in their order. */
        readonly toolNames: readonly string[];
      }
    | undefined;
  /** What the model wrote, as far as it is known. */
  readonly text: string;
  /** Set when the model declined to answer, in its own words. */
  readonly refusal?: string | undefined;
  /** Why the reply ended: a `FinishReason`. Left out: the model has not replied. */
  readonly finishReason?: string | undefined;
  /** All that the reply asks for, in call order. */
  readonly callDetails: readonly CallDetail[];
}

export type ShownMessage = NonNullable<StepDetail["request"]>["messages"][number];

/** A call of a step, with its content. */
export interface CallDetail extends Partial<CallFold> {
  /** As the model named it, or as it was given one. Unique within its step. */
  readonly callId: CallId;
  /** The tool that was called. */
  readonly toolName: string;
  /** What came of it; `open`: nothing yet. */
  readonly outcome: CallFold["outcome"];
  /** As the model wrote them, or what redaction leaves of that. */
  readonly argumentsText: string;
  /** What the model reads of the result. Left out: it has not ended. */
  readonly result?: string | undefined;
  /** Code and, as its message, what the model reads. Left out: it succeeded, or has not ended. */
  readonly error?: ErrorRecord | undefined;
  /** Characters of the whole result, if the model reads fewer. */
  readonly resultCharacters?: number | undefined;
}

/** A call of a tool that has begun and not ended: if the process of the run is gone, the tool may run again when the run continues. */
export interface OpenToolCall {
  /** Whose call it is, as a place in the tree: `lead/researcher#2`. */
  readonly agentPath: string;
  /** The tool that was called. */
  readonly toolName: string;
}

/** A line of the log of a run: an event, without content while that is not shown. */
export interface LogEntry {
  /** The number of the record that holds it. */
  readonly record: number;
  /** As it stands in the journal; while content is not shown, without every text that a person, a model, a tool or a provider wrote. */
  readonly event: Readonly<Record<string, unknown>>;
}

/** A part of the list of runs. */
export interface RunPage {
  readonly runs: readonly RunRow[];
  /** The value of `before` for the next part. `undefined` if this is the last one. */
  readonly next?: RunId | undefined;
  /** True if more runs are under way, or paused, than are listed: the newest 500 of each. */
  readonly isCut?: true;
  /** The number of ended runs that a store in memory has forgotten to make room. */
  readonly forgotten?: number;
}

/** The open questions of all runs. */
export interface Inbox {
  readonly questions: readonly QuestionRow[];
  /** True if more runs are under way, or paused, than were read. */
  readonly isCut?: true;
}

/** A part of the log of a run. */
export interface LogPage {
  readonly entries: readonly LogEntry[];
  /** The value of `after` for the next part. `undefined` if this is the last one for now. */
  readonly next?: number;
}
