// Serves a recorded reply to the real client, which then sends the reply back in the history of a
// further request.

import { checkReply } from "../../src/model/check-reply.ts";
import type { ModelReply } from "../../src/model/model.ts";
import { openai, type OpenAiOptions } from "../../src/model/openai/openai-model.ts";
import { API_KEY, modelAt, never, QUESTION } from "./openai-calls.ts";
import { OpenAiServer, type ServerReply } from "./openai-server.ts";
import { bodyOf, type ExpectedReply, type Recording, type Way } from "./recorded-replies.ts";
import { rejectionOf, type Thrown } from "./thrown.ts";

/** Larger than any recording, so that no bound of ours is met. */
const SIZE = { inputTokens: 2_000, maxOutputTokens: 10_000 };

export interface Interface {
  readonly options: OpenAiOptions;
  /** The answer to every request but the first. */
  readonly next: ServerReply;
}

/** Returns the parts of a reply that its recording expects, in the same form. */
export function factsOf(reply: ModelReply, expected: ExpectedReply): ExpectedReply {
  const { message, finishReason, usage } = reply;
  const reasoning = (message.parts ?? [])
    .flatMap((part) => (part.type === "reasoning" ? [part.text] : []))
    .join("");
  const right = [expected.finish].flat();
  const isBeside = (expected.usage?.cached ?? 0) > (expected.usage?.input ?? 0);
  return {
    ...expected,
    text: message.text,
    calls: message.toolCalls.map(({ callId, toolName, argumentsText }) => ({
      id: expected.ownIds === true && callId !== "" ? "" : callId,
      toolName: toolName,
      arguments: argumentsText,
    })),
    finish: right.includes(finishReason) ? expected.finish : finishReason,
    ...(expected.reasoning === undefined ? {} : { reasoning }),
    usage:
      usage === undefined
        ? null
        : {
            // Tokens of a cache that the recording counts beside the prompt are part of our input.
            input: usage.inputTokens - (isBeside ? usage.cachedInputTokens : 0),
            cached: usage.cachedInputTokens,
            output: usage.outputTokens,
            reasoning: usage.reasoningTokens,
            ...(expected.usage?.cacheWrite === undefined
              ? {}
              : { cacheWrite: usage.cacheWriteInputTokens ?? 0 }),
          },
  };
}

/** The failure that the recording must be. */
export async function failureOf(
  recording: Recording,
  way: Way,
  { options }: Interface,
): Promise<Thrown> {
  await using server = await OpenAiServer.start(() => answerOf(recording, way));
  const model = modelAt(server, options);
  return await rejectionOf(model.generate(QUESTION, generation(recording)));
}

/** The reply, and the text of the request after it: to the same model, and to another one there. */
export async function exchange(
  recording: Recording,
  way: Way,
  { options, next }: Interface,
): Promise<{
  readonly reply: ModelReply;
  readonly sentBack: string;
  readonly sentToOther: string;
}> {
  await using server = await OpenAiServer.start(
    (_request, count) => (count === 1 ? answerOf(recording, way) : next),
    { takesAnyMessages: true },
  );
  const model = modelAt(server, options);
  const other = openai("other", { baseUrl: server.baseUrl, apiKey: API_KEY, ...options });
  const reply = checkReply(model, await model.generate(QUESTION, generation(recording)), SIZE);
  const request = { ...QUESTION, messages: [...QUESTION.messages, reply.message] };
  for (const asked of [model, other])
    await asked.generate(request, { signal: never(), onDelta: () => undefined });
  const { bodyText: sentBack } = server.request(2);
  return { reply, sentBack, sentToOther: server.request(3).bodyText };
}

function generation({ stream }: Recording): {
  readonly signal: AbortSignal;
  readonly onDelta?: () => void;
} {
  return stream ? { signal: never(), onDelta: () => undefined } : { signal: never() };
}

function answerOf(recording: Recording, way: Way): ServerReply {
  return {
    type: "pours",
    status: recording.status,
    pieces: bodyOf(recording, way),
    contentType: recording.stream ? "text/event-stream" : "application/json",
  };
}
