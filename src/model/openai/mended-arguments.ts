// Arguments of calls as they go back to a server, which may parse them.

import { isRecord } from "../../kernel/json.ts";
import { mendedJson } from "../../kernel/mend-json.ts";
import type { Message } from "../../protocol/message.ts";
import { parseWireJson } from "../wire-json.ts";

/**
 * Arguments that are no JSON object, without a small slip or as one that holds what the model wrote: many servers parse them, and some fail on
 * anything else. Nothing at all is an empty object. Undefined: they go back as they are.
 */
export function mendedArguments(text: string): string | undefined {
  if (text.trim() === "") return "{}";
  if (isRecord(parseWireJson(text))) return undefined;
  const meant = mendedJson(text);
  return JSON.stringify(isRecord(meant) ? meant : { [UNREADABLE]: text });
}

const UNREADABLE = "not_a_json_object";

/** True if the last reply in a list of messages goes back with unreadable arguments. */
export function isLastReplyMended(messages: readonly Message[]): boolean {
  const last = messages.findLast((message) => message.role === "assistant");
  return (
    last?.toolCalls.some(({ argumentsText }) => {
      const mended = mendedArguments(argumentsText);
      return mended?.startsWith(`{"${UNREADABLE}":`) === true;
    }) === true
  );
}
