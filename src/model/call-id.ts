import { idOf, type CallId } from "../protocol/ids.ts";

/** The id of a tool call, from the one that the provider gave. Throws for an empty text. */
export function toCallId(text: string): CallId {
  return idOf<"CallId">(text);
}
