import { ToolError, isToolError } from "./tool-error.ts";
import { timeText } from "./time-text.ts";

const MARK = Symbol.for("espalier.tool_timeout");

const HINT =
  "What it began may have had its effect all the same: check that first. Then ask it for less at once, or do without it.";

class ToolTimeoutError extends ToolError {
  static {
    Object.defineProperty(this.prototype, MARK, { value: true });
  }
}

/** The failure of a call that took too long; `toolName` is the name that the model knows. The message says what to do (R163). */
export function toolTimedOut(toolName: string, timeoutMs: number): ToolError {
  const message = `Expected ${toolName} to end within ${timeText(timeoutMs)}, but it did not. ${HINT}`;
  return new ToolTimeoutError(message, { data: { toolName, timeoutMs } });
}

/** True if a tool failed because it took too long; also by way of another copy of the package. Good as `shouldRetry`. */
export function isToolTimeout(thrown: unknown): thrown is ToolError {
  return isToolError(thrown) && MARK in thrown;
}
