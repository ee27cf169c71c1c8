// Streams a run as server-sent events, for a page or another process that follows it: its events,
// stream parts and result.

import { checkKeys, checkMethods, mismatch } from "../../kernel/argument-checks.ts";
import { systemClock, type Clock } from "../../kernel/clock.ts";
import { omitUndefined } from "../../kernel/json.ts";
import { mustBeWhole } from "../../model/check-options.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import type { StreamPart } from "../../protocol/stream-part.ts";
import { createLeavableIterator } from "./run-iterators.ts";
import type { EventsOptions, Run } from "./run.ts";
import type { RunResult } from "./run-result.ts";

const DEFAULT_HEARTBEAT_MS = 15_000;
const checkHeartbeat = mustBeWhole("Leave it out for 15 seconds.");
const HEARTBEAT = ": still here\n\n";

/**
 * Streams a run as server-sent events (`text/event-stream`). Each yielded string is one message.
 *
 * - `event` is an event of the run, with its sequence number as the `id` of the message.
 * - `part` is a stream part of `run.stream()`, without an `id`.
 * - `result` is the last message, with `runId`, `status`, `reason`, `text`, `output`, `errors` and
 *   `questions`.
 *
 * The client must close the connection after `result`, or the browser reconnects. A late or
 * reconnecting client first gets the output so far, each step after a `reset` part. With
 * `lastEventId` the client also gets the events that it missed, if the run is in a store. A client
 * that disconnects ends the iteration, not the run. Messages are collected from this call on, not
 * from the first read.
 *
 * @throws EspalierError `invalid_argument` if an option is invalid, or `lastEventId` is not a number.
 * @throws Everything that `run.events()` and `run.stream()` throw, and reject with in their
 * iterations.
 *
 * @example
 * ```ts
 * import { createServer } from "node:http";
 * import { Readable } from "node:stream";
 *
 * createServer((_request, response) => {
 *   const run = orchestrator.start(role, "Compare three markets.");
 *   response.writeHead(200, { "content-type": "text/event-stream" });
 *   Readable.from(toSse(run)).pipe(response);
 * }).listen(3000);
 * ```
 */
export function toSse(
  run: Run,
  options: Pick<EventsOptions, "from" | "maxBacklog" | "agentId"> & {
    /**
     * Value of the `Last-Event-ID` header of a reconnecting client. It replaces `from`: events
     * continue after this one. `undefined` or `null` if the client connects for the first time.
     *
     * @example
     * ```ts
     * export const reconnect = (request: Request) =>
     *   toSse(run, { lastEventId: request.headers.get("last-event-id") });
     * ```
     */
    readonly lastEventId?: string | null | undefined;
    /**
     * Time in milliseconds without a message after which a comment is sent, so that proxies keep
     * the connection open.
     *
     * @default 15_000
     */
    readonly heartbeatIntervalMs?: number;
    /**
     * Clock for the heartbeat.
     *
     * @default the system clock
     */
    readonly clock?: Clock;
  } = {},
): AsyncIterableIterator<string, undefined> {
  checkMethods("toSse run", run, ["events", "stream"]);
  checkKeys("sse options", options, [
    "from",
    "lastEventId",
    "maxBacklog",
    "agentId",
    "heartbeatIntervalMs",
    "clock",
  ]);
  const { heartbeatIntervalMs = DEFAULT_HEARTBEAT_MS, clock = systemClock, lastEventId } = options;
  checkHeartbeat("heartbeatIntervalMs", heartbeatIntervalMs);
  const { from, maxBacklog, agentId } = options;
  const first =
    lastEventId === undefined || lastEventId === null ? from : parseEventId(lastEventId);
  const events = run.events(omitUndefined({ from: first, maxBacklog, agentId }));
  const pieces = run.stream(omitUndefined({ maxBacklog, agentId }));
  let isLeft = false;
  const messages = write();
  return createLeavableIterator(messages, async () => {
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
          yield formatMessage(came.name, came.read.value);
          // Not earlier, since a failure while the client is slow would be an unhandled rejection.
          awaited.set(came.name, next[came.name]());
        }
      }
      if (!isLeft) yield formatMessage("result", selectResult(await run.settled));
      return undefined;
    } finally {
      void events.return?.();
      void pieces.return?.();
    }
  }
}

function parseEventId(lastEventId: string): number {
  if (/^\d{1,15}$/.test(lastEventId)) return Number(lastEventId) + 1;
  throw mismatch("lastEventId", "the number of an event", lastEventId, "Respond with status 400.");
}

interface Came {
  readonly name: "event" | "part";
  readonly read: IteratorResult<EspalierEvent | StreamPart, undefined>;
}

function formatMessage(name: string, data: EspalierEvent | StreamPart | object): string {
  const id = name === "event" && "seq" in data ? `id: ${data.seq}\n` : "";
  return `${id}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

type SentField = "runId" | "status" | "reason" | "text" | "output" | "questions" | "errors";

function selectResult(result: RunResult): Pick<RunResult, SentField> {
  const { runId, status, reason, text, output, questions, errors } = result;
  return { runId, status, reason, text, output, questions, errors };
}
