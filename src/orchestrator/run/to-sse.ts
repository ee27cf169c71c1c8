// A run as server-sent events, for a page or another process that follows it: its events, its pieces and its result.

import { checkKeys, mismatch } from "../../kernel/check.ts";
import { systemClock, type Clock } from "../../kernel/clock.ts";
import { defined } from "../../kernel/json.ts";
import { mustBeWhole } from "../../model/check-options.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { StreamPart } from "../../protocol/stream-part.ts";
import { leavable } from "./run-readers.ts";
import type { EventsOptions, Run } from "./run.ts";
import type { RunResult } from "./run-result.ts";

const DEFAULT_HEARTBEAT_MS = 15_000;
const checkHeartbeat = mustBeWhole("Leave it out for 15 seconds.");
const HEARTBEAT = ": still here\n\n";

/**
 * A run as the text of a stream of server-sent events (`text/event-stream`), message by message:
 *
 * - `event`, with its number as `id`: an event of the run, as `run.events({ from })` gives it;
 * - `part`: what was written so far and what is being written, as `run.stream()` gives it, without an `id`;
 * - `result`, the last one: `runId`, `status`, `reason`, `text`, `output`, `errors`, and the `questions` of a paused run. The client closes then, or
 *   it would reconnect.
 *
 * `Readable.from(toSse(run)).pipe(response)` sends it; a client that leaves ends the iteration, and not the run. A client that comes late, or
 * reconnects, gets what was written so far, each step after a `reset`; with `Last-Event-ID` it gets the events that it has missed, if the run is
 * kept. The run is followed from this call on, not from the first read.
 *
 * @throws EspalierError `invalid_option` for an option, or an id that is none of ours; and what `run.events()` throws. The iteration
 * rejects with what theirs rejects with.
 */
export function toSse(
  run: Run,
  options: Pick<EventsOptions, "from" | "maxBacklog"> & {
    /**
     * The header `Last-Event-ID` of a client that reconnects: events continue after that one, in the place of `from`. Undefined or null: the client is
     * here for the first time.
     */
    readonly lastEventId?: string | null | undefined;
    /** After so long without a message a comment is sent, so that nothing between takes the connection for dead. From 1. Default 15,000. */
    readonly heartbeatIntervalMs?: number;
    /** Default: the clock of the machine. */
    readonly clock?: Clock;
  } = {},
): AsyncIterableIterator<string, undefined> {
  checkKeys("sse options", options, [
    "from",
    "lastEventId",
    "maxBacklog",
    "heartbeatIntervalMs",
    "clock",
  ]);
  const { heartbeatIntervalMs = DEFAULT_HEARTBEAT_MS, clock = systemClock, lastEventId } = options;
  checkHeartbeat("heartbeatIntervalMs", heartbeatIntervalMs);
  const { from, maxBacklog } = options;
  const first = lastEventId === undefined || lastEventId === null ? from : after(lastEventId);
  const events = run.events(defined({ from: first, maxBacklog }));
  const pieces = run.stream(defined({ maxBacklog }));
  let isLeft = false;
  const messages = write();
  return leavable(messages, async () => {
    isLeft = true;
    await Promise.all([events.return?.(), pieces.return?.()]);
    await messages.return(undefined);
  });

  async function* write(): AsyncGenerator<string, undefined> {
    const next = {
      event: async (): Promise<Came> => ({ name: "event", read: await events.next() }),
      part: async (): Promise<Came> => ({ name: "part", read: await pieces.next() }),
    };
    const awaited = new Map([
      ["part", next.part()],
      ["event", next.event()],
    ]);
    try {
      while (awaited.size > 0) {
        const silence = Promise.withResolvers<undefined>();
        const stopTimer = clock.setTimer(heartbeatIntervalMs, () => silence.resolve(undefined));
        const came = await Promise.race([...awaited.values(), silence.promise]).finally(stopTimer);
        if (came === undefined) yield HEARTBEAT;
        else if (came.read.done === true) awaited.delete(came.name);
        else {
          yield message(came.name, came.read.value);
          // Not before: a failure while the client is slow would be an unhandled rejection.
          awaited.set(came.name, next[came.name]());
        }
      }
      if (!isLeft) yield message("result", resultFor(await run.settled));
      return undefined;
    } finally {
      void events.return?.();
      void pieces.return?.();
    }
  }
}

function after(lastEventId: string): number {
  if (/^\d{1,15}$/.test(lastEventId)) return Number(lastEventId) + 1;
  throw mismatch("lastEventId", "the number of an event", lastEventId, "Respond with status 400.");
}

interface Came {
  readonly name: "event" | "part";
  readonly read: IteratorResult<EspalierEvent | StreamPart, undefined>;
}

function message(name: string, data: EspalierEvent | StreamPart | object): string {
  const id = name === "event" && "seq" in data ? `id: ${data.seq}\n` : "";
  return `${id}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

type SentField = "runId" | "status" | "reason" | "text" | "output" | "questions" | "errors";

function resultFor(result: RunResult): Pick<RunResult, SentField> {
  const { runId, status, reason, text, output, questions, errors } = result;
  return { runId, status, reason, text, output, questions, errors };
}
