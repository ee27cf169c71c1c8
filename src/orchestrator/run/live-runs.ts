// LiveRuns: the runs of an orchestrator in this process. Owns their handles from start to
// settlement, and decides whether further runs may begin.

import { CancelSignal } from "../../kernel/cancel-signal.ts";
import { EspalierError } from "../../kernel/error.ts";
import { omitUndefined } from "../../kernel/json.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { MessageContent } from "../../protocol/message-content.ts";
import { retry } from "../durability/journal.ts";
import { requireStorage, type Settings } from "../tree/orchestrator-settings.ts";
import type { PreparedRun } from "./live-run.ts";
import type { Quarantine } from "./quarantine.ts";
import type { Recovery } from "./recover-run.ts";
import { RunHandle } from "./run-handle.ts";
import { continuesRun } from "./run-mail.ts";

/** Returns the error for an id whose run was started with another role or task. */
export function createOtherRunError(runId: string): EspalierError {
  return new EspalierError({
    code: "run_id_conflict",
    message: `Cannot use run id ${JSON.stringify(runId)}: it belongs to a run with another role or task. Choose another id for another task.`,
    data: { runId },
  });
}

export class LiveRuns {
  readonly settings: Settings;
  /** In the order of their start. */
  readonly #runs = new Set<RunHandle>();
  /** Number of recoveries that have no run yet. */
  #recoveries = 0;
  /** Aborted when nothing further may begin. */
  readonly closing = new CancelSignal();
  /** See `openQuarantine`: only runs of a store have one. */
  quarantine: Quarantine | undefined;
  #isEmpty = Promise.withResolvers<void>();

  constructor(settings: Settings) {
    this.settings = settings;
  }

  get all(): readonly RunHandle[] {
    return [...this.#runs];
  }

  /** Returns the newest run with this id. An older one that was taken over may still be ending. */
  find(runId: string): RunHandle | undefined {
    return this.all.findLast((run) => run.runId === runId);
  }

  /**
   * Returns the unsettled run that was started under this id. Throws `run_id_conflict` if it was
   * started with another role or task.
   */
  findStarted(runId: string, role: string, task: MessageContent): RunHandle | undefined {
    const run = this.find(runId);
    if (run === undefined || run.isStartedBy(role, task)) return run;
    throw createOtherRunError(run.runId);
  }

  /** Throws `invalid_state` once the orchestrator was closed. */
  assertOpen(): void {
    if (!this.closing.aborted) return;
    throw new EspalierError({
      code: "invalid_state",
      message:
        "Cannot start or continue a run: the orchestrator was closed. Create a new orchestrator.",
    });
  }

  /**
   * Starts a prepared run and retains its handle until the run settles. An abort of `signal`
   * cancels the run. With `continueWith`, a paused run that has a store continues by itself when
   * mail arrives.
   */
  start(next: PreparedRun, signal: AbortSignal | undefined, continueWith?: Recovery): RunHandle {
    const run = new RunHandle(next, () => {
      this.#runs.delete(run);
      this.quarantine?.end(run.runId);
      this.#check();
    });
    this.#runs.add(run);
    if (continueWith !== undefined && next.run.journal !== undefined)
      run.prepareContinuation = () => this.#continueByMail(run.runId, next.root.role, continueWith);
    run.start();
    if (signal !== undefined) run.cancelWith(signal);
    return run;
  }

  /**
   * Prepares a paused run to continue if its mail requests that. If the orchestrator is closed,
   * another process was faster, or the run cannot continue, it stays in the store unchanged.
   */
  #continueByMail(
    runId: RunId,
    role: AgentRole,
    { context, contextOf, onStreamPart, session }: Recovery,
  ): Promise<PreparedRun | undefined> {
    const { settings } = this;
    const storage = requireStorage(settings);
    const look = async (): Promise<PreparedRun | undefined> => {
      const { status, owner } = (await storage.store.find(runId)) ?? {};
      if (this.closing.aborted || status !== "open" || owner !== null) return undefined;
      const { readRun, prepareRecovery } = await import("./recover-run.ts");
      const persistedRun = await readRun(storage, runId);
      if (!persistedRun.mail.some(continuesRun)) return undefined;
      const options = omitUndefined({ context, contextOf, onStreamPart, session });
      return await prepareRecovery(settings, runId, {
        ...options,
        role,
        persistedRun,
        areAllNeeded: false,
      });
    };
    return retry(storage.clock, look).catch(() => undefined);
  }

  /** Executes work that may start a run. Closing waits for this work as well. */
  async during<Made>(work: () => Promise<Made>): Promise<Made> {
    this.#recoveries += 1;
    try {
      return await work();
    } finally {
      this.#recoveries -= 1;
      this.#check();
    }
  }

  /** Prevents further runs from beginning, and resolves when nothing is in progress. */
  close(): Promise<void> {
    this.closing.abort("closed");
    this.#check();
    return this.#isEmpty.promise;
  }

  #check(): void {
    const isEmpty = this.#recoveries === 0 && this.#runs.size === 0;
    if (this.closing.aborted && isEmpty) this.#isEmpty.resolve();
  }
}
