import { messageOf } from "../kernel/error.ts";
import { warnOnce } from "../kernel/warn-once.ts";

/** Calls a listener of the user's, by the name of its option. What it throws must not end the process: it is warned of once. */
export function callListener<Given extends readonly unknown[]>(
  name: string,
  listener: (...given: Given) => void,
  ...given: Given
): void {
  try {
    listener(...given);
  } catch (cause) {
    warnOnce(listener, `${name} of an MCP server threw: ${messageOf(cause)}`);
  }
}
