import type { Clock } from "../kernel/clock.ts";

/** What wrappers of a tool work with, besides the context of the call. Not for tools themselves. */
export interface ToolRuntime {
  /** What the model called the tool by, after all renaming: for texts that it reads. */
  readonly toolName: string;
  readonly clock: Clock;
  /** How long a tool that ignores its signal is waited for. */
  readonly graceMs: number;
  /** Aborted when nothing further may start: a wrapper that waits to begin something gives up. Aborted with the call's own signal, too. */
  readonly endSignal: AbortSignal;
  /** Stands for the run: what a wrapper has to know over the whole tree it keeps by this key, weakly. */
  readonly run: object;
  /** Says that the call is tried once more, without the model. */
  readonly noteRetry: (retry: ToolRetryNote) => void;
}

/** One attempt that failed, and is followed by another. */
export interface ToolRetryNote {
  /** The attempt that failed, from 1. */
  readonly attempt: number;
  /** What it threw. */
  readonly error: unknown;
  /** How long the next one is waited for. */
  readonly delayMs: number;
}
