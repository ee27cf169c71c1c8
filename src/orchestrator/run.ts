// Run: the caller's handle on one tree execution. Owns the one driver of the root's phases: it runs freely, or at the pace of
// whoever iterates. `result` is that iteration drained (R1); there is no second way through the loop.

import { checkCount, checkKeys } from "../kernel/check.ts";
import { EspalierError } from "../kernel/error.ts";
import type { EndedState } from "../agent/agent-state.ts";
import type { PhaseReport } from "../agent/run-agent.ts";
import type { EventSink } from "../protocol/event-sink.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import type { AgentId, RunId } from "../protocol/ids.ts";
import type { AgentNode } from "./agent-node.ts";
import { EventBacklog } from "./event-backlog.ts";
import { PhaseTurnstile } from "./phase-turnstile.ts";
import type { RunResult } from "./run-result.ts";
import type { RunTree } from "./run-tree.ts";

/** How `run.events()` reads. */
export interface EventsOptions {
  /** Unread events that are kept for this reader, at most. Default 10,000. When more come, its iteration fails; the run goes on. */
  readonly maxBacklog?: number;
}

/** What a run is made of; assembled by the orchestrator. */
export interface RunParts {
  readonly runId: RunId;
  readonly root: AgentNode;
  readonly tree: RunTree;
  /** Begins the run and gives the phases of its root. */
  begin(): AsyncGenerator<PhaseReport, EndedState, undefined>;
  /** Ends the run and gives its result. */
  conclude(): RunResult;
  subscribe(sink: EventSink): () => void;
}

const DEFAULT_MAX_BACKLOG = 10_000;

/** The caller's handle on one tree execution. Made by `Orchestrator.start`. */
export class Run {
  readonly runId: RunId;
  /** How the run ended. Never rejects for what happens in the run: a failed run has a result with status `failed`. */
  readonly result: Promise<RunResult>;
  readonly #parts: RunParts;
  readonly #turnstile = new PhaseTurnstile();
  #isOver = false;

  /** @internal Use `Orchestrator.start`. */
  constructor(parts: RunParts) {
    this.runId = parts.runId;
    this.#parts = parts;
    // Whoever holds the iteration must not hold up a cancellation or a deadline.
    parts.root.signal.addEventListener("abort", () => this.#turnstile.open(), { once: true });
    this.result = this.#drive();
  }

  /**
   * All events of the tree, in order, from now on; from the first if called in the same tick as `start`.
   * Ends with the run; reading slowly never slows the run.
   *
   * @throws EspalierError `invalid_option` at once; `event_backlog_overflow` from the iteration, if this reader is too slow.
   */
  events(options: EventsOptions = {}): AsyncIterableIterator<EspalierEvent, undefined> {
    checkKeys("events options", options, ["maxBacklog"]);
    const { maxBacklog = DEFAULT_MAX_BACKLOG } = options;
    checkCount("maxBacklog", maxBacklog);
    const backlog: EventBacklog = new EventBacklog(maxBacklog, () => unsubscribe());
    const unsubscribe = this.#parts.subscribe(backlog);
    if (this.#isOver) void backlog.return();
    return backlog;
  }

  /**
   * The phases of the root, one by one: from now on the loop waits between any two of them until the next is asked for.
   * Called in the same tick as `start`, it sees them all. Breaking off, or throwing, cancels the run and waits for its end.
   *
   * @throws EspalierError `already_iterating` if somebody iterates already.
   */
  iterate(): AsyncIterableIterator<PhaseReport, undefined> {
    if (!this.#turnstile.close()) {
      throw new EspalierError({
        code: "already_iterating",
        message:
          "Expected one iterate() per run, got a second. Share the first iterator, or listen to events().",
      });
    }
    return this.#turnstile.iterator(async () => {
      await this.cancel("The caller broke off the iteration.");
    });
  }

  /** Cancels the whole tree, leaves first, and gives the result. A tool or model that ignores its signal is left behind after the grace period. */
  async cancel(message = "The caller cancelled the run."): Promise<RunResult> {
    this.#parts.root.cancel(message);
    return await this.result;
  }

  /**
   * Cancels one agent with all below it. Its parent goes on, with a cancelled result.
   *
   * @throws EspalierError `unknown_agent` if the run has no agent of this id.
   */
  cancelAgent(agentId: AgentId, message = "The caller cancelled the agent."): void {
    const node = this.#parts.tree.find(agentId);
    if (node === undefined) {
      throw new EspalierError({
        code: "unknown_agent",
        message: `Expected the id of an agent of this run, got ${JSON.stringify(agentId)}. Take it from an event.`,
        data: { agentId },
      });
    }
    node.cancel(message);
  }

  /** Asks the tree to stop: effects under way end by themselves, nothing further starts. Takes effect before the next phase of each agent. */
  requestStop(message = "The caller asked the run to stop."): void {
    this.#parts.tree.stop({
      source: "caller",
      reason: { code: "stop_requested", message, data: {} },
    });
  }

  async #drive(): Promise<RunResult> {
    await Promise.resolve(); // The caller may subscribe, or take over by iterate(), in the tick of start().
    const phases = this.#parts.begin();
    try {
      for (;;) {
        await this.#turnstile.pass();
        const next = await phases.next();
        if (next.done === true) break;
        this.#turnstile.deliver(next.value);
      }
      return this.#parts.conclude();
    } finally {
      this.#isOver = true;
      this.#turnstile.end();
    }
  }
}
