// Loads the content of a step when it is opened: request, reply and tool calls. Hidden content is
// refused as a whole.

import { EspalierError } from "../kernel/error.ts";
import { omitUndefined, sameJson } from "../kernel/json.ts";
import type { RecordedExecution } from "../orchestrator/durability/agent-steps.ts";
import type { RunRecord } from "../orchestrator/durability/run-record.ts";
import type { AgentId } from "../protocol/ids.ts";
import type { Message } from "../protocol/message.ts";
import type { ToolExecution } from "../protocol/tool-outcome.ts";
import type { AgentFold } from "../read-model/agent-fold.ts";
import type { CallFold } from "../read-model/step-fold.ts";
import { createAgentDetail } from "../read-model/agent-row.ts";
import type {
  AgentDetail,
  CallDetail,
  ShownMessage,
  StepDetail,
} from "../read-model/viewer-data.ts";
import type { CachedRun } from "./run-fold-cache.ts";
import { RefusedRequest } from "./http-reply.ts";
import type { ShownContent } from "./shown-content.ts";

/** Position of a step. */
export interface StepPlace {
  readonly agent: AgentFold;
  /** From 1. */
  readonly number: number;
  /** `undefined` for the last execution. */
  readonly execution: number | undefined;
}

/** Known facts of a completed or open step. */
type KnownStep = NonNullable<ReturnType<typeof findRecordedStep>>;

/** Returns the details of an agent, with the result and the last text of an ended agent. */
export async function readAgentDetail(
  { content, fold, recorded }: CachedRun,
  agent: AgentFold,
): Promise<AgentDetail> {
  const detail = createAgentDetail(agent, fold.refusals);
  if (!content.isShown || detail.endedAtMs === undefined) return detail;
  const { steps, output } = (await recorded.steps(agent.agentId)).at(-1) ?? {};
  const text = steps?.at(-1)?.io.text;
  return {
    ...detail,
    ...omitUndefined({ text: text && content.showText(text), output: content.showValue(output) }),
  };
}

/**
 * Returns a step with its content. Rejects with 403 if content is hidden, with 404 for an unknown
 * step, and like `CachedRun.look`.
 */
export async function readStepDetail(run: CachedRun, place: StepPlace): Promise<StepDetail> {
  const { content, fold } = run;
  if (!content.isShown)
    throw new RefusedRequest(
      "content_off",
      "This viewer hides content. Start it with content to see requests.",
    );
  const { agent, number } = place;
  const { steps } = agent;
  const execution = place.execution ?? steps.at(-1)?.execution;
  const inExecution = steps.filter((step) => step.execution === execution);
  const row = inExecution.find((step) => step.number === number);
  const done = (await run.recorded.steps(agent.agentId)).find(
    (other) => other.execution === execution,
  );
  const step = done && findRecordedStep(done, number);
  if (row === undefined || execution === undefined || done === undefined || step === undefined)
    throw new RefusedRequest(
      "unknown_step",
      "The agent has no step of this number. Check the number.",
    );
  const ref = { agentId: agent.agentId, stepNumber: number, execution };
  const findPath = (agentId: AgentId): string => fold.find(agentId)?.agentPath ?? agentId;
  const request = await readStepRequest(run.recorded, ref, { content, findPath });
  const { timing, text, refusal, finishReason } = step;
  // `shown` is redundant: the request has all messages.
  const { shown: _shown, ...context } = step.context;
  return {
    ...row,
    agentId: agent.agentId,
    stepCount: inExecution.length,
    context,
    text: content.showText(text),
    callDetails: buildCallDetails(step, row.calls, content),
    ...omitUndefined({
      timing,
      request,
      refusal: refusal && content.showText(refusal),
      finishReason,
    }),
  };
}

function findRecordedStep({ steps, open }: RecordedExecution, number: number) {
  const completed = steps.find((step) => step.number === number);
  if (completed !== undefined) {
    const { context, io, tools, telemetry } = completed;
    const { text, refusal, finishReason } = io;
    return { context, timing: telemetry.timing, text, refusal, finishReason, ...tools };
  }
  if (open?.number !== number) return undefined;
  const { context, reply, executions } = open;
  return {
    context,
    timing: undefined,
    text: reply?.message.text ?? "",
    refusal: reply?.message.refusal,
    finishReason: reply?.finishReason,
    calls: reply?.message.toolCalls ?? [],
    executions,
  };
}

/** Returns the request of a step. `undefined` if parts were not persisted. */
async function readStepRequest(
  record: RunRecord,
  ref: { readonly agentId: AgentId; readonly stepNumber: number; readonly execution: number },
  {
    content,
    findPath,
  }: { readonly content: ShownContent; readonly findPath: (agentId: AgentId) => string },
): Promise<StepDetail["request"]> {
  const recorded = await record.request(ref).catch(ignoreUnpersisted);
  if (recorded === undefined) return undefined;
  const { stepNumber } = ref;
  const before =
    stepNumber === 1
      ? undefined
      : await record.request({ ...ref, stepNumber: stepNumber - 1 }).catch(ignoreUnpersisted);
  const { messages, tools } = recorded.request;
  const toolNames = tools.map(({ name }) => name);
  return {
    messages: messages.map((message, index): ShownMessage => {
      const from = recorded.inheritedFrom[index] ?? undefined;
      return {
        message: showMessage(message, toolNames, content),
        ...omitUndefined({ from: from && findPath(from) }),
      };
    }),
    sameAsBefore: countSameMessages(before?.request.messages ?? [], messages),
    toolNames,
  };
}

/** Returns `undefined` for a request that was not persisted. Throws any other error. */
function ignoreUnpersisted(cause: unknown): undefined {
  const code = EspalierError.is(cause) ? cause.code : undefined;
  if (code !== "invalid_argument" && code !== "invalid_paused_run") throw cause;
}

function countSameMessages(before: readonly Message[], now: readonly Message[]): number {
  const end = now.findIndex((message, index) => !sameJson(message, before[index]));
  return end === -1 ? now.length : end;
}

function buildCallDetails(
  { calls, executions, context: { toolNames } }: KnownStep,
  rows: readonly CallFold[],
  content: ShownContent,
): readonly CallDetail[] {
  return calls.map((call): CallDetail => {
    const { callId, argumentsText } = call;
    const toolName = showToolName(call.toolName, toolNames, content);
    const row = rows.find((other) => other.callId === callId) ?? {
      callId,
      toolName,
      outcome: "open",
    };
    const done = executions.find((other) => other.call.callId === callId);
    return {
      ...row,
      argumentsText: content.showText(argumentsText),
      ...(done === undefined ? {} : describeCallEnd(done, content)),
    };
  });
}

function describeCallEnd(done: ToolExecution, content: ShownContent): Partial<CallDetail> {
  const { type, text, fullText } = done;
  return {
    outcome: type,
    result: content.showText(text),
    ...omitUndefined({ resultCharacters: fullText?.length }),
  };
}

/**
 * Returns a tool name as it may be shown. The name of an unknown tool may be any text of a model.
 */
function showToolName(toolName: string, known: readonly string[], content: ShownContent): string {
  return known.includes(toolName) ? toolName : content.showText(toolName);
}

/**
 * Returns a message as it may be shown, without provider data and without the bytes of attachments.
 */
function showMessage(
  message: Message,
  toolNames: readonly string[],
  content: ShownContent,
): Message {
  const text = content.showText(message.text);
  switch (message.role) {
    case "system":
      return { ...message, text };
    case "user": {
      const { content: parts } = message;
      return {
        ...message,
        text,
        ...omitUndefined({ content: parts && showParts(parts, content) }),
      };
    }
    case "tool": {
      const { content: parts } = message;
      const toolName = showToolName(message.toolName, toolNames, content);
      const shown = { ...message, toolName, text };
      return { ...shown, ...omitUndefined({ content: parts && showParts(parts, content) }) };
    }
    case "assistant": {
      const { toolCalls, refusal, parts = [] } = message;
      return {
        role: "assistant",
        text,
        toolCalls: toolCalls.map(({ callId, toolName, argumentsText }) => ({
          callId,
          toolName: showToolName(toolName, toolNames, content),
          argumentsText: content.showText(argumentsText),
        })),
        ...omitUndefined({ refusal: refusal && content.showText(refusal) }),
        parts: parts.flatMap((part) =>
          part.type === "reasoning"
            ? [{ type: "reasoning", text: content.showText(part.text) }]
            : [],
        ),
      };
    }
  }
}

type ContentParts = NonNullable<Extract<Message, { readonly role: "tool" }>["content"]>;

function showParts(parts: ContentParts, content: ShownContent): ContentParts {
  return parts.map((part) => {
    if (part.type === "text") return { ...part, text: content.showText(part.text) };
    const { type, mediaType, name, uri, text } = part;
    return {
      type,
      mediaType,
      ...omitUndefined({
        name: name && content.showText(name),
        uri: uri && content.showText(uri),
        text: text && content.showText(text),
      }),
    };
  });
}
