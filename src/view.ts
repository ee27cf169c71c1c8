// Entry `espalier/view`: what a run looks like from outside, folded from its events, and the data in which it is shown.

export { RunFold, type RunEnd } from "./view/run-fold.ts";
export type { AgentFold, AgentPlace } from "./view/agent-fold.ts";
export type { AgentEnd, ExecutionEnd } from "./view/agent-rest.ts";
export type { AttemptFold, CallFold, CallUnderWay, StepFold } from "./view/step-fold.ts";
export type { SpanEnding, SpanKind, SpanList } from "./view/span-list.ts";
export {
  RunRecord,
  type RecordedRequest,
  type RecordedStepRef,
  type TakeEvent,
} from "./orchestrator/durability/run-record.ts";
export type { Deferral, StepReply } from "./agent/agent-state.ts";
export type { OpenRecordedStep, RecordedExecution } from "./orchestrator/durability/agent-steps.ts";
export { agentDetail, openToolCalls } from "./view/agent-row.ts";
export { runHead, runListing, type ListedRun, type Viewpoint } from "./view/run-row.ts";
export {
  ACTIVITIES,
  SPAN_ENDS,
  SPAN_KINDS,
  SPAN_WIDTH,
  type ActionRequest,
  type ActionResult,
  type ActivityName,
  type AgentDetail,
  type AgentRow,
  type AxisAmounts,
  type CallDetail,
  type Cause,
  type FeedEntry,
  type OwnerProcess,
  type LogEntry,
  type OpenToolCall,
  type QuestionRow,
  type RejectedAnswer,
  type RefusalRow,
  type RunOverview,
  type RunFoldStatus,
  type RunHead,
  type RunListing,
  type RunPatch,
  type RunRow,
  type RunRowStatus,
  type RunSnapshot,
  type RunSummary,
  type RunTime,
  type ShownMessage,
  type SpanNumbers,
  type Spent,
  type StepDetail,
  type ViewerAction,
  type ViewerError,
  type ViewerMeta,
} from "./view/viewer-data.ts";
