// Converts events to span attributes. Pure. Excludes all text from users, models and tools: tasks,
// messages, arguments, results, reasons of answers, error messages, and names that a model may have
// invented. The name of a role that a model wrote is included once its agent has started.
// OpenTelemetry omits attributes that are `undefined`.

import { type Attributes, type Span, SpanStatusCode } from "@opentelemetry/api";

import type { InheritanceRecord } from "../../protocol/context-manifest.ts";
import type { EventScope, EventBody } from "../../protocol/event.ts";
import type { SpanClosing, SpanMoment, SpanNote, SpanOpening } from "../../protocol/span-tree.ts";
import type { RemovedTool } from "../../protocol/tool-rule.ts";
import type { Usage } from "../../protocol/usage.ts";
import { setAttribute, setAttributes, shortenSpanName } from "./bounded-attributes.ts";
import {
  buildBudgetLimitKey,
  ESPALIER,
  FAILURE,
  GEN_AI,
  OPENAI,
  OPERATION,
  OUTCOME,
  RUN_STATE,
  SERVER,
  SHOWN_AS,
  SPAWN,
  buildSpanName,
  SUBTREE,
  UNKNOWN_TOOL,
  ERROR_TYPE,
} from "../gen-ai-attributes.ts";

/** Returns `researcher#2` for `lead/researcher#2`: the part that distinguishes siblings. */
export function readLastName(agentPath: string): string {
  return agentPath.slice(agentPath.lastIndexOf("/") + 1);
}

/**
 * Returns the name of an existing tool, which has a description. Other names may be invented by the
 * model.
 */
export function getKnownToolName({
  toolName,
  description,
}: EventBody<"tool.started" | "tool.resumed" | "tool.rejected">): string {
  return description === "" ? UNKNOWN_TOOL : toolName;
}

/** Name of a new span, and the few attributes that samplers need. */
export interface SpanStart {
  readonly name: string;
  readonly attributes: Attributes;
}

/** Returns how the span of an event begins. */
export function describeStart(body: SpanOpening, { agentPath }: EventScope): SpanStart {
  switch (body.type) {
    case "run.started":
    case "run.resumed":
      return buildSpanStart(OPERATION.workflow, body.role, { [GEN_AI.workflowName]: body.role });
    case "agent.started":
    case "agent.resumed":
      return buildSpanStart(OPERATION.agent, readLastName(agentPath), {
        [GEN_AI.agentName]: body.role,
        [GEN_AI.requestModel]: body.model,
      });
    case "model.requested":
      return buildSpanStart(OPERATION.model, body.model, {
        [GEN_AI.provider]: body.provider,
        [GEN_AI.requestModel]: body.model,
        [SERVER.address]: body.server?.address,
        [SERVER.port]: body.server?.port,
      });
    case "tool.started":
    case "tool.resumed":
    case "tool.rejected": {
      const tool = getKnownToolName(body);
      const start = buildSpanStart(OPERATION.tool, tool, { [GEN_AI.toolName]: tool });
      const { spawn } = body.type === "tool.rejected" ? body : {};
      return spawn === undefined ? start : { ...start, name: buildRejectedName(spawn) };
    }
  }
}

function buildSpanStart(operation: string, target: string, attributes: Attributes): SpanStart {
  const name = buildSpanName(operation, target);
  return { name, attributes: { [GEN_AI.operation]: operation, ...attributes } };
}

/**
 * Returns the name for a rejected subagent. A role that the model may have invented is left out.
 */
function buildRejectedName(spawn: RejectedSpawn): string {
  return [SPAWN, findKnownRole(spawn) ?? []].flat().join(" ");
}

/**
 * Sets the attributes for the position of a span in the tree and in the event log. `conversationId`
 * is the session of the run.
 */
export function setPlace(
  span: Span,
  { seq, scope: place }: SpanMoment,
  conversationId: string | undefined,
): void {
  if (conversationId !== undefined) setAttribute(span, GEN_AI.conversationId, conversationId);
  span.setAttribute(ESPALIER.eventSeq, seq);
  setAttribute(span, ESPALIER.runId, place.runId);
  setAttribute(span, ESPALIER.agentId, place.agentId);
  setAttribute(span, ESPALIER.agentPath, place.agentPath);
  span.setAttribute(ESPALIER.agentDepth, place.depth);
  if (place.parentAgentId !== null) setAttribute(span, ESPALIER.agentParentId, place.parentAgentId);
  if (place.executionId !== null) setAttribute(span, ESPALIER.executionId, place.executionId);
  if (place.stepId !== null) setAttribute(span, ESPALIER.stepId, place.stepId);
  if (place.callId !== null) setAttribute(span, GEN_AI.toolCallId, place.callId);
}

/**
 * Sets the other attributes that are known at the start of a span. `role` is the role of its agent.
 */
export function setOpening(span: Span, body: SpanOpening, role: string): void {
  switch (body.type) {
    case "run.started":
      setLimits(span, body);
      setAttribute(span, ESPALIER.queueWaitMs, body.queuedMs);
      if (body.forkedFrom === undefined) return;
      setAttribute(span, ESPALIER.forkOf, body.forkedFrom.runId);
      setAttribute(span, ESPALIER.forkStep, body.forkedFrom.stepNumber);
      setAttribute(span, ESPALIER.forkedFromTraceId, body.forkedFrom.traceId);
      return;
    case "run.resumed":
      setLimits(span, body);
      if (body.recovery === undefined) span.setAttribute(ESPALIER.runSegment, body.pauseCount + 1);
      setAttribute(span, ESPALIER.runLostCalls, body.recovery?.lostCallCount);
      setAttribute(span, ESPALIER.resumedFromTraceId, body.previousTraceId);
      setAttribute(span, ESPALIER.runPausedMs, body.pausedMs);
      setAttribute(span, ESPALIER.queueWaitMs, body.queuedMs);
      setAttribute(span, ESPALIER.runAnswers, body.answerCount);
      return;
    case "agent.started":
    case "agent.resumed":
      setAttribute(span, GEN_AI.agentDescription, body.description);
      for (const [axis, amount] of Object.entries(body.budget))
        setAttribute(span, buildBudgetLimitKey(axis), amount);
      return;
    case "model.requested":
      setAttribute(span, GEN_AI.requestMaxTokens, body.maxOutputTokens);
      setAttribute(span, GEN_AI.requestTemperature, body.temperature);
      if (body.settings !== undefined) setSettings(span, body.settings);
      setAttribute(span, GEN_AI.outputType, body.outputType);
      setAttribute(span, OPENAI.apiType, body.apiType);
      setAttribute(span, OPENAI.requestServiceTier, body.serviceTier);
      if (body.streaming) span.setAttribute(GEN_AI.requestStream, true);
      span.setAttribute(ESPALIER.requestMessages, body.messageCount);
      span.setAttribute(ESPALIER.requestTools, body.toolNames.length);
      return;
    case "tool.started":
    case "tool.resumed":
    case "tool.rejected":
      span.setAttribute(GEN_AI.toolType, "function");
      if (body.description !== "") setAttribute(span, GEN_AI.toolDescription, body.description);
      setAttribute(span, GEN_AI.agentName, role);
      span.setAttribute(ESPALIER.toolKind, body.kind);
      if (body.type !== "tool.rejected")
        setAttribute(span, ESPALIER.toolArgumentsMended, body.isRepaired);
  }
}

function setSettings(
  span: Span,
  {
    topP,
    seed,
    stopSequences: stop,
    reasoning,
  }: NonNullable<EventBody<"model.requested">["settings"]>,
): void {
  setAttribute(span, GEN_AI.requestTopP, topP);
  setAttribute(span, GEN_AI.requestSeed, seed);
  setAttribute(span, GEN_AI.requestStopSequences, stop?.slice());
  setAttribute(span, ESPALIER.reasoningEffort, reasoning?.effort);
}

function setLimits(span: Span, { limits }: EventBody<"run.started" | "run.resumed">): void {
  setAttribute(span, ESPALIER.limitsMaxDepth, limits.maxDepth);
  setAttribute(span, ESPALIER.limitsMaxBreadthPerParent, limits.maxBreadthPerParent);
  setAttribute(span, ESPALIER.limitsMaxTotalSubagents, limits.maxTotalSubagents);
}

/** Sets the attributes that are known when a span ends by its own event. */
export function setClosing(span: Span, body: SpanClosing): void {
  switch (body.type) {
    case "run.ended":
      setAttribute(span, ESPALIER.stopReason, body.reason.code);
      span.setAttribute(ESPALIER.runSubagents, sum(body.subagentsByDepth));
      span.setAttribute(ESPALIER.runRefusals, sum(body.refusalsByCode));
      break;
    case "run.paused":
      span.setAttribute(ESPALIER.runState, RUN_STATE.suspended);
      setAttribute(span, ESPALIER.stopReason, body.reason.code);
      span.setAttribute(ESPALIER.runQuestions, body.questions.length);
      break;
    case "agent.paused":
    case "agent.ended":
      setAttribute(span, ESPALIER.stopReason, body.reason.code);
      span.setAttribute(ESPALIER.agentSteps, body.stepCount);
      if (body.type === "agent.ended") setSubtree(span, body.usage.total);
      break;
    case "model.replied":
    case "model.failed":
      if (body.type === "model.replied") setReply(span, body);
      setUsage(span, body.usage);
      span.setAttribute(ESPALIER.attempts, body.attemptCount);
      span.setAttribute(ESPALIER.queueWaitMs, body.queuedMs);
      break;
    case "tool.paused":
      break;
    case "tool.rejected":
    case "tool.ended":
      setAttribute(span, ESPALIER.toolErrorSeverity, body.error?.severity);
      setAttribute(span, ESPALIER.toolResultCharacters, body.resultCharacters);
      if (body.outcome === "refused") setAttribute(span, ESPALIER.refusalCode, body.error?.code);
      if (body.type === "tool.ended") span.setAttribute(ESPALIER.queueWaitMs, body.queuedMs);
      else if (body.spawn !== undefined) setAttributes(span, buildRefusalAttributes(body.spawn));
      break;
  }
}

function setReply(span: Span, body: EventBody<"model.replied">): void {
  if (body.repliedBy !== undefined) setAnswering(span, body.repliedBy);
  span.setAttribute(GEN_AI.finishReasons, [body.finishReason]);
  setAttribute(span, GEN_AI.responseId, body.responseId);
  setAttribute(span, GEN_AI.responseModel, body.responseModel ?? body.repliedBy?.model);
  setAttribute(span, OPENAI.responseServiceTier, body.serviceTier);
  setAttribute(span, GEN_AI.cacheWriteInputTokens, body.cacheWriteInputTokens);
  setAttribute(span, GEN_AI.cacheCreationInputTokens, body.cacheWriteInputTokens);
}

/** Shows the call as a call of the model that replied. */
function setAnswering(
  span: Span,
  { provider, model, insteadOf, server }: NonNullable<EventBody<"model.replied">["repliedBy"]>,
): void {
  setAttribute(span, GEN_AI.provider, provider);
  setAttribute(span, GEN_AI.requestModel, model);
  setAttribute(span, ESPALIER.fallbackFrom, insteadOf);
  setAttribute(span, SERVER.address, server?.address);
  setAttribute(span, SERVER.port, server?.port);
}

/** End of a span: its own event, or an outcome caused by its parent. */
export type SpanEnd = SpanClosing | keyof typeof OUTCOME;

/** Returns the outcome for a span and for metrics. `undefined` for a model that replied. */
export function findOutcomeName(end: SpanEnd): string | undefined {
  if (typeof end === "string") return OUTCOME[end];
  if ("status" in end) return end.status;
  if ("outcome" in end) return end.outcome;
  if (end.type === "model.replied") return undefined;
  if (end.type !== "model.failed") return OUTCOME.suspended;
  return isCancelled(end) ? OUTCOME.cancelled : OUTCOME.failed;
}

/** Returns the class of a failure. `undefined` for a stop, pause, refusal or cancellation. */
export function findFailure(end: SpanEnd): string | undefined {
  if (typeof end === "string") return undefined;
  if ("status" in end)
    return end.status === "failed" ? (end.error?.code ?? FAILURE.agent) : undefined;
  if ("outcome" in end)
    return SHOWN_AS[end.outcome] === "error" ? (end.error?.code ?? FAILURE.tool) : undefined;
  return end.type === "model.failed" && !isCancelled(end) ? end.error.code : undefined;
}

/** Records the course of a delegation on the span of its call. */
export function setDelegation(span: Span, body: SpanNote): void {
  switch (body.type) {
    case "subagent.spawned":
    case "subagent.continued":
      setChild(span, body);
      // Whether the call waits for the subagent or returns a receipt.
      span.setAttribute(ESPALIER.spawnMode, body.isBackground ? "background" : "foreground");
      if (body.type === "subagent.spawned") setManifest(span, body.inherited);
      else span.setAttribute(ESPALIER.spawnExecution, body.execution);
      return;
    case "subagent.refused":
      setAttributes(span, buildRefusalAttributes(body));
      return;
    case "subagent.ended":
      span.setAttribute(ESPALIER.spawnOutcome, body.outcome);
      return;
    default:
  }
}

/** Records the subagent of a call. */
export function setChild(
  span: Span,
  child: Pick<EventBody<"subagent.spawned">, "role" | "childId" | "childPath">,
): void {
  setAttribute(span, ESPALIER.spawnRole, child.role);
  setAttribute(span, ESPALIER.spawnAgentId, child.childId);
  setAttribute(span, ESPALIER.spawnAgentPath, child.childPath);
}

/** Records the inherited context of a subagent. Empty lists are left out. */
function setManifest(span: Span, context: InheritanceRecord): void {
  const { messages, injections, removedTools } = context;
  span.setAttribute(ESPALIER.spawnInheritedMessages, messages.count);
  span.setAttribute(ESPALIER.spawnInheritedHash, messages.hash);
  span.setAttribute(ESPALIER.spawnInjectedMessages, injections.count);
  span.setAttribute(ESPALIER.spawnInjectedHash, injections.hash);
  setAttribute(span, ESPALIER.spawnMetadataKeys, [...context.metadataKeys]);
  setList(span, ESPALIER.spawnSiblingResults, context.siblingResults);
  setList(span, ESPALIER.spawnResults, context.results);
  setAttribute(span, ESPALIER.spawnFailedAttempts, context.failedAttempts);
  setAttribute(span, ESPALIER.spawnParentConstraints, context.parentConstraints);
  const rules = removedTools.map(({ rule }) => rule);
  const sources = removedTools.map(({ source }) => source);
  const tightened = context.tightened.map(({ field }) => field);
  setList(span, ESPALIER.spawnRemovedTools, removedTools.map(getRemovedName));
  setList(span, ESPALIER.spawnRemovalRules, rules);
  setList(span, ESPALIER.spawnRemovalSources, sources);
  setList(span, ESPALIER.spawnTightened, tightened);
}

/**
 * Returns the name of a removed tool. An unknown name was invented by the model that wrote the
 * role.
 */
function getRemovedName({ toolName, rule }: RemovedTool): string {
  return rule === "unknown" ? UNKNOWN_TOOL : toolName;
}

function setList(span: Span, name: string, values: readonly string[]): void {
  if (values.length > 0) setAttribute(span, name, [...values]);
}

/** Returns the role of a refused delegation. `undefined` if the model may have invented it. */
export function findKnownRole({ role, isKnownRole }: RejectedSpawn): string | undefined {
  return isKnownRole === true ? role : undefined;
}

type RejectedSpawn = NonNullable<EventBody<"tool.rejected">["spawn"]>;

/** Returns the attributes of a refusal: its reason and its role. */
export function buildRefusalAttributes(refused: RejectedSpawn): Attributes {
  return {
    [ESPALIER.spawnRole]: findKnownRole(refused),
    [ESPALIER.refusalCode]: refused.error.code,
    [ESPALIER.refusalMaximum]: refused.error.maximum,
    [ESPALIER.refusalCurrent]: refused.error.current,
  };
}

/** Records the usage of a model call. */
export function setUsage(span: Span, usage: Usage): void {
  span.setAttribute(GEN_AI.inputTokens, usage.inputTokens);
  span.setAttribute(GEN_AI.outputTokens, usage.outputTokens);
  span.setAttribute(GEN_AI.cacheReadInputTokens, usage.cachedInputTokens);
  span.setAttribute(GEN_AI.reasoningOutputTokens, usage.reasoningTokens);
  setAttribute(span, ESPALIER.costUsd, findKnownCost(usage));
  if (usage.estimatedCalls !== 0) span.setAttribute(ESPALIER.usageEstimated, true);
}

const SUBTREE_ATTRIBUTES = Object.entries(SUBTREE);

function setSubtree(span: Span, usage: Usage): void {
  const costUsd = findKnownCost(usage);
  const amounts: Readonly<Record<string, number | null | undefined>> = { ...usage, costUsd };
  for (const [axis, name] of SUBTREE_ATTRIBUTES)
    setAttribute(span, name, amounts[axis] ?? undefined);
}

/** True for a model call that ended because its agent had to end, which is not a failure. */
function isCancelled(body: EventBody<"model.failed">): boolean {
  return body.error.code === OUTCOME.cancelled;
}

/**
 * Returns the known part of a cost, which is incomplete if some calls have no price. `undefined` if
 * nothing is known.
 */
function findKnownCost({ costUsd, totalTokens }: Usage): number | undefined {
  return costUsd === null || (costUsd === 0 && totalTokens === 0) ? undefined : costUsd;
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}

/**
 * Shows an outcome in the row of a span: by its status, or as a suffix of its name. docs/jaeger.md
 * has the table.
 */
export function markOutcome(span: Span, name: string, outcome: string): void {
  const shownAs = SHOWN_AS[outcome];
  if (shownAs === "name") span.updateName(shortenSpanName(`${name} (${outcome})`));
  if (shownAs === "error") span.setStatus({ code: SpanStatusCode.ERROR });
  if (outcome === FAILURE.crash) span.setAttribute(ERROR_TYPE, FAILURE.crash);
}
