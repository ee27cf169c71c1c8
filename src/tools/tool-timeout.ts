import { EspalierError } from "../kernel/error.ts";
import { ToolError } from "./tool-error.ts";

const MARK = Symbol.for("espalier.tool_timeout");

const HINT =
  "It may have taken effect nevertheless: check that first. Then request less at once, or do without it.";

class ToolTimeoutError extends ToolError {
  static {
    Object.defineProperty(this.prototype, MARK, { value: true });
  }
}

/**
 * Returns the error of a call that exceeded its timeout. `toolName` is the name that the model
 * knows. The message advises what to do.
 */
export function createToolTimeout(toolName: string, timeoutMs: number): ToolError {
  const message = `${toolName} did not end within ${formatExactDuration(timeoutMs)}. ${HINT}`;
  return new ToolTimeoutError(message, { data: { toolName, timeoutMs } });
}

/**
 * Returns true for the error of a call that exceeded `timeoutMs`, also of another copy of the
 * package. Use the function as `shouldRetry` of `withRetries`.
 *
 * @example
 * ```ts
 * const patient = withRetries(withTimeout(search, { timeoutMs: 2_000 }), {
 *   shouldRetry: isToolTimeout,
 * });
 * ```
 */
export function isToolTimeout(thrown: unknown): thrown is ToolError {
  return EspalierError.is(thrown) && MARK in thrown;
}

const UNITS = [
  { name: "h", ms: 3_600_000 },
  { name: "min", ms: 60_000 },
  { name: "s", ms: 1_000 },
] as const;

/** Returns an exact duration for the model: `250 ms`, `1.5 s`, `30 s`, `90 s`, `5 min`, `2 h`. */
export function formatExactDuration(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  const unit = UNITS.find((unit) => ms % unit.ms === 0);
  return unit === undefined ? `${ms / 1_000} s` : `${ms / unit.ms} ${unit.name}`;
}
