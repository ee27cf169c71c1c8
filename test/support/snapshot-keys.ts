// The keys of an agent's snapshot as an explicit list, since the stored form is a promise.

import { CONTEXT_KEYS, TIMING_KEYS } from "./step-context.ts";

export const words = (list: string): readonly string[] => list.split(" ");
const below = (path: string, list: string): readonly string[] =>
  words(list).map((key) => `${path}.${key}`);

/** Keys of the parts of a message. */
function partKeys(path: string): string {
  const keys = words("type text mediaType name uri data");
  return keys.map((key) => `${path}[].${key}`).join(" ");
}

const REASON = "code data message";
const CALL = "argumentsText callId toolName";
const ASSISTANT = "refusal writtenBy";
const PARTS = "type text data length callId kind";
const CONTENT = partKeys("content");
const TAG = "executionId stepNumber number agentId note";
const EXECUTION = [
  "call.argumentsText call.callId call.toolName arguments isRepaired type text fullText structured errorCode causeCode severity blockedBy metadata",
  "attachments[].type attachments[].mediaType attachments[].name attachments[].uri attachments[].data",
  "attachments[].text isTextOnly startedAtMs endedAtMs startedAgentIds[] reportedAgentIds[]",
].join(" ");
const REQUEST_KEYS = [
  `role task ${partKeys("task")} background includeResultsFrom[] allowedTools[] deniedTools[]`,
  "roleDefinition.instructions roleDefinition.tools[] roleDefinition.model roleDefinition.steps",
].join(" ");

/** A new key here is a new version of the paused run's form: add a reader for the old one. */
export const SHARED_KEYS = [
  ...words(".status .executionId"),
  ...below(".reason", REASON),
  ...below(".conversation.messages[]", `role text origin callId toolName ${ASSISTANT} ${CONTENT}`),
  ...below(".conversation.messages[].toolCalls[]", CALL),
  ...below(".conversation.messages[].parts[]", PARTS),
  ...below(".conversation.prefix", "messageCount tokens"),
  ".conversation.added",
  ...below(".conversation.tags[]", TAG),
  ...below(".conversation.dropped[].tag", TAG),
  ...below(
    ".conversation.dropped[].message",
    `role text origin callId toolName ${ASSISTANT} ${CONTENT}`,
  ),
  ...below(".conversation.dropped[].message.toolCalls[]", CALL),
  ...below(".conversation.dropped[].message.parts[]", PARTS),
  ...below(".log.steps[]", "stepId number"),
  ...below(".log.steps[].context", CONTEXT_KEYS),
  ...below(".log.steps[].telemetry.timing", TIMING_KEYS),
  ...below(".log.compactions[]", "afterStep before[].type before[].from before[].to"),
  ...below(
    ".log.compactions[].before[].messages[]",
    `role text origin callId toolName ${ASSISTANT} ${CONTENT}`,
  ),
  ...below(".log.compactions[].before[].messages[].toolCalls[]", CALL),
  ...below(".log.compactions[].before[].messages[].parts[]", PARTS),
  ...below(".log.steps[].error", REASON),
  ...below(".log.steps[].io", "finishReason isResult messageCount refusal text"),
  ...below(".log.steps[].tools.calls[]", CALL),
  ...below(".log.steps[].tools.executions[]", EXECUTION),
  ...below(".log.steps[].tools.executions[].subtasks[]", REQUEST_KEYS),
  ...below(".log.steps[].telemetry", "elapsedMs endedAtMs startedAtMs usage"),
  ...below(".log.signals[]", "name source isOvershoot"),
  ...below(".log.signals[].reason", REASON),
  ...below(".log.errors[]", REASON),
  ...below(
    ".log",
    "output isTaskHandled uselessReplies overflows vetoes waits background[] isAwaiting fired",
  ),
  ...below(".log.outputParse", "schemaHash written"),
  ...below(".log.sections[]", "name text"),
  ...below(".log.failures", "toolErrors consecutiveErrors retryErrors retriesByTool"),
  ...below(".log.subtasks[]", "childId text"),
  ...below(".log.subtasks[].request", REQUEST_KEYS),
  ...below(".telemetry", "usage startedAtMs pausedBeforeMs budgetWaitMs"),
];
export const ENDED_KEYS = [".telemetry.endedAtMs"];
export const STEP_KEYS = [
  ...below(".step", "stepId number startedAtMs messageCount isEvaluated hasAppliedResults usage"),
  ...below(".step.context", CONTEXT_KEYS),
  ...below(".step.timing", TIMING_KEYS),
  ...below(".step.reply", "finishReason message.refusal message.role message.text"),
  ".step.reply.message.writtenBy",
  ...below(".step.reply.message.parts[]", PARTS),
  ...below(".step.reply.message.toolCalls[]", CALL),
  ...below(".step.executions[]", EXECUTION),
  ...below(".step.executions[].subtasks[]", REQUEST_KEYS),
  ...below(".step.deferrals[]", "argumentsText callHash callId childId type startedAgentIds[]"),
  ...below(".step.deferrals[]", "schemaHash fingerprint isUnverified parsedArguments"),
  ...below(".step.deferrals[].subtasks[]", REQUEST_KEYS),
  ...below(".step.deferrals[].question", "questionId kind agentId agentPath callId toolName"),
  ...below(".step.deferrals[].question", "arguments argumentsHash reason askedAtMs deadlineAtMs"),
  ...below(".step.deferrals[].question", "writtenArguments unparsed"),
  ...below(".step.hiddenTools[]", "toolName filter"),
  ...below(".step.lastStep", "accountPath maximum"),
  ...below(".step.limit", "name source isOvershoot"),
  ...below(".step.limit.reason", REASON),
];
