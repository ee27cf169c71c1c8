// A reply of Chat Completions and the request that follows it.

import { checkReply } from "../../src/model/check-reply.ts";
import type { ModelReply } from "../../src/model/model.ts";
import type { OpenAiOptions } from "../../src/model/openai/openai-model.ts";
import { modelAt, never, QUESTION, reply, type Mode } from "./openai-calls.ts";
import { OpenAiServer, says, type ServerReply } from "./openai-server.ts";

const SIZE = { inputTokens: 100, maxOutputTokens: 100 };

/** A body with one message, and the events that say the same. */
export function served(
  mode: Mode,
  message: object,
  deltas: readonly object[],
  more: { finish?: string | null; usage?: object } = {},
): ServerReply {
  const finish_reason = more.finish === undefined ? "stop" : more.finish;
  const usage = more.usage === undefined ? {} : { usage: more.usage };
  if (mode === "whole") {
    const choices = [{ index: 0, message: { role: "assistant", ...message }, finish_reason }];
    return {
      type: "raw",
      body: JSON.stringify({ id: "c1", model: "m1", choices, ...usage }),
    };
  }
  const chunks = deltas.map((delta) => ({ id: "c1", model: "m1", choices: [{ index: 0, delta }] }));
  const end = {
    id: "c1",
    model: "m1",
    choices: [{ index: 0, delta: {}, finish_reason }],
    ...usage,
  };
  return { type: "events", data: [...chunks, end, "[DONE]"] };
}

/** The reply to a question, and the assistant message in the next request. */
export async function roundTrip(
  answer: ServerReply,
  mode: Mode,
  options: OpenAiOptions = {},
): Promise<{ readonly reply: ModelReply; readonly sent: unknown }> {
  await using server = await OpenAiServer.start(
    (_request, count) => (count === 1 ? answer : says("Done.")),
    { takesAnyMessages: true },
  );
  const model = modelAt(server, options);
  const { reply: said } = await reply(model, mode);
  const checked = checkReply(model, said, SIZE);
  const messages = [...QUESTION.messages, checked.message];
  await model.generate({ ...QUESTION, messages }, { signal: never() });
  return { reply: checked, sent: sentMessages(server, 2)[1] };
}

export function sentMessages(server: OpenAiServer, number: number): readonly unknown[] {
  const { messages } = server.request(number).body;
  return Array.isArray(messages) ? messages : [];
}
