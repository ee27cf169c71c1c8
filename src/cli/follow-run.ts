// Follows a run for a person or a program: draws it on stderr while it is active, ends or pauses it
// on signals, and summarises it when it settles. Only its result goes to stdout.

import type { EspalierEvent, EventSink, Run, RunResult } from "espalier";
import type { DeliveryCounts } from "espalier/otel";
import type { NodeTracing } from "espalier/otel/node";
import { terminalView, type TerminalView, stripControlCharacters } from "espalier/terminal";
import { RunFold } from "espalier/view";

import { formatFileText } from "../terminal/terminal-text.ts";
import { EXIT_CODES, TERMINATED, findErrorCode, describeCause, UsageError } from "./exit-codes.ts";
import { formatJsonLine, formatJson } from "./json-text.ts";
import { describeCauses, describeSettledRun } from "./run-text.ts";
import { isWatched, printNotice, printLine, type Shell } from "./shell.ts";
import type { Viewing } from "./open-viewer.ts";

/** Options for following a run. */
export interface FollowOptions {
  /**
   * Content of stdout: the text or the typed result of the run, one JSON object about it, or its
   * events, one per line.
   */
  readonly output: "result" | "json" | "events";
  /** Whether stderr has only errors and questions. */
  readonly isQuiet: boolean;
  /** Whether the run has a store, so that it can be paused and resumed. */
  readonly isKept: boolean;
  /** How the user calls this command again, for the store of the run. */
  readonly command: string;
  /** Options with which `resume` finds the roles of the run, such as ` --roles lead.ts`. */
  readonly resumeOptions: string;
  /**
   * Returns the report of a settled run, for stderr. If it is absent, a line about the end is
   * printed, and the last frame stays.
   */
  readonly report?: (result: RunResult) => string;
}

/** Other displays of the run. */
interface FollowedBy {
  readonly viewing?: Viewing | undefined;
  readonly tracing?: NodeTracing | undefined;
}

/** Connects a run with its outputs. Create it before the orchestrator, which needs `sinks`. */
export class RunFollower {
  readonly sinks: readonly EventSink[];
  readonly view: TerminalView | undefined;
  readonly #shell: Shell;
  readonly #options: FollowOptions;
  #fold: RunFold | undefined;
  #run: Run | undefined;
  /** Exit code of a signal that ends the command. */
  #exitCode: number | undefined;
  #isEnding = false;
  /** True if the reader of stdout has gone, or stdout cannot be written. */
  #isUnread = false;
  #onLeft: (() => void) | undefined;

  constructor(shell: Shell, options: FollowOptions) {
    const { stderr, env } = shell;
    this.#shell = shell;
    this.#options = options;
    const lastFrame = options.report === undefined ? "keep" : "erase";
    this.view = options.isQuiet ? undefined : terminalView({ stream: stderr, env, lastFrame });
    const folding: EventSink = { emit: (event) => this.#takeEvent(event) };
    this.sinks = this.view === undefined ? [folding] : [folding, this.view];
  }

  /**
   * Follows a run until it settles, and returns the exit code. `viewing` shows the run, and stays
   * open for the user. `tracing` is flushed before. Rejects with the errors of `result`.
   */
  async follow(run: Run, { viewing, tracing }: FollowedBy = {}): Promise<number> {
    await viewing?.show(run.runId);
    const exitCode = await this.#waitForResult(run);
    if (tracing !== undefined) printNotice(this.#shell, describeDelivery(await tracing.shutdown()));
    if (viewing !== undefined && isWatched(this.#shell)) {
      printNotice(this.#shell, `The viewer stays open at ${viewing.address}. Ctrl-C ends it.`);
      await this.#waitForSignal();
    }
    return exitCode;
  }

  async #waitForResult(run: Run): Promise<number> {
    this.#run = run;
    // Until the process ends, so that Ctrl-C also works after the run has settled.
    this.#shell.onSignal("SIGINT", () => this.interrupt());
    this.#shell.onSignal("SIGTERM", () => this.#terminate(TERMINATED.SIGTERM));
    this.#shell.onSignal("SIGHUP", () => this.#terminate(TERMINATED.SIGHUP));
    this.#shell.stdout.on("error", () => this.#handleLostReader());
    try {
      const result = await run.result;
      this.#printResult(result);
      return this.#exitCode ?? EXIT_CODES[result.status];
    } finally {
      this.#run = undefined;
      this.view?.stop();
    }
  }

  /** Resolves at the next signal, which then has no other effect. */
  #waitForSignal(): Promise<void> {
    return new Promise((resolve) => {
      this.#onLeft = resolve;
    });
  }

  /** Handles Ctrl-C: the first cancels the run, the second exits immediately. */
  interrupt(): void {
    if (this.#onLeft !== undefined) {
      this.#onLeft();
      return;
    }
    if (this.#isEnding || this.#run === undefined) this.#leave(EXIT_CODES.cancelled);
    this.#isEnding = true;
    this.#printNotice("Cancelling the run. Press Ctrl-C again to exit immediately.");
    void this.#run.cancel("Ctrl-C was pressed.").catch(() => {});
  }

  /** Handles Ctrl-C at a prompt: a stored run pauses with its questions open. */
  leavePrompt(): void {
    if (this.#isEnding || this.#run === undefined) this.#leave(EXIT_CODES.cancelled);
    this.#pauseOrCancel(this.#run, "Ctrl-C was pressed");
  }

  #terminate(exitCode: number): void {
    if (this.#isEnding || this.#run === undefined) this.#leave(exitCode);
    this.#exitCode = exitCode;
    this.#pauseOrCancel(this.#run, "Received a termination signal");
  }

  /** Pauses a run whose events have no reader any more, so that it can be resumed. */
  #handleLostReader(): void {
    this.#isUnread = true;
    if (this.#isEnding || this.#run === undefined) return;
    this.#pauseOrCancel(this.#run, "The reader of its events has gone");
  }

  #pauseOrCancel(run: Run, why: string): void {
    this.#isEnding = true;
    if (this.#options.isKept) {
      this.#printNotice(`${why}: the run pauses before its next step, and can be resumed.`);
      run.requestPause();
    } else {
      this.#printNotice(`${why}: the run is cancelled, because it is not stored.`);
      void run.cancel(`${why}.`).catch(() => {});
    }
  }

  #leave(exitCode: number): never {
    this.view?.stop();
    return this.#shell.leave(exitCode);
  }

  #printNotice(text: string): void {
    if (this.view === undefined) printNotice(this.#shell, text);
    else this.view.print(`${text}\n`);
  }

  #takeEvent(event: EspalierEvent): void {
    this.#fold ??= new RunFold(event.runId);
    if (this.#fold.runId === event.runId) this.#fold.apply(event);
    if (this.#options.output === "events" && !this.#isUnread)
      printLine(this.#shell, formatJsonLine(event));
  }

  #printResult(result: RunResult): void {
    const { output, report, ...options } = this.#options;
    this.view?.stop();
    if (output === "json") printLine(this.#shell, formatJsonLine(summarizeResult(result)));
    if (output === "result") {
      const text = describeResult(result);
      if (text !== "") printLine(this.#shell, text);
    }
    const causes = this.#fold?.causes() ?? [];
    if (report === undefined) {
      for (const line of describeSettledRun(result, causes, options))
        printNotice(this.#shell, line);
      return;
    }
    // Separates the report from the lines of a plain view.
    if (this.view?.isLive !== true) printNotice(this.#shell, "");
    printNotice(this.#shell, report(result));
    for (const line of describeCauses(causes)) printNotice(this.#shell, line);
  }
}

/** Returns the typed result of a run as JSON, or else its text. */
export function describeResult({ output, text }: Pick<RunResult, "output" | "text">): string {
  return output === undefined ? formatFileText(text) : formatJson(output);
}

/** Returns the main facts of a result, without histories, which are in the store. */
function summarizeResult(result: RunResult): object {
  const { runId, traceId, status, reason, text, output, usage, errors, questions } = result;
  const { agents, refusalsByCode, durationMs } = result;
  return {
    runId,
    traceId,
    status,
    reason,
    text,
    ...(output === undefined ? {} : { output }),
    usage,
    errors,
    questions,
    agents: agents.length,
    refusalsByCode,
    durationMs,
  };
}

const PACKAGES =
  "@opentelemetry/resources @opentelemetry/sdk-trace-node @opentelemetry/exporter-trace-otlp-http";

/**
 * Sets up the tracing of this process. Throws UsageError if the packages for it are not installed.
 */
export async function startNodeTracing(): Promise<NodeTracing> {
  try {
    const { setUpNodeTracing } = await import("espalier/otel/node");
    return setUpNodeTracing();
  } catch (cause) {
    if (findErrorCode(cause) !== "ERR_MODULE_NOT_FOUND") throw cause;
    throw new UsageError(
      `Cannot use --otel: OpenTelemetry is not installed: ${describeCause(cause)}. Run: npm install ${PACKAGES}`,
      { cause },
    );
  }
}

/** Returns one line with the counts of a flush. */
function describeDelivery({
  deliveredSpans,
  lostSpans,
  unconfirmedSpans = 0,
  pendingSpans,
  lastError,
}: DeliveryCounts): string {
  const missing = lostSpans + pendingSpans;
  const total = deliveredSpans + unconfirmedSpans + missing;
  if (total === deliveredSpans) return `Trace sent: ${deliveredSpans} spans`;
  const why =
    lastError === undefined
      ? "the endpoint did not answer in time"
      : stripControlCharacters(lastError);
  const counts = [
    ...(missing > 0 ? [`${missing} of ${total} spans not sent`] : []),
    ...(unconfirmedSpans > 0 ? [`${unconfirmedSpans} of ${total} spans not confirmed`] : []),
  ];
  return `Trace incomplete: ${counts.join(", ")} (${why})`;
}
