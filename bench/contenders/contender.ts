import type { AgentWork, SpanCounts } from "../workloads/agent-work.ts";

/** One way to do the work: the bare loop on the `openai` client, or espalier in one of its variants. */
export interface Contender {
  /** Sets up what a program sets up once. The function that it gives does the work once, and throws unless all of it was done. */
  prepare(work: AgentWork, watch?: WorkWatch): () => Promise<void>;
  /** Delivers the spans that have ended, so that their cost falls into the measurement that they belong to. */
  flush(): Promise<void>;
  /** Bytes of the journal of the last run; 0 without a store. */
  journalBytes(): Promise<number>;
  /** Ends everything. Gives the spans that must have arrived; undefined: it makes none. */
  close(): Promise<TracedWork | undefined>;
}

/** What a workload looks at while the work continues. */
export interface WorkWatch {
  /** Called by the body of the tool. */
  readonly onToolCall?: () => void;
  /** Called with each piece of text as it arrives. Makes the model calls stream. */
  readonly onDelta?: (piece: string) => void;
}

/** What was traced. */
export interface TracedWork {
  readonly expected: SpanCounts;
  /** All spans that have ended, of whatever operation, as the tracing itself counts them. */
  readonly endedSpans: number;
}
