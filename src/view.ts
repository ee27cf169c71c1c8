// Entry `espalier/view`: what a run looks like from outside, folded from its events, and the data in which it is shown.

export { RunFold } from "./read-model/run-fold.ts";
export type { AgentFold, AgentPlace } from "./read-model/agent-fold.ts";
export type { AgentEnd, ExecutionEnd } from "./read-model/agent-end.ts";
export type { AttemptFold, CallFold, CallUnderWay, StepFold } from "./read-model/step-fold.ts";
export type { SpanEnding, SpanKind, SpanList } from "./read-model/span-list.ts";
export { RunRecord } from "./orchestrator/durability/run-record.ts";
export { rebuildRequest } from "./orchestrator/run/rebuild-request.ts";
export type { StepReply } from "./agent/agent-state.ts";
export type { RecordedExecution } from "./orchestrator/durability/agent-steps.ts";
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
  type Inbox,
  type OwnerProcess,
  type LogEntry,
  type LogPage,
  type OpenToolCall,
  type QuestionRow,
  type RefusalRow,
  type RunOverview,
  type RunHead,
  type RunListing,
  type RunPage,
  type RunPatch,
  type RunRow,
  type RunRowStatus,
  type RunSnapshot,
  type RunSummary,
  type RunTime,
  type Spent,
  type StepDetail,
  type ViewerAction,
  type ViewerError,
  type ViewerMeta,
} from "./read-model/viewer-data.ts";
