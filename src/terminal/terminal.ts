// Entry `espalier/terminal`: runs as a person at a terminal sees them.

import type { EventSink } from "../index.ts";
import type { Clock } from "../extend.ts";
import type { TerminalStream } from "./live-area.ts";
import { LiveView } from "./live-view.ts";
import { PlainView } from "./plain-view.ts";

export { formatRunReport } from "./report.ts";
export { jaegerLinks, type JaegerLinks } from "./jaeger-links.ts";
export { stripControlCharacters } from "./terminal-text.ts";
export type { TerminalStream } from "./live-area.ts";

/** Where a view draws, and how. */
export interface TerminalViewOptions {
  /** Where to draw. Default: `process.stdout`. */
  readonly stream?: TerminalStream;
  /** Read for `NO_COLOR`, `CI` and `TERM`. Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Default: the clock of the machine, with timers that do not keep the process alive. */
  readonly clock?: Clock;
  /** Whether the last picture of a live tree stays when its run has ended. Default: `keep`. */
  readonly lastFrame?: "keep" | "erase";
}

/** Shows runs while they run. Hand it to the orchestrator as a sink. */
export interface TerminalView extends EventSink {
  /** True if it draws trees, in colour; false if it writes plain lines. */
  readonly isLive: boolean;
  /**
   * Prints text of models, or of the program, above the trees, a row once it is complete: `onStreamPart: (piece) => piece.type === "text" &&
   * view.print(piece.text)`, of one run or of an orchestrator. Control characters are left out. Anything else that is written to the terminal
   * of a live tree is drawn over. After `stop`, and once the stream is broken, it does nothing.
   */
  print(text: string): void;
  /**
   * Takes what is drawn away, and draws and writes nothing until the function that it gives is called: for prompts on the same terminal.
   * What happens meanwhile is shown then.
   */
  suspend(): () => void;
  /**
   * Ends the view at once and gives the terminal back. Not needed after runs that have ended; may
   * be called twice.
   */
  stop(): void;
}

/**
 * A live tree on a terminal; plain lines if the stream is none, or if `NO_COLOR`, `CI` or
 * `TERM=dumb` ask for them. In a program: `docs/guides/command.md`.
 */
export function terminalView(options: TerminalViewOptions = {}): TerminalView {
  const { stream = process.stdout, env = process.env, clock = machineClock } = options;
  if (!wantsLiveTree(stream, env)) return new PlainView(stream);
  return new LiveView(stream, clock, options.lastFrame ?? "keep");
}

function wantsLiveTree(
  stream: TerminalStream,
  env: Readonly<Record<string, string | undefined>>,
): boolean {
  const isSet = (name: string): boolean => (env[name] ?? "") !== "";
  return stream.isTTY === true && !isSet("NO_COLOR") && !isSet("CI") && env["TERM"] !== "dumb";
}

// Not the clock of the runs: a view that never gets the end of a run must not keep the process
// alive.
const machineClock: Clock = {
  // oxlint-disable-next-line no-restricted-properties -- an adapter to the machine
  nowMs: () => Date.now(),
  // oxlint-disable-next-line no-restricted-properties -- an adapter to the machine
  monotonicMs: () => performance.now(),
  setTimer: (delayMs, wake) => {
    // oxlint-disable-next-line no-restricted-globals -- an adapter to the machine
    const timer = setTimeout(wake, delayMs).unref();
    return () => clearTimeout(timer);
  },
};
