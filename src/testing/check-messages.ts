import { checkList } from "../kernel/argument-checks.ts";
import type { Message, ToolCall } from "../protocol/message.ts";

/**
 * Returns the problems of a message list that providers would reject, in words. Empty if the list
 * is valid.
 *
 * System messages must come first. Each tool call needs one result, after its reply and in call
 * order. The last message must be a user message or a tool result.
 *
 * @example
 * ```ts
 * const problems = findMessageProblems([
 *   { role: "system", text: "Be brief.", origin: "instructions" },
 * ]);
 * console.log(problems); // ["the list ends with system"]
 * ```
 */
export function findMessageProblems(messages: readonly Message[]): readonly string[] {
  if (!Array.isArray(messages)) checkList("findMessageProblems messages", messages);
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
