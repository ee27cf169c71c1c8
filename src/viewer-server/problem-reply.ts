// Converts errors to HTTP replies.

import type { EspalierError, ErrorCode } from "../kernel/error.ts";
import { RefusedRequest } from "./http-reply.ts";
import type { ShownContent } from "./shown-content.ts";

/**
 * Codes whose messages contain only ids, numbers and parts of the request, but no content of a run.
 */
const PLAIN: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "unknown_run",
  "unknown_agent",
  "run_ended",
  "run_active",
  "already_resumed",
  "invalid_answer",
  "unsupported_version",
]);

/** Returns the reply to a request that failed with an `EspalierError`. */
export function createProblemReply(
  { code, message, data }: EspalierError,
  content: ShownContent,
): RefusedRequest {
  const isMalformed = code === "invalid_answer" && data["problem"] === "malformed";
  const words =
    describeMisfit(data, content) ?? (PLAIN.has(code) ? message : content.showText(message));
  const text = words === "" ? describeWithheldMessage(data) : words;
  return new RefusedRequest(code, text, isMalformed ? 400 : undefined);
}

/**
 * Returns a message that names the invalid parameters, without the schema and values that the
 * original message quotes.
 */
function describeMisfit(
  { problem, parameters }: EspalierError["data"],
  content: ShownContent,
): string | undefined {
  if (content.isWhole || problem !== "invalid_arguments" || !Array.isArray(parameters))
    return undefined;
  return `The arguments do not fit the tool in: ${parameters.join(", ")}. Correct them and answer again.`;
}

function describeWithheldMessage({ record }: EspalierError["data"]): string {
  const where = typeof record === "number" ? ` (record ${record})` : "";
  return `Its message${where} is hidden, because it may quote content.`;
}
