// Scheduler: how many model calls and tool bodies of one run go on at once.
// Owns two queues. S1: only leaf effects enter; an agent that waits for its children would deadlock a tree as deep as the queue is wide.

import PQueue from "p-queue";

import { onAbort } from "../../kernel/cancel.ts";
import type { Limiter } from "../../agent/run-ports.ts";

/** How much of a run may go on at once, over the whole tree. */
export interface Concurrency {
  /** Default 32. */
  readonly modelCalls: number;
  /** Default 32. */
  readonly toolCalls: number;
}

export const DEFAULT_CONCURRENCY: Concurrency = Object.freeze({ modelCalls: 32, toolCalls: 32 });

export function limiter(concurrency: Concurrency): Limiter {
  const models = new PQueue({ concurrency: concurrency.modelCalls });
  const tools = new PQueue({ concurrency: concurrency.toolCalls });
  return {
    model: (signal, work) => inSlot(models, signal, work),
    tool: (signal, work) => inSlot(tools, signal, work),
  };
}

/** The queue hears of the abort only while the call waits: once it runs, its slot is its own until it has ended. */
async function inSlot<T>(
  queue: PQueue,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T | undefined> {
  if (signal.aborted) return undefined;
  const isFree = queue.size === 0 && queue.pending < queue.concurrency;
  if (isFree) return await queue.add(work);
  const waiting = new AbortController();
  const stopListening = onAbort(signal, () => waiting.abort(signal.reason));
  let started = false;
  const run = (): Promise<T> => {
    started = true;
    stopListening();
    return work();
  };
  try {
    return await queue.add(run, { signal: waiting.signal });
  } catch (cause) {
    if (!started && waiting.signal.aborted) return undefined;
    throw cause;
  }
}
