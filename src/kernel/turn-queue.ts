// TurnQueue: FIFO queue of calls that wait for room. Owns the waiting calls; their owner knows
// which room is free.
//
// A PQueue of concurrency 1 holds the calls. Its running task is the turn of a call, which takes
// room or waits for it. The work of a call is not part of the task, so the call continues in its
// own async context, and keeps its room after its signal is aborted.

import type PQueue from "p-queue";

import { getAbortSignal, addAbortHandler, type AnySignal } from "./cancel-signal.ts";

/** The room that one call needs. */
export interface RoomRequest<Room> {
  /** Takes the room. `undefined` if it is not free. */
  take(): Room | undefined;
  /** Calls `wake` when time alone has made room. Returns a function that stops the timer. */
  startTimer?(wake: () => void): (() => void) | undefined;
}

let importing: Promise<typeof PQueue> | undefined;

/** Loads p-queue, once in a process. The first call that has to wait does. */
export function loadPQueue(): Promise<typeof PQueue> {
  importing ??= import("p-queue").then((module) => module.default);
  return importing;
}

export class TurnQueue {
  /** Calls that wait, until each has seen the end of its turn. */
  #size = 0;
  #queue: PQueue | undefined;
  #wakeFirst: (() => void) | undefined;

  /**
   * Returns the room at once if it is free and no call waits, otherwise a promise. `undefined` if
   * the signal is aborted first.
   */
  enter<Room>(
    request: RoomRequest<Room>,
    signal: AnySignal,
  ): Room | undefined | Promise<Room | undefined> {
    if (signal.aborted) return undefined;
    const room = this.#size === 0 ? request.take() : undefined;
    return room ?? this.#wait(request, signal);
  }

  /** Lets the call whose turn it is look for its room again. */
  serve(): void {
    this.#wakeFirst?.();
  }

  async #wait<Room>(request: RoomRequest<Room>, signal: AnySignal): Promise<Room | undefined> {
    let room: Room | undefined;
    const takeTurn = async (): Promise<void> => {
      while (!signal.aborted) {
        room = request.take();
        if (room !== undefined) return;
        await this.#change(request, signal);
      }
    };
    this.#size += 1;
    try {
      const PQueueClass = await loadPQueue();
      this.#queue ??= new PQueueClass({ concurrency: 1 });
      await this.#queue.add(takeTurn, { signal: getAbortSignal(signal) });
    } catch (cause) {
      if (!signal.aborted) throw cause;
    } finally {
      this.#size -= 1;
    }
    // Room that was taken before the signal was aborted belongs to the call.
    return room;
  }

  /** Resolves when there may be room, or the signal is aborted. */
  #change(request: RoomRequest<unknown>, signal: AnySignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        this.#wakeFirst = undefined;
        stopTimer?.();
        stopListening();
        resolve();
      };
      this.#wakeFirst = wake;
      const stopListening = addAbortHandler(signal, wake);
      const stopTimer = request.startTimer?.(wake);
    });
  }
}
