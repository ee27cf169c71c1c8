import type { Message, ToolCall } from "../protocol/message.ts";

/**
 * What is wrong with a list of messages that a model is about to be sent; empty if nothing is. Every call needs exactly one
 * result, right after its reply and in call order; system messages come first; the list ends with something to answer.
 */
export function checkMessages(messages: readonly Message[]): readonly string[] {
  const problems: string[] = [];
  let calls: readonly ToolCall[] = [];
  let answered = 0;
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      const expected = calls[answered];
      if (expected?.callId === message.callId) answered += 1;
      else
        problems.push(
          `message ${index} answers ${message.callId}, expected ${expected?.callId ?? "no result"}`,
        );
      continue;
    }
    for (const call of calls.slice(answered))
      problems.push(`call ${call.callId} has no result before message ${index}`);
    calls = message.role === "assistant" ? message.toolCalls : [];
    answered = 0;
    if (message.role === "system" && index > 0 && messages[index - 1]?.role !== "system") {
      problems.push(`message ${index} is a system message after others`);
    }
    const ids = calls.map((call) => call.callId);
    if (new Set(ids).size < ids.length) problems.push(`message ${index} has two calls of one id`);
  }
  for (const call of calls.slice(answered)) problems.push(`call ${call.callId} has no result`);
  const last = messages.at(-1)?.role;
  if (last !== "user" && last !== "tool") problems.push(`the list ends with ${last ?? "nothing"}`);
  return problems;
}
