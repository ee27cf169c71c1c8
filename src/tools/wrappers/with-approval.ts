import { isPromiseLike } from "../../kernel/cancel-signal.ts";
import { checkKeys, checkText } from "../../kernel/argument-checks.ts";
import { joinSentences } from "../../kernel/sentence.ts";
import type { FunctionTool, FunctionUse } from "../tool.ts";
import { checkWrappable, replaceUse } from "./wrapped-tool.ts";

/**
 * Returns the tool with a required approval for every call. If the tool itself requires one, there
 * is still one question, with both reasons.
 *
 * If the tool's own `needsApproval` throws, the call is denied.
 *
 * @throws EspalierError `invalid_argument` if the tool has no `execute` of its own, or the reason
 * is not a text.
 * @throws EspalierError `invalid_argument` if an option is unknown.
 *
 * @example
 * ```ts
 * const guarded = withApproval(search, { reason: "Every search costs one cent." });
 * ```
 */
export function withApproval<Context>(
  tool: FunctionTool<Context>,
  options: {
    /**
     * The reason in the question.
     *
     * @default a text which says that the tool needs an approval
     */
    readonly reason?: string;
  } = {},
): FunctionTool<Context> {
  checkWrappable("withApproval", tool);
  checkKeys("withApproval", options, ["reason"]);
  const { reason } = options;
  if (reason !== undefined) checkText("withApproval.reason", reason);
  return replaceUse(tool, (use) => ({
    run: (context, runtime) => use.run(context, runtime),
    needsApproval: requireApproval(use, reason),
  }));
}

function requireApproval<Context>(
  use: FunctionUse<Context>,
  reason: string | undefined,
): FunctionUse<Context>["needsApproval"] {
  const { needsApproval: condition } = use;
  if (typeof condition !== "function") return reason === undefined ? true : () => reason;
  return (context) => {
    const decision = condition(context);
    return isPromiseLike(decision)
      ? decision.then((settled) => joinReasons(settled, reason))
      : joinReasons(decision, reason);
  };
}

/**
 * Returns the reasons of the tool and of the wrapper as one. Any other value than a boolean or a
 * text is returned unchanged, so that the call is refused.
 */
function joinReasons(decision: unknown, reason: string | undefined): unknown {
  if (typeof decision === "boolean") return reason ?? true;
  if (
    typeof decision !== "string" ||
    decision === "" ||
    reason === undefined ||
    decision === reason
  )
    return decision;
  return joinSentences([decision, reason]);
}
