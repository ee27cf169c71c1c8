// RunReaders: the readers of the events and pieces of a run. Owns the readers that have not left, over its pauses.

import { checkCount, checkKeys, mismatch } from "../../kernel/check.ts";
import { EspalierError } from "../../kernel/error.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { StreamPiece } from "../../protocol/stream-piece.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";
import { Backlog } from "./backlog.ts";
import type { FeedFailure } from "./feed.ts";
import { JoinedReader } from "./joined-reader.ts";
import { pastEvents } from "./past-events.ts";
import type { EventsOptions, PiecesOptions } from "./run.ts";

const DEFAULT_MAX_BACKLOG = 10_000;

const NONE: readonly never[] = Object.freeze([]);

interface Reader {
  /** Reads of this one from now on. */
  readonly follow: (run: RunRuntime) => void;
  readonly end: (failure: FeedFailure | undefined) => void;
}

export class RunReaders {
  #run: RunRuntime;
  #readers: readonly Reader[] = NONE;
  /** The run rests, or broke off. */
  #end: { readonly failure: FeedFailure | undefined } | undefined;

  /** `end`: of a run that rests, or broke off. */
  constructor(run: RunRuntime, end?: { readonly failure: FeedFailure | undefined }) {
    this.#run = run;
    this.#end = end;
  }

  get areThere(): boolean {
    return this.#readers.length > 0;
  }

  events(options: EventsOptions): AsyncIterableIterator<EspalierEvent, undefined> {
    checkKeys("events options", options, ["from", "maxBacklog", "agentId"]);
    const to = this.#run.recorder.eventCount;
    const { from = to + 1, agentId } = options;
    if (!Number.isSafeInteger(from) || from < 1)
      throw mismatch(
        "from",
        "the number of an event, from 1",
        from,
        "Leave it out for those to come.",
      );
    const past = from <= to ? pastEvents(this.#run, { from, to, agentId }) : undefined;
    const backlog = this.#read<EspalierEvent>(options, ({ recorder }, live) =>
      recorder.subscribe({ take: (event) => event.seq >= from && live.take(event) }),
    );
    return past === undefined ? backlog : new JoinedReader(past, backlog);
  }

  pieces(options: PiecesOptions): AsyncIterableIterator<StreamPiece, undefined> {
    checkKeys("pieces options", options, ["maxBacklog", "agentId"]);
    const { agentId } = options;
    const live = this.#read<StreamPiece>(options, (followed, backlog) =>
      followed.openPieces().subscribe((piece) => backlog.take(piece)),
    );
    const run = this.#run;
    const agents = agentId === undefined ? run.tree.nodes : [nodeOf(run, agentId)];
    const past = run.openPieces().soFar(agents);
    return past.length === 0 ? live : new JoinedReader(piecesIn(past), live);
  }

  /** A reader of what the run gives from now on, until it leaves or the run rests. */
  #read<T extends { readonly agentId: AgentId }>(
    { maxBacklog = DEFAULT_MAX_BACKLOG, agentId }: PiecesOptions,
    subscribe: (run: RunRuntime, backlog: Backlog<T>) => () => void,
  ): Backlog<T> {
    checkCount("maxBacklog", maxBacklog);
    if (agentId !== undefined) nodeOf(this.#run, agentId);
    let unsubscribe: (() => void) | undefined;
    const onClose = (): void => {
      unsubscribe?.();
      this.#readers = this.#readers.filter((one) => one !== reader);
    };
    const backlog = new Backlog<T>({ maxBacklog, agentId, onClose });
    const reader: Reader = {
      follow: (run) => {
        unsubscribe?.();
        unsubscribe = subscribe(run, backlog);
      },
      end: (failure) => backlog.end(failure),
    };
    this.#readers = [...this.#readers, reader];
    reader.follow(this.#run);
    if (this.#end !== undefined) backlog.end(this.#end.failure);
    return backlog;
  }

  /** The run continues after a pause: its readers keep reading. */
  follow(run: RunRuntime): void {
    const { pieces } = this.#run;
    if (pieces !== undefined) run.openPieces().follow(pieces);
    this.#run = run;
    for (const reader of this.#readers) reader.follow(run);
  }

  /** Nothing more comes. `failure`: why that is so, where the readers have to know. */
  end(failure: FeedFailure | undefined): void {
    this.#end = { failure };
    for (const reader of this.#readers) reader.end(failure);
  }
}

async function* piecesIn(
  steps: readonly (() => readonly StreamPiece[])[],
): AsyncGenerator<StreamPiece, undefined> {
  for (const step of steps) yield* step();
  return undefined;
}

/** Throws `unknown_agent`. */
export function nodeOf({ tree }: RunRuntime, agentId: AgentId): AgentRuntime {
  const node = tree.find(agentId);
  if (node !== undefined) return node;
  throw new EspalierError({
    code: "unknown_agent",
    message: `Expected the id of an agent of this run, got ${JSON.stringify(agentId)}. Take it from an event.`,
    data: { agentId },
  });
}
