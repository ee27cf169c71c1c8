// An engine in memory that keeps every promise of the port, for tests that break one at a time.
// Workers receive runs from this engine alone, since it has them sweep the store very rarely.

import {
  createUnknownRoleError,
  type Engine,
  type EngineWorker,
  type RunExecutor,
  type RunTicket,
} from "../../src/engine/engine.ts";

/** Delay before a rejected execution is repeated. Without a delay nothing else would run. */
const REPEAT_MS = 5;

/** Shared state of several engines. */
export class MemoryQueue {
  readonly known = new Set<string>();
  readonly workers = new Set<MemoryWorker>();
  /** Tickets that wait for a worker, by run. */
  readonly waiting = new Map<string, RunTicket>();
  /** Runs in execution, each with a request that arrived meanwhile. */
  readonly led = new Map<string, { again: RunTicket | undefined }>();
  #isOver = false;

  engine(): Engine {
    return {
      sweepIntervalMs: 1e9,
      enqueue: async (ticket, atMs) => {
        if (!this.known.has(nameOf(ticket))) throw createUnknownRoleError(ticket);
        this.later(ticket, atMs);
      },
      serve: async (executor) => await this.serve(executor),
    };
  }

  async serve(executor: RunExecutor): Promise<EngineWorker> {
    const worker = new MemoryWorker(this, executor);
    for (const role of executor.roles) this.known.add(nameOf({ role, version: executor.version }));
    this.workers.add(worker);
    this.assign();
    return worker;
  }

  later(ticket: RunTicket, atMs?: number): void {
    const delayMs = atMs === undefined ? 0 : atMs - Date.now();
    if (delayMs > 0) setTimeout(() => this.take(ticket), delayMs).unref();
    else this.take(ticket);
  }

  /**
   * Starts no further executions: the retries of a broken engine would continue during later tests.
   */
  end(): void {
    this.#isOver = true;
    this.workers.clear();
  }

  take(ticket: RunTicket): void {
    if (this.#isOver) return;
    const led = this.led.get(ticket.runId);
    if (led !== undefined) led.again = ticket;
    else this.waiting.set(ticket.runId, ticket);
    this.assign();
  }

  assign(): void {
    for (const ticket of this.waiting.values()) {
      const worker = [...this.workers].find((one) => one.isFor(ticket));
      if (worker === undefined) continue;
      this.waiting.delete(ticket.runId);
      this.led.set(ticket.runId, { again: undefined });
      worker.lead(ticket);
    }
  }

  over(ticket: RunTicket, isToRepeat: boolean): void {
    const again = this.led.get(ticket.runId)?.again;
    this.led.delete(ticket.runId);
    if (again !== undefined) this.take(again);
    else if (isToRepeat) this.later(ticket, Date.now() + REPEAT_MS);
    this.assign();
  }
}

export class MemoryWorker implements EngineWorker {
  readonly queue: MemoryQueue;
  readonly executor: RunExecutor;
  readonly leave = new AbortController();
  readonly #underWay = new Set<Promise<void>>();

  constructor(queue: MemoryQueue, executor: RunExecutor) {
    this.queue = queue;
    this.executor = executor;
  }

  isFor({ role, version }: RunTicket): boolean {
    const { roles, version: own, maxRuns } = this.executor;
    return roles.includes(role) && own === version && this.#underWay.size < maxRuns;
  }

  lead(ticket: RunTicket): void {
    const work = this.#settle(ticket).then((isToRepeat) => {
      this.#underWay.delete(work);
      this.queue.over(ticket, isToRepeat);
    });
    this.#underWay.add(work);
  }

  async #settle(ticket: RunTicket): Promise<boolean> {
    try {
      const settled = await this.executor.execute(ticket.runId, this.leave.signal);
      if (settled.type === "waiting" && settled.untilMs !== undefined)
        this.queue.later(ticket, settled.untilMs);
      return false;
    } catch {
      return true;
    }
  }

  async close(): Promise<void> {
    this.queue.workers.delete(this);
    this.leave.abort();
    await Promise.all(this.#underWay);
  }
}

function nameOf({ role, version }: Pick<RunTicket, "role" | "version">): string {
  return JSON.stringify([role, version]);
}
