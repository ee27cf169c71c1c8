// The commands that a recorded run got from outside, given once more; and the ends of agents' time.

import { EspalierError } from "../../kernel/error.ts";
import { sameJson } from "../../kernel/json.ts";
import { takeFirst } from "../../orchestrator/durability/in-flight.ts";
import type { JournalRecord, RecordOf } from "../../orchestrator/durability/journal-record.ts";
import type { Run } from "../../orchestrator/run/run.ts";
import type { RunRuntime } from "../../orchestrator/tree/run-runtime.ts";
import type { CommandRecord } from "./replay-script.ts";

/** Gives commands of the recording, each once. Owns the signals that the agents have raised by themselves. */
export class Commands {
  readonly #runtime: RunRuntime;
  readonly #run: Run;
  readonly #done = new Set<CommandRecord>();
  readonly #raised: RecordOf<"signal">[] = [];

  constructor(runtime: RunRuntime, run: Run) {
    this.#runtime = runtime;
    this.#run = run;
  }

  /** Takes what the replay wrote. */
  take(record: JournalRecord): void {
    if (record.type === "signal") this.#raised.push(record);
  }

  isDone(record: CommandRecord): boolean {
    return this.#done.has(record);
  }

  /** True if a hook has raised the signal, as it did in the recording. */
  takeRaised(record: RecordOf<"signal">): boolean {
    return takeFirst(this.#raised, (one) => sameJson(one, record)) !== undefined;
  }

  /** False: it cannot be done, since the replay went another way. */
  give(record: CommandRecord): boolean {
    this.#done.add(record);
    try {
      this.#do(record);
      return true;
    } catch (cause) {
      if (EspalierError.is(cause)) return false;
      throw cause;
    }
  }

  #do(record: CommandRecord): void {
    const run = this.#run;
    switch (record.type) {
      case "cancel":
        run.cancelAgent(record.agentId, record.message);
        return;
      case "deadline":
        this.#runtime.tree.find(record.agentId)?.endAt(record.deadlineAtMs);
        return;
      case "letter":
        void run.steer(record.text, record.agentId);
        return;
      case "pause":
        run.requestPause();
        return;
      case "signal":
        this.#runtime.tree.find(record.agentId)?.requestStop(record.signal);
        return;
      case "skip":
        run.skipToolCalls(record.message);
        return;
      case "stop":
        this.#runtime.tree.stop(record.signal);
        return;
      case "ledger": {
        const { done } = record;
        if (done.operation !== "grant") return;
        run.grant(done.grant.budget, { by: done.grant.by, agentId: done.agentId });
      }
    }
  }
}
