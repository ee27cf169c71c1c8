import type { Message, ToolCall } from "../protocol/message.ts";

/**
 * What is wrong with a list of messages that a model is about to be sent; empty if nothing is. Every call needs exactly one
 * result, right after its reply and in call order (L3); system messages come first; the list ends with something to answer.
 */
export function checkMessages(messages: readonly Message[]): readonly string[] {
  const problems: string[] = [];
  let open: readonly ToolCall[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      const [expected, ...rest] = open;
      if (expected?.callId === message.callId) open = rest;
      else
        problems.push(
          `message ${index} answers ${message.callId}, expected ${expected?.callId ?? "no result"}`,
        );
      continue;
    }
    for (const call of open)
      problems.push(`call ${call.callId} has no result before message ${index}`);
    open = message.role === "assistant" ? message.toolCalls : [];
    if (message.role === "system" && index > 0 && messages[index - 1]?.role !== "system") {
      problems.push(`message ${index} is a system message after others`);
    }
    const ids = open.map((call) => call.callId);
    if (new Set(ids).size < ids.length) problems.push(`message ${index} has two calls of one id`);
  }
  for (const call of open) problems.push(`call ${call.callId} has no result`);
  const last = messages.at(-1)?.role;
  if (last !== "user" && last !== "tool") problems.push(`the list ends with ${last ?? "nothing"}`);
  return problems;
}
