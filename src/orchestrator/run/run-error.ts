// RunError: the exception of `run.orThrow()` for a run that did not complete. Also the errors of a
// live run's methods.

import { findCancelReason } from "../../kernel/cancel-signal.ts";
import {
  EspalierError,
  isMarkedError,
  getErrorMessage,
  type RunErrorCode,
} from "../../kernel/error.ts";
import { completeSentence, joinSentences } from "../../kernel/sentence.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { IncompleteRunResult, PausedRunResult } from "./run-result.ts";

const MARK = Symbol.for("espalier.error.run");

/**
 * Error of a run that failed, was stopped, was cancelled or is paused. `run.orThrow()` rejects with
 * it.
 *
 * @example
 * ```ts
 * try {
 *   const { text } = await run.orThrow();
 *   console.log(text);
 * } catch (error) {
 *   if (!RunError.is(error)) throw error;
 *   console.error(error.code, error.result.reason.code, error.result.text);
 * }
 * ```
 */
export class RunError extends EspalierError {
  /** `run_failed`, `run_stopped`, `run_cancelled` or `run_paused`. */
  override readonly code: RunErrorCode;
  readonly #result: IncompleteRunResult | PausedRunResult;

  /** @internal Use `run.orThrow()`. */
  constructor(result: IncompleteRunResult | PausedRunResult) {
    const { runId, status, reason } = result;
    const code = `run_${status}` as const;
    const advice =
      status === "paused"
        ? "Continue it: orchestrator.resume(error.result.pausedRun, { answers })."
        : "See error.result for its partial result.";
    const why = joinSentences([reason.message, ...findRootCause(result), advice]);
    super({
      code,
      message: `Expected run ${runId} to complete, got ${status} (${reason.code}): ${why}`,
      data: { runId, status, reason: reason.code },
    });
    this.code = code;
    this.#result = result;
  }

  static {
    Object.defineProperty(this.prototype, MARK, { value: true });
  }

  /**
   * Returns true if `value` is a `RunError`, including one of another copy of the package.
   *
   * @example
   * ```ts
   * const text = await run.orThrow().then(
   *   (result) => result.text,
   *   (error: unknown) => (RunError.is(error) ? error.result.text : null),
   * );
   * ```
   */
  static override is(value: unknown): value is RunError {
    return isMarkedError(value, MARK);
  }

  /** Result of the run, the same as `await run.result`. It is not printed with the error. */
  get result(): IncompleteRunResult | PausedRunResult {
    return this.#result;
  }
}

/** Returns the root cause of a failed tree, unless the reason already names it. */
function findRootCause({
  status,
  reason,
  errors: [first],
}: IncompleteRunResult | PausedRunResult): readonly string[] {
  if (status !== "failed" || first === undefined || first.message === reason.message) return [];
  return [`First, ${first.agentPath} failed: ${first.message}`];
}

/** Returns the error of the result of a run that this process has released. */
export function createRunLeftError(runId: RunId): EspalierError {
  return new EspalierError({
    code: "run_released",
    message: `This process has released run ${runId}. Resume the run, here or elsewhere, to get its result.`,
    data: { runId },
  });
}

/**
 * Returns the error of a snapshot of a run that this process has released, or lost with its store.
 */
export function createNotOwnedError(runId: RunId, cause: unknown): EspalierError {
  const message = `Cannot take a snapshot: this process no longer owns run ${runId}. Resume the run, and take the snapshot of the resumed run.`;
  return new EspalierError({ code: "run_released", message, data: { runId }, cause });
}

/** Returns the error of a method that needs a store. */
export function createUnstoredError(advice: string): EspalierError {
  return new EspalierError({
    code: "invalid_state",
    message: `This run has no store. ${advice}`,
  });
}

/** Returns the message with which an aborted signal cancels a run. */
export function explainAbort(signal: AbortSignal): string {
  const why = findCancelReason(signal)?.message ?? getErrorMessage(signal.reason);
  return completeSentence(`The signal of the run was aborted: ${why}`);
}
