// Attributes of spans, from events. Pure. Nothing that a user, a model or a tool wrote leaves here: no
// task, no text, no argument, no result, no reason of an answer, no message of an error, and no name
// that a model may have invented, but for that of a role that it wrote and that was started. An attribute that is undefined is left out by OpenTelemetry.

import type { Attributes } from "@opentelemetry/api";

import { assertNever } from "../../kernel/assert.ts";
import type { ContextManifest } from "../../protocol/context-manifest.ts";
import type { EventScope, EventBody } from "../../protocol/event.ts";
import type { SpanClosing, SpanMoment, SpanNote, SpanOpening } from "../../protocol/span-tree.ts";
import type { RemovedTool } from "../../protocol/tool-rule.ts";
import type { Usage } from "../../protocol/usage.ts";
import {
  budgetLimit,
  ESPALIER,
  FAILURE,
  GEN_AI,
  OPERATION,
  OUTCOME,
  RUN_STATE,
  SERVER,
  SPAWN,
  spanName,
  SUBTREE,
  UNKNOWN_TOOL,
} from "../gen-ai-attributes.ts";

const MICRO_USD_PER_USD = 1_000_000;

/** Its name when a span begins. */
export function openingName(body: SpanOpening, { agentPath }: EventScope): string {
  switch (body.type) {
    case "run.started":
    case "run.resumed":
      return spanName(OPERATION.workflow, body.role);
    case "agent.started":
    case "agent.resumed":
      return spanName(OPERATION.agent, lastNameIn(agentPath));
    case "model.requested":
      return spanName(OPERATION.model, body.model);
    case "tool.started":
    case "tool.resumed":
      return spanName(OPERATION.tool, knownToolName(body));
    case "tool.rejected":
      return rejectedName(body);
    default:
      return assertNever(body, "opening event");
  }
}

/** `researcher#2` of `lead/researcher#2`: what distinguishes an agent from its siblings. */
export function lastNameIn(agentPath: string): string {
  return agentPath.slice(agentPath.lastIndexOf("/") + 1);
}

/** A subagent that is not started has a known role, or a name that the model may have invented. */
function rejectedName(body: EventBody<"tool.rejected">): string {
  if (body.spawn === undefined) return spanName(OPERATION.tool, knownToolName(body));
  return [SPAWN, knownRole(body.spawn) ?? []].flat().join(" ");
}

/** A tool that there is has a description. Another name may be an invention of the model. */
export function knownToolName({
  toolName,
  description,
}: EventBody<"tool.started" | "tool.resumed" | "tool.rejected">): string {
  return description === "" ? UNKNOWN_TOOL : toolName;
}

/** What a sampler may decide by: the few attributes that must be there when a span begins. */
export function samplingAttributes(body: SpanOpening): Attributes {
  switch (body.type) {
    case "run.started":
    case "run.resumed":
      return { [GEN_AI.operation]: OPERATION.workflow, [GEN_AI.workflowName]: body.role };
    case "agent.started":
    case "agent.resumed":
      return {
        [GEN_AI.operation]: OPERATION.agent,
        [GEN_AI.agentName]: body.role,
        [GEN_AI.requestModel]: body.model,
      };
    case "model.requested":
      return {
        [GEN_AI.operation]: OPERATION.model,
        [GEN_AI.provider]: body.provider,
        [GEN_AI.requestModel]: body.model,
        [SERVER.address]: body.server?.address,
        [SERVER.port]: body.server?.port,
      };
    case "tool.started":
    case "tool.resumed":
    case "tool.rejected":
      return { [GEN_AI.operation]: OPERATION.tool, [GEN_AI.toolName]: knownToolName(body) };
    default:
      return assertNever(body, "opening event");
  }
}

/** Where a span is in the tree and in the event log: on every span. `conversationId`: the session of the run. */
export function placeAttributes(
  { seq, scope: place }: SpanMoment,
  conversationId: string | undefined,
): Attributes {
  return {
    [GEN_AI.conversationId]: conversationId,
    [ESPALIER.eventSeq]: seq,
    [ESPALIER.runId]: place.runId,
    [ESPALIER.agentId]: place.agentId,
    [ESPALIER.agentPath]: place.agentPath,
    [ESPALIER.agentDepth]: place.depth,
    [ESPALIER.agentParentId]: place.parentAgentId ?? undefined,
    [ESPALIER.executionId]: place.executionId ?? undefined,
    [ESPALIER.stepId]: place.stepId ?? undefined,
    [GEN_AI.toolCallId]: place.callId ?? undefined,
  };
}

function limitsAttributes({ limits }: EventBody<"run.started" | "run.resumed">): Attributes {
  return {
    [ESPALIER.limitsMaxDepth]: limits.maxDepth,
    [ESPALIER.limitsMaxBreadthPerParent]: limits.maxBreadthPerParent,
    [ESPALIER.limitsMaxTotalSubagents]: limits.maxTotalSubagents,
  };
}

function forkAttributes({ forkedFrom }: EventBody<"run.started">): Attributes {
  if (forkedFrom === undefined) return {};
  return {
    [ESPALIER.forkOf]: forkedFrom.runId,
    [ESPALIER.forkStep]: forkedFrom.stepNumber,
    [ESPALIER.forkedFromTraceId]: forkedFrom.traceId,
  };
}

/** What is known besides when a span begins. `role` is that of the agent that does it. */
export function openingAttributes(body: SpanOpening, role: string): Attributes {
  switch (body.type) {
    case "run.started":
      return { ...limitsAttributes(body), ...forkAttributes(body) };
    case "run.resumed":
      return {
        ...limitsAttributes(body),
        [ESPALIER.runSegment]: body.recovery === undefined ? body.pauses + 1 : undefined,
        [ESPALIER.runLostCalls]: body.recovery?.lostCalls,
        [ESPALIER.resumedFromTraceId]: body.previousTraceId,
        [ESPALIER.runPausedMs]: body.pausedMs,
        [ESPALIER.runAnswers]: body.answers,
      };
    case "agent.started":
    case "agent.resumed":
      return {
        [GEN_AI.agentDescription]: body.purpose,
        ...Object.fromEntries(
          Object.entries(body.budget).map(([axis, left]) => [budgetLimit(axis), left]),
        ),
      };
    case "model.requested":
      return {
        [GEN_AI.requestMaxTokens]: body.maxOutputTokens,
        [GEN_AI.requestTemperature]: body.temperature,
        [GEN_AI.requestTopP]: body.settings?.topP,
        [GEN_AI.requestSeed]: body.settings?.seed,
        [GEN_AI.requestStopSequences]: body.settings?.stop?.slice(),
        [ESPALIER.reasoningEffort]: body.settings?.reasoning?.effort,
        [GEN_AI.requestStream]: body.streaming ? true : undefined,
        [ESPALIER.requestMessages]: body.messageCount,
        [ESPALIER.requestTools]: body.toolNames.length,
      };
    case "tool.started":
    case "tool.resumed":
    case "tool.rejected":
      return {
        [GEN_AI.toolType]: "function",
        [GEN_AI.toolDescription]: body.description || undefined,
        [GEN_AI.agentName]: role,
        [ESPALIER.toolKind]: body.kind,
      };
    default:
      return assertNever(body, "opening event");
  }
}

/** What is known when a span ends. */
export function closingAttributes(body: SpanClosing): Attributes {
  switch (body.type) {
    case "run.ended":
      return {
        [ESPALIER.outcome]: body.status,
        [ESPALIER.stopReason]: body.reason.code,
        [ESPALIER.runSubagents]: sum(body.subagentsByDepth),
        [ESPALIER.runRefusals]: sum(body.refusalsByCode),
      };
    case "run.paused":
      return {
        [ESPALIER.outcome]: OUTCOME.suspended,
        [ESPALIER.runState]: RUN_STATE.suspended,
        [ESPALIER.stopReason]: body.reason.code,
        [ESPALIER.runQuestions]: body.questions.length,
      };
    case "agent.paused":
      return {
        [ESPALIER.outcome]: OUTCOME.suspended,
        [ESPALIER.stopReason]: body.reason.code,
        [ESPALIER.agentSteps]: body.steps,
      };
    case "agent.ended":
      return {
        [ESPALIER.outcome]: body.status,
        [ESPALIER.stopReason]: body.reason.code,
        [ESPALIER.agentSteps]: body.steps,
        ...subtreeAttributes(body.usage.total),
      };
    case "model.replied":
      return {
        [GEN_AI.finishReasons]: [body.finishReason],
        [ESPALIER.finishReasonRaw]: body.rawFinishReason,
        [GEN_AI.responseId]: body.responseId,
        [GEN_AI.responseModel]: body.responseModel,
        [GEN_AI.cacheWriteInputTokens]: body.cacheWriteInputTokens,
        [GEN_AI.cacheCreationInputTokens]: body.cacheWriteInputTokens,
        ...callAttributes(body),
      };
    case "model.failed":
      return {
        [ESPALIER.outcome]: isCancelled(body) ? OUTCOME.cancelled : OUTCOME.failed,
        ...callAttributes(body),
      };
    case "tool.paused":
      return { [ESPALIER.outcome]: OUTCOME.suspended };
    case "tool.rejected":
      return {
        ...resultAttributes(body),
        ...(body.spawn === undefined ? {} : refusalAttributes(body.spawn)),
      };
    case "tool.ended":
      return { ...resultAttributes(body), [ESPALIER.queueWaitMs]: body.queuedMs };
    default:
      return assertNever(body, "closing event");
  }
}

/**
 * The failure that an end reports, as a value of few kinds; undefined for a stop, a pause, a refusal
 * or a cancellation.
 */
export function failureOf(body: SpanClosing): string | undefined {
  switch (body.type) {
    case "run.ended":
    case "agent.ended":
      return body.status === "failed" ? (body.error?.code ?? FAILURE.agent) : undefined;
    case "run.paused":
    case "agent.paused":
    case "tool.paused":
    case "model.replied":
      return undefined;
    case "model.failed":
      return isCancelled(body) ? undefined : body.error.code;
    case "tool.rejected":
    case "tool.ended":
      return body.outcome === "failed" || body.outcome === "retry"
        ? (body.errorCode ?? FAILURE.tool)
        : undefined;
    default:
      return assertNever(body, "closing event");
  }
}

/** What becomes of a delegation, for the span of its call. */
export function delegationAttributes(body: SpanNote): Attributes {
  if (body.type === "subagent.spawned") {
    return {
      ...childAttributes(body),
      ...modeAttributes(body),
      ...manifestAttributes(body.context),
    };
  }
  if (body.type === "subagent.continued") {
    const execution = { [ESPALIER.spawnExecution]: body.execution };
    return { ...childAttributes(body), ...modeAttributes(body), ...execution };
  }
  if (body.type === "subagent.refused") return refusalAttributes(body);
  return body.type === "subagent.ended" ? { [ESPALIER.spawnOutcome]: body.outcome } : {};
}

/** Whether the call waits for the subagent, or has a receipt. */
function modeAttributes({ isBackground }: { readonly isBackground: boolean }): Attributes {
  return { [ESPALIER.spawnMode]: isBackground ? "background" : "foreground" };
}

/** What a subagent received; of a list, only where it holds something (X13). */
function manifestAttributes(context: ContextManifest): Attributes {
  const { messages, injections, metadataKeys, siblingResults, results } = context;
  const { removedTools, tightened } = context;
  return {
    [ESPALIER.spawnInheritedMessages]: messages.count,
    [ESPALIER.spawnInheritedHash]: messages.hash,
    [ESPALIER.spawnInjectedMessages]: injections.count,
    [ESPALIER.spawnInjectedHash]: injections.hash,
    [ESPALIER.spawnMetadataKeys]: [...metadataKeys],
    [ESPALIER.spawnSiblingResults]: listed(siblingResults),
    [ESPALIER.spawnResults]: listed(results),
    [ESPALIER.spawnFailedAttempts]: context.failedAttempts,
    [ESPALIER.spawnParentConstraints]: context.parentConstraints,
    [ESPALIER.spawnRemovedTools]: listed(removedTools.map(removedName)),
    [ESPALIER.spawnRemovalRules]: listed(removedTools.map(({ rule }) => rule)),
    [ESPALIER.spawnRemovalSources]: listed(removedTools.map(({ source }) => source)),
    [ESPALIER.spawnTightened]: listed(tightened.map(({ field }) => field)),
  };
}

/** A name that no tool has is an invention of the model that wrote the role. */
function removedName({ toolName, rule }: RemovedTool): string {
  return rule === "unknown" ? UNKNOWN_TOOL : toolName;
}

function listed(values: readonly string[]): string[] | undefined {
  return values.length === 0 ? undefined : [...values];
}

/** Which subagent continues below a resumed delegation, for the span of its call. */
export function resumedChildAttributes(
  { role }: EventBody<"agent.resumed">,
  { scope }: SpanMoment,
): Attributes {
  const { agentId: childId, agentPath: childPath } = scope;
  return childAttributes({ role, childId, childPath });
}

/** The role that a delegation turned out to name; undefined if the model may have invented it. */
export function spawnedRole(body: SpanNote): string | undefined {
  if (body.type === "subagent.spawned" || body.type === "subagent.continued") return body.role;
  return body.type === "subagent.refused" ? knownRole(body) : undefined;
}

function knownRole({ role, isKnownRole }: RefusedSpawn): string | undefined {
  return isKnownRole === true ? role : undefined;
}

type RefusedSpawn = NonNullable<EventBody<"tool.rejected">["spawn"]>;

/** Why policy forbade a delegation, and for which role. */
export function refusalAttributes(refused: RefusedSpawn): Attributes {
  return {
    [ESPALIER.spawnRole]: knownRole(refused),
    [ESPALIER.refusalCode]: refused.refusal.code,
    [ESPALIER.refusalMaximum]: refused.refusal.maximum,
    [ESPALIER.refusalCurrent]: refused.refusal.current,
  };
}

function childAttributes(
  child: Pick<EventBody<"subagent.spawned">, "role" | "childId" | "childPath">,
): Attributes {
  return {
    [ESPALIER.spawnRole]: child.role,
    [ESPALIER.spawnAgentId]: child.childId,
    [ESPALIER.spawnAgentPath]: child.childPath,
  };
}

function resultAttributes(body: EventBody<"tool.ended" | "tool.rejected">): Attributes {
  return {
    [ESPALIER.outcome]: body.outcome,
    [ESPALIER.toolErrorSeverity]: body.severity,
    [ESPALIER.toolResultCharacters]: body.resultCharacters,
    [ESPALIER.refusalCode]: body.outcome === "refused" ? body.errorCode : undefined,
  };
}

function callAttributes(body: EventBody<"model.replied" | "model.failed">): Attributes {
  return {
    ...usageAttributes(body.usage),
    [ESPALIER.attempts]: body.attempts,
    [ESPALIER.queueWaitMs]: body.queuedMs,
  };
}

/** What one model call used. */
export function usageAttributes(usage: Usage): Attributes {
  return {
    [GEN_AI.inputTokens]: usage.inputTokens,
    [GEN_AI.outputTokens]: usage.outputTokens,
    [GEN_AI.cacheReadInputTokens]: usage.cachedInputTokens,
    [GEN_AI.reasoningOutputTokens]: usage.reasoningTokens,
    [ESPALIER.costUsd]: knownUsd(usage),
    [ESPALIER.usageEstimated]: usage.estimatedCalls === 0 ? undefined : true,
  };
}

function subtreeAttributes(usage: Usage): Attributes {
  return {
    [SUBTREE.modelCalls]: usage.modelCalls,
    [SUBTREE.steps]: usage.steps,
    [SUBTREE.toolCalls]: usage.toolCalls,
    [SUBTREE.inputTokens]: usage.inputTokens,
    [SUBTREE.cachedInputTokens]: usage.cachedInputTokens,
    [SUBTREE.outputTokens]: usage.outputTokens,
    [SUBTREE.reasoningTokens]: usage.reasoningTokens,
    [SUBTREE.totalTokens]: usage.totalTokens,
    [SUBTREE.costUsd]: knownUsd(usage),
    [SUBTREE.unpricedCalls]: usage.unpricedCalls,
    [SUBTREE.estimatedCalls]: usage.estimatedCalls,
  };
}

/** A model call that ended because its agent had to end has not failed. */
function isCancelled(body: EventBody<"model.failed">): boolean {
  return body.error.code === OUTCOME.cancelled;
}

/** What is known of a cost, which is not all where calls had no price; undefined where nothing is known. */
function knownUsd(usage: Usage): number | undefined {
  const isUnknown = usage.unpricedCalls > 0 || usage.totalTokens === 0;
  if (usage.costMicroUsd === 0 && isUnknown) return undefined;
  return usage.costMicroUsd / MICRO_USD_PER_USD;
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}
