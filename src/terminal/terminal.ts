// Entry `espalier/terminal`: live views and reports of runs for a terminal.

import { checkArgument } from "./terminal-text.ts";
import type { EventSink } from "../index.ts";
import type { Clock } from "../extend.ts";
import type { TerminalStream } from "./live-area.ts";
import { LiveView } from "./live-view.ts";
import { PlainView } from "./plain-view.ts";

export { formatRunReport } from "./report.ts";
export { jaegerLinks, type JaegerLinks } from "./jaeger-links.ts";
export { stripControlCharacters } from "./terminal-text.ts";
export type { TerminalStream } from "./live-area.ts";

/** Options of `terminalView`. */
export interface TerminalViewOptions {
  /**
   * Stream to draw on.
   *
   * @default process.stdout
   */
  readonly stream?: TerminalStream;
  /**
   * Environment variables; `NO_COLOR`, `CI` and `TERM` are read.
   *
   * @default process.env
   */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /**
   * Clock of the frames.
   *
   * @default the clock of the machine, with timers that do not keep the process alive
   */
  readonly clock?: Clock;
  /**
   * Whether the last frame of a live tree stays on the terminal when its run has ended.
   *
   * @default "keep"
   */
  readonly lastFrame?: "keep" | "erase";
}

/**
 * View of runs on a terminal, created by `terminalView`. Pass it to the orchestrator in `sinks`.
 */
export interface TerminalView extends EventSink {
  /** `true` if the view draws live trees in colour, `false` if it writes plain lines. */
  readonly isLive: boolean;
  /**
   * Prints text above the trees, each row when it is complete. Control characters are removed.
   * Other output on the terminal of a live tree is overwritten. Does nothing after `stop()`, or
   * when the stream is broken.
   *
   * @example
   * ```ts
   * const view = terminalView();
   * const orchestrator = new Orchestrator({
   *   sinks: [view],
   *   onStreamPart: (part) =>
   *     part.type === "text" && part.agentPath === role.name && view.print(part.text),
   * });
   * ```
   */
  print(text: string): void;
  /**
   * Erases the view and stops drawing, for a prompt on the same terminal. The returned function
   * resumes the view, which then shows the events since.
   *
   * @example
   * ```ts
   * import { createInterface } from "node:readline/promises";
   *
   * const prompt = async (view: TerminalView, text: string) => {
   *   const resume = view.suspend();
   *   const terminal = createInterface({ input: process.stdin, output: process.stdout });
   *   const answer = await terminal.question(`${text} `);
   *   terminal.close();
   *   resume();
   *   return answer;
   * };
   * ```
   */
  suspend(): () => void;
  /**
   * Ends the view and restores the cursor. Not needed if all runs have ended. Has no effect the
   * second time.
   */
  stop(): void;
}

/**
 * Creates a view that shows runs as they happen: a live tree on a terminal, or plain lines. Lines
 * are plain if the stream is not a terminal, or if `NO_COLOR`, `CI` or `TERM=dumb` is set.
 *
 * @example
 * ```ts
 * const orchestrator = new Orchestrator({ sinks: [terminalView()] });
 * const result = await orchestrator.start(role, "What do pears cost?").result;
 * console.log(formatRunReport(result));
 * ```
 */
export function terminalView(options: TerminalViewOptions = {}): TerminalView {
  const received: unknown = options;
  checkArgument(
    received,
    typeof received === "object" && received !== null,
    "options for terminalView",
  );
  const { stream = process.stdout, env = process.env, clock = machineClock } = options;
  if (!supportsLiveTree(stream, env)) return new PlainView(stream);
  return new LiveView(stream, clock, options.lastFrame ?? "keep");
}

function supportsLiveTree(
  stream: TerminalStream,
  env: Readonly<Record<string, string | undefined>>,
): boolean {
  const isSet = (name: string): boolean => (env[name] ?? "") !== "";
  return stream.isTTY === true && !isSet("NO_COLOR") && !isSet("CI") && env["TERM"] !== "dumb";
}

// Separate from the clock of the runs: a view that never receives the end of a run must not keep
// the process alive.
const machineClock: Clock = {
  // oxlint-disable-next-line no-restricted-properties -- an adapter to the machine
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimer: (delayMs, wake) => {
    // oxlint-disable-next-line no-restricted-globals -- an adapter to the machine
    const timer = setTimeout(wake, delayMs).unref();
    return () => clearTimeout(timer);
  },
};
