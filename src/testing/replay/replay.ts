// Replay: executes a recorded run again without its model and tools. The loop, the tree, the ledger
// and all policies run again. External outcomes come from the recording, in its order. A different
// result is a divergence.

import { replayInFlight } from "../../budget/replay-operation.ts";
import { checkKeys } from "../../kernel/argument-checks.ts";
import { checkAgentRole, type AgentRole } from "../../agent/agent-role.ts";
import {
  createSettings,
  type OrchestratorOptions,
} from "../../orchestrator/tree/orchestrator-settings.ts";
import type { RunResult } from "../../orchestrator/run/run-result.ts";
import { createLineError, readSegments, type Recording, type Segment } from "./recording.ts";
import { findBeginning, collectIds, type Beginning, type Original } from "./segment.ts";
import { systemClock } from "../../kernel/clock.ts";
import { EspalierError } from "../../kernel/error.ts";
import { sameJson } from "../../kernel/json.ts";
import { waitForTurnEnd } from "../../kernel/throttle.ts";
import { takeFirst } from "../../agent/in-flight-work.ts";
import {
  parseRecord,
  type JournalRecord,
  type RecordOf,
} from "../../orchestrator/durability/journal-record.ts";
import { RunJournal } from "../../orchestrator/durability/run-journal.ts";
import { RunHandle } from "../../orchestrator/run/run-handle.ts";
import type { RunRuntime } from "../../orchestrator/tree/run-runtime.ts";
import { memoryStore } from "../../store/memory-store.ts";
import { ManualClock } from "../manual-clock.ts";
import { Comparison, createDivergenceError, type Divergence } from "./comparison.ts";
import { OutcomeFeed, ReplayEffects } from "./replay-effects.ts";
import { isBooking, buildScript, type ScriptEntry } from "./script.ts";

/**
 * Options of `replay`. Roles, hooks and guards are code, so a recording does not contain them. They
 * run again.
 *
 * @example
 * ```ts
 * const options: ReplayOptions = { role: researcher, roles: [researcher, writer] };
 * ```
 */
export interface ReplayOptions<out Output = unknown, in out Context = unknown> extends Pick<
  OrchestratorOptions<AgentRole<unknown, Context>>,
  "roles" | "hooks" | "guards" | "prices" | "sinks" | "hookTimeoutMs" | "graceMs"
> {
  /** Role of the root agent. Its model is never called. */
  readonly role: AgentRole<Output, Context>;
  /**
   * Context of the run, as in `StartOptions`. Hooks, guards, sections and `instructions` read it;
   * tools do not run.
   */
  readonly context?: Context;
}

/** Result of a replay: the result of the run in the last segment, and the list of segments. */
export type ReplayResult<Output = unknown> = RunResult<Output> & {
  /** Replayed segments in order. A segment is the part of a run that one process executed. */
  readonly segments: readonly {
    /** Way in which the process got the run. */
    readonly begin: "started" | "forked" | "resumed" | "recovered";
    /**
     * Way in which the segment ended. `broken` if the process died, or if the recording is
     * incomplete.
     */
    readonly end: "ended" | "paused" | "broken";
  }[];
};

type ReplayedSegment = ReplayResult["segments"][number];

/**
 * Runs a recording again without calling models or tools. The result equals that of the recorded
 * run, except for times and traces.
 *
 * A run that was paused, or whose process died, is replayed segment by segment. An incomplete
 * recording is replayed to its end; the result is then cancelled with "The recording ends here.".
 * Do not resume a `pausedRun` of the result: resume that of the recorded run.
 *
 * @throws EspalierError `replay_diverged` at the first difference. `data` contains the segment, the
 * agent, the step and the field, with the recorded and the new value.
 * @throws EspalierError `invalid_journal`, `invalid_paused_run`, `invalid_answer` or
 * `unsupported_version` if the recording is invalid.
 * @throws EspalierError `invalid_argument` if an option is invalid, and the errors of
 * `Orchestrator.start` and `resume` for roles.
 *
 * @example
 * ```ts
 * import { readFile } from "node:fs/promises";
 *
 * const recording = await readFile("test/fixtures/pears.jsonl", "utf8");
 * const { status, text } = await replay(recording, { role });
 * ```
 */
export function replay<Output, Context>(
  recording: Recording,
  options: ReplayOptions<Output, Context>,
): Promise<ReplayResult<Output>>;
export async function replay(recording: Recording, options: ReplayOptions): Promise<ReplayResult> {
  checkKeys("replay options", options, OPTIONS);
  const { role, context, ...means } = options;
  checkAgentRole("role", role);
  createSettings(means);
  // The loop imports these lazily. A replay must not wait for that.
  await import("../../agent/hooked-model-call.ts");
  await import("../../agent/phases/compact.ts");
  const segments = readSegments(recording);
  const records = segments.flatMap((segment) => segment.records);
  const replayed: ReplayedSegment[] = [];
  let result: RunResult | undefined;
  for (const [index, segment] of segments.entries()) {
    const beginning = await findBeginning(segment);
    if (beginning === undefined) continue;
    const replayer = new Replayer({ role, context, means, records }, segment, beginning, index + 1);
    result = await replayer.play();
    const { session } = segment.records.findLast((record) => record.type === "result") ?? {};
    if (session !== undefined)
      result = { ...result, session: { execution: undefined, error: undefined, ...session } };
    replayed.push({ begin: beginning.type, end: replayer.end });
  }
  if (result === undefined)
    throw createLineError(records.length, "breaks off before the run begins");
  return Object.freeze({ ...result, segments: replayed });
}

const OPTIONS = "role context roles hooks guards prices hookTimeoutMs graceMs sinks".split(" ");

/** Turns of the event loop in which an agent has to perform its next action. */
const MAX_TURNS = 500;
/** Time by the machine's clock in which user functions have to end. */
const PATIENCE_MS = 2_000;

/**
 * Replays one segment of a recording. Owns its clock and its position in the script. An effect ends
 * in its recorded turn, so that the recorded interleavings are repeated.
 */
class Replayer {
  readonly end: ReplayedSegment["end"];
  /** Number of the segment, from 1. */
  readonly #number: number;
  readonly #rootId: string;
  readonly #script: readonly ScriptEntry[];
  readonly #clock = new ManualClock();
  readonly #feed: OutcomeFeed;
  readonly #compared: Comparison;
  readonly #texts = new Map<unknown, string>();
  /** Commands that were not issued yet. */
  readonly #commands = new Set<ScriptEntry>();
  /** Signals that agents of the replay have raised themselves. */
  readonly #raised: RecordOf<"signal">[] = [];
  readonly #run: RunHandle;
  readonly #runtime: RunRuntime;
  /** Keys of the actions and calls that the replay has reached. */
  readonly #reached = new Set<string>([""]);
  #result: RunResult | undefined;
  #isLeft = false;

  constructor(run: Original, segment: Segment, beginning: Beginning, number: number) {
    const { means, records } = run;
    const { root, positions, limits } = beginning;
    this.#number = number;
    this.#rootId = root.agentId;
    for (const record of records) this.#noteText(record);
    const { agentPath, role: expected } = root;
    const got = run.role.name;
    if (got !== expected)
      throw this.#createError({ agentPath, stepNumber: 0, field: "role", expected, got });
    const types = new Set(
      segment.records.map((record) => record.type === "event" && record.event.type),
    );
    const unended = types.has("run.paused") ? "paused" : "broken";
    this.end = types.has("run.ended") ? "ended" : unended;
    this.#script = buildScript(segment.records, beginning);
    const actions = this.#script.flatMap(({ action }) => action ?? []);
    this.#compared = new Comparison(positions, actions);
    const clock = this.#clock;
    clock.advance(beginning.atMs);
    this.#feed = new OutcomeFeed(segment, (call) => {
      this.#reached.add(call);
      this.#issueDue();
    });
    const isLast = records.at(-1) === segment.records.at(-1);
    // Agents that continue in the next segment have not ended in this one, so their cancellation is
    // hidden.
    const sinks = (means.sinks ?? []).map((sink) => ({
      emit: (event: Parameters<typeof sink.emit>[0]) =>
        (this.#isLeft && !isLast) || sink.emit(event),
    }));
    const settings = createSettings({
      ...means,
      sinks: [...sinks, { emit: () => this.#issueDue() }],
      limits,
      clock,
      ids: collectIds(records, positions),
      store: memoryStore({ clock }), // Sessions of the user are not written.
    });
    const led = beginning.create(settings, run, this.#createJournal());
    this.#run = new RunHandle(led, () => undefined);
    this.#run.start();
    this.#runtime = led.run;
    for (const entry of this.#script) if (entry.after) this.#commands.add(entry);
    this.#issueDue();
    void this.#readResult(this.#run);
  }

  async #readResult(run: RunHandle): Promise<void> {
    try {
      this.#result = await run.settled;
    } catch {
      // A run without a result: the comparison of its records explains why.
    }
  }

  /** Returns a journal that passes its records to the comparison and stores nothing. */
  #createJournal(): RunJournal {
    const writer = {
      append: (record: JournalRecord) => this.#compare(record),
      isQueued: false,
      noteProgress: () => undefined,
      broken: new Promise<never>(() => undefined),
      whenClaimed: () => undefined,
      onPersisted: () => undefined,
      hasGivenUp: false,
      isSuspended: false,
      whenPersisted: () => Promise.resolve(),
      whenBeginPersisted: () => Promise.resolve(),
      readUnreadMail: () => Promise.resolve([]),
      suspend: () => false,
      resume: () => false,
      releaseRun: () => Promise.resolve(false),
      close: () => Promise.resolve(),
      abandon: () => undefined,
    };
    return new RunJournal(writer, {
      effects: (...agent) => new ReplayEffects(this.#feed, ...agent),
      hasDeadlines: false,
    });
  }

  async play(): Promise<RunResult> {
    try {
      await waitForTurnEnd();
      for (const entry of this.#script) await this.#follow(entry);
      if (this.end === "broken") {
        for (let turns = 0; turns < 3; turns += 1) await waitForTurnEnd();
        return this.#result ?? (await this.#cancel("The recording ends here."));
      }
      await this.#waitUntil(() => this.#result !== undefined);
      if (this.#result !== undefined && this.#compared.first === undefined) return this.#result;
      throw this.#createMissingError("result", "the end of the run");
    } catch (cause) {
      await this.#cancel("The replay diverged.");
      throw cause;
    }
  }

  /**
   * Releases the outcome of an entry to its agent, or waits until the agents have performed its
   * action.
   */
  async #follow(entry: ScriptEntry): Promise<void> {
    const { record, action, atMs, isLate, after } = entry;
    if (record.type === "effect") {
      const { agentId, name } = record;
      if (!(await this.#waitUntil(() => this.#feed.isAwaited(record))))
        throw this.#createMissingError("effect", name, agentId);
      const deadlineAtMs = this.#runtime.tree.find(agentId)?.account.deadlineAtMs() ?? Infinity;
      // The agent acts slightly before the next event. Its deadline may pass only if that was
      // recorded.
      this.#moveTo(atMs && (isLate === true ? atMs : Math.min(atMs, deadlineAtMs - 1)));
      this.#feed.release(record);
    } else if (after !== undefined) {
      if (!this.#commands.has(entry) || (await this.#wasRaised(record))) return;
      await waitForTurnEnd();
      await waitForTurnEnd();
      if (!this.#issue(entry))
        throw this.#createMissingError(
          record.type,
          record,
          "agentId" in record ? record.agentId : undefined,
        );
    } else if (isBooking(record)) {
      await waitForTurnEnd();
      await waitForTurnEnd();
      this.#moveTo(atMs);
      replayInFlight(this.#runtime.ledger, record.done);
    } else {
      this.#moveTo(atMs);
      if (
        action === undefined ||
        (await this.#waitUntil(() => !this.#compared.left.has(action.key)))
      )
        return;
      throw this.#createMissingError(action.kind, action.facts, action.agentId);
    }
    await waitForTurnEnd();
  }

  /** Returns true for a signal that an agent of the replay has raised itself. */
  async #wasRaised(record: JournalRecord): Promise<boolean> {
    if (record.type !== "signal") return false;
    const isIt = (raised: unknown): boolean => sameJson(raised, record);
    await this.#waitUntil(() => this.#feed.running === 0 || this.#raised.some(isIt));
    return takeFirst(this.#raised, isIt) !== undefined;
  }

  #moveTo(atMs: number | undefined): void {
    if (atMs !== undefined) this.#clock.advance(Math.max(0, atMs - this.#clock.monotonicMs()));
  }

  /** Compares a record of the replay, in the form in which it would be read. */
  #compare(written: JournalRecord): void {
    const record = parseRecord(JSON.parse(JSON.stringify(written)));
    if (record.type === "signal") this.#raised.push(record);
    this.#noteText(record);
    const key = this.#compared.take(record);
    if (key === undefined) return;
    this.#reached.add(key);
    if (record.type !== "event") this.#issueDue(); // Other sinks receive an event first.
  }

  #noteText(record: JournalRecord): void {
    if (record.type === "definition") this.#texts.set(record.hash, record.text);
  }

  /** Issues the commands that followed an action which the replay has reached. */
  #issueDue(): void {
    for (const entry of this.#commands)
      if (entry.after?.some((key) => this.#reached.has(key))) this.#issue(entry);
  }

  /** Issues a recorded command. Returns false if it is impossible in this replay. */
  #issue(entry: ScriptEntry): boolean {
    this.#commands.delete(entry);
    const { record } = entry;
    const run = this.#run;
    const { tree } = this.#runtime;
    try {
      if (record.type === "cancel") run.cancelAgent(record.agentId, record.message);
      if (record.type === "deadline") tree.find(record.agentId)?.endAtDeadline(record.deadlineAtMs);
      if (record.type === "letter") void run.steer(record.text, record.agentId);
      if (record.type === "pause") run.requestPause();
      if (record.type === "signal") tree.find(record.agentId)?.requestStop(record.signal);
      if (record.type === "skip") run.skipToolCalls(record.message);
      if (record.type === "stop") tree.stop(record.signal);
      if (record.type === "ledger" && record.done.operation === "grant") {
        const { agentId, grant } = record.done;
        const agentPath = tree.find(agentId)?.identity.agentPath;
        if (agentPath === undefined) return false;
        run.grant(grant.budget, { by: grant.by, agentPath });
      }
      return true;
    } catch (cause) {
      if (EspalierError.is(cause)) return false;
      throw cause;
    }
  }

  /** Waits for a condition. Returns false if it is not met in time. */
  async #waitUntil(isSo: () => boolean): Promise<boolean> {
    const sinceMs = systemClock.monotonicMs();
    for (let turns = 0; ; turns += 1) {
      if (this.#compared.found !== undefined) throw this.#createError(this.#compared.found);
      if (isSo()) return true;
      const isPatient = this.#feed.running > 0 && systemClock.monotonicMs() - sinceMs < PATIENCE_MS;
      if (turns >= MAX_TURNS && !isPatient) return false;
      await waitForTurnEnd();
    }
  }

  /**
   * Returns the error for the first difference so far, or else for the effect that an agent waits
   * for instead.
   */
  #createMissingError(kind: string, expected: unknown, agentId = this.#rootId): EspalierError {
    const { agentPath, stepNumber } = this.#compared.getPosition(agentId);
    const got = this.#feed.findUnrecorded(agentId);
    const field = got === undefined ? kind : "effect";
    return this.#createError(
      this.#compared.first ?? { agentPath, stepNumber, field, expected, got },
    );
  }

  #createError(divergence: Divergence): EspalierError {
    return createDivergenceError(divergence, this.#number, this.#texts);
  }

  /** Cancels the run and waits for its end. */
  async #cancel(message: string): Promise<RunResult> {
    this.#isLeft = true;
    const ending = this.#run.cancel(message);
    ending.catch(() => undefined);
    this.#feed.close();
    for (let turns = 0; turns < MAX_TURNS && this.#result === undefined; turns += 1) {
      await waitForTurnEnd();
      if (turns % 10 === 9) this.#clock.advance(this.#runtime.settings.graceMs);
    }
    return await ending;
  }
}
