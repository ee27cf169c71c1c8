// Replayer: replays one segment of a recording. Owns its clock, and how far it has come.
// An effect ends when its turn in the recording has come, and not before: so the interleavings of the recording are made again.

import { sleep } from "../../kernel/cancel.ts";
import { systemClock } from "../../kernel/clock.ts";
import { endOfTurn } from "../../kernel/throttle.ts";
import type { EspalierError } from "../../kernel/error.ts";
import {
  recordFrom,
  type JournalRecord,
  type RecordOf,
} from "../../orchestrator/durability/journal-record.ts";
import type { Run } from "../../orchestrator/run/run.ts";
import type { RunRuntime } from "../../orchestrator/tree/run-runtime.ts";
import type { RunResult } from "../../orchestrator/run/run-result.ts";
import type { EventSink } from "../../protocol/event-sink.ts";
import { ManualClock } from "../manual-clock.ts";
import { Commands } from "./commands.ts";
import { Comparison, type Divergence } from "./compare-actions.ts";
import { isLedger, type Action } from "./actions.ts";
import { DivergenceReporter } from "./divergence-error.ts";
import { ReplayEffects } from "./replay-effects.ts";
import { RecordedOutcomes } from "./recorded-outcomes.ts";
import {
  type CommandEntry,
  type CommandRecord,
  type ScriptEntry,
  type EffectEntry,
  type ReplayScript,
} from "./replay-script.ts";
import { beginsAtMs, positionsOf, rootOf } from "./segment.ts";
import { LiveRun } from "../../orchestrator/run/live-run.ts";
import { setUpRun, type Replayable } from "./set-up-run.ts";
import { passages, randomFrom } from "./shuffle.ts";

/** The order in which effects end that are under way at the same time. */
export type ReplayOrder = "recorded" | { readonly shuffledBy: number };

export interface ReplayerParts extends Replayable {
  /** Of the segment that is replayed, from 1. */
  readonly number: number;
  /** No other segment follows. */
  readonly isLast: boolean;
  readonly order: ReplayOrder;
}

/** Turns of the event loop that an agent may take until it does what comes next. */
const MOST_TURNS = 500;
/** So long, by the clock of the machine, while code of the user's is under way. */
const PATIENCE_MS = 2_000;
/** Sizes and fingerprints: what they follow from says more. */
const DERIVED = /^budget\.|Hash$/u;
const NEVER = new AbortController().signal;

export class Replayer {
  readonly #script: ReplayScript;
  readonly #root: ReturnType<typeof rootOf>;
  readonly #order: ReplayOrder;
  readonly #clock = new ManualClock();
  readonly #outcomes: RecordedOutcomes;
  readonly #compared: Comparison;
  readonly #reporter: DivergenceReporter;
  readonly #actions: readonly Action[];
  /** Commands that came right after so many actions. */
  readonly #atOnce: ReadonlyMap<number, readonly CommandEntry[]>;
  /** Commands by the call whose beginning they came with. */
  readonly #atCalls: ReadonlyMap<string | undefined, readonly CommandEntry[]>;
  readonly #run: Run;
  #commands: Commands | undefined;
  /** Actions of the replay so far, and leases. */
  #done = 0;
  /** Actions of the recording that were looked at. */
  #seen = 0;
  #result: RunResult | undefined;
  /** The user's sinks get no events: the agents continue in the next segment. */
  #isSilent = false;
  readonly #isLast: boolean;
  readonly #runtime: RunRuntime;

  constructor(parts: ReplayerParts) {
    const { script, beginning, segment, records, role, means, order, number } = parts;
    this.#script = script;
    this.#order = order;
    this.#isLast = parts.isLast;
    this.#root = rootOf(beginning);
    this.#reporter = new DivergenceReporter(records, number);
    const { agentPath = "", role: expected } = this.#root ?? {};
    const place = { agentPath, stepNumber: 0, field: "role" };
    if (role.name !== expected) throw this.#reporter.error({ ...place, expected, got: role.name });
    const commands = script.entries.filter((entry) => entry.type === "command");
    const actions = script.entries.filter((entry) => entry.type === "action");
    this.#actions = actions.map(({ action }) => action);
    const atOnce = commands.filter(({ isAtOnce }) => isAtOnce);
    this.#atOnce = Map.groupBy(atOnce, ({ actionsBefore }) => actionsBefore);
    this.#atCalls = Map.groupBy(commands, ({ call }) => call);
    const effects = segment.records.filter((record) => record.type === "effect");
    this.#outcomes = new RecordedOutcomes(effects);
    const isInOrder = order === "recorded";
    this.#compared = new Comparison({
      isInOrder,
      positions: positionsOf(beginning),
    });
    this.#clock.advance(beginsAtMs(beginning, segment));
    const sinks = (means.sinks ?? []).map((sink) => this.#heard(sink));
    // Commands that came right after the beginning of a call.
    const onCall = (call: string): void => this.#giveNew(this.#atCalls.get(call));
    const replayed = { outcomes: this.#outcomes, script, onCall };
    const led = setUpRun({
      ...parts,
      clock: this.#clock,
      means: { ...means, sinks: [...sinks, { take: () => this.#giveDue() }] },
      effects: (journal, agent, inFlight) =>
        new ReplayEffects(agent, { ...replayed, journal, inFlight }),
      append: (record) => this.#take(record),
    });
    const run = new LiveRun(led);
    const runtime = led.supervisor.run;
    this.#run = run;
    this.#runtime = runtime;
    this.#commands = new Commands(runtime, run);
    this.#giveEarly();
    void run.settled.then((result) => (this.#result = result)).catch(() => undefined);
  }

  async play(): Promise<RunResult> {
    try {
      await endOfTurn();
      if (this.#order === "recorded")
        for (const entry of this.#script.entries) await this.#follow(entry);
      else await this.#shuffle(this.#order.shuffledBy);
      return await this.#end();
    } catch (cause) {
      await this.#leave("The replay went its own way.");
      throw cause;
    }
  }

  #heard(sink: EventSink): EventSink {
    return {
      take: (event) => {
        if (!this.#isSilent) sink.take(event);
      },
    };
  }

  async #follow(entry: ScriptEntry): Promise<void> {
    switch (entry.type) {
      case "effect":
        return await this.#release(entry);
      case "booking":
        if (this.#order !== "recorded") return; // Leases have other ids, and each settlement books all of its call.
        await this.#rest();
        this.#moveTo(entry.atMs);
        this.#runtime.ledger.redoInFlight(entry.done);
        return await endOfTurn();
      case "command":
        return await this.#command(entry.record);
      case "action":
        this.#moveTo(entry.atMs);
        return await this.#see(entry.action);
      case "time":
        this.#moveTo(entry.atMs);
    }
  }

  async #shuffle(seed: number): Promise<void> {
    const random = randomFrom(seed);
    for (const passage of passages(this.#script)) {
      // Within it time stands still: an effect that comes before its turn must not come after its time.
      const [first] = passage;
      if (first !== undefined && "atMs" in first) this.#moveTo(first.atMs);
      const left = passage.filter((entry) => entry.type === "effect");
      while (left.length > 0) {
        await this.#rest();
        const ready = left.filter(({ record }) => this.#outcomes.isAwaited(record));
        const chosen = ready[Math.floor(random() * ready.length)] ?? left[0];
        if (chosen === undefined) break;
        left.splice(left.indexOf(chosen), 1);
        await this.#release({ ...chosen, atMs: undefined });
      }
      for (const entry of passage) if (entry.type !== "effect") await this.#follow(entry);
    }
  }

  #moveTo(atMs: number | undefined): void {
    if (atMs !== undefined) this.#clock.advance(Math.max(0, atMs - this.#clock.monotonicMs()));
  }

  /** Waits until the agent asks for the effect, and lets it end. */
  async #release(entry: EffectEntry): Promise<void> {
    const { record } = entry;
    const isPermit = record.name.startsWith("permit.");
    const isAwaited = (): boolean => isPermit || this.#outcomes.isAwaited(record);
    if (!isAwaited() && !(await this.#until(isAwaited))) throw this.#missing(record);
    this.#moveTo(this.#timeOf(entry));
    this.#outcomes.release(record);
    await endOfTurn();
  }

  /**
   * By then what comes of it was done. What is decided in between was decided a little earlier: the time of an agent is over only where the
   * recording says so.
   */
  #timeOf({ record, atMs, isLate }: EffectEntry): number | undefined {
    if (atMs === undefined || isLate) return atMs;
    const deadlineAtMs = this.#runtime.tree.find(record.agentId)?.account.deadlineAtMs() ?? null;
    return deadlineAtMs === null ? atMs : Math.min(atMs, deadlineAtMs - 1);
  }

  /** Waits until the agent has done what was recorded, and compares. */
  async #see(action: Action): Promise<void> {
    const hasCome = (): boolean => this.#compared.hasNext(action);
    if (!hasCome() && !(await this.#until(hasCome))) throw this.#missing(action);
    const found = this.#compared.check(action);
    this.#seen += 1;
    if (found !== undefined) throw this.#reporter.error(this.#moreSpecific(action, found));
  }

  /** For a request of another size, the first difference in its content, where that is known. */
  #moreSpecific({ agentId }: Action, found: Divergence): Divergence {
    const following = this.#actions
      .slice(this.#seen)
      .filter((action) => action.agentId === agentId);
    let best = found;
    for (const action of following.slice(0, 3)) {
      if (!DERIVED.test(best.field) || !this.#compared.hasNext(action)) break;
      best = this.#compared.check(action) ?? best;
    }
    return best;
  }

  async #command(record: CommandRecord): Promise<void> {
    const { commands } = this;
    if (commands.isDone(record)) return;
    if (record.type === "signal") {
      let isRaised = commands.takeRaised(record);
      if (!isRaised)
        await this.#until(() => !this.#outcomes.isBusy || (isRaised = commands.takeRaised(record)));
      if (isRaised) return;
    }
    await this.#rest();
    if (!commands.give(record)) throw this.#missing(record);
    await endOfTurn();
  }

  /** What comes of the last effect without anything else comes first. */
  async #rest(): Promise<void> {
    await endOfTurn();
    await endOfTurn();
  }

  get commands(): Commands {
    if (this.#commands === undefined) throw new TypeError("The replay has not begun.");
    return this.#commands;
  }

  /** Takes in what the replay writes, as it would be read again. */
  #take(record: JournalRecord): void {
    const copy = recordFrom(JSON.parse(JSON.stringify(record)));
    this.#commands?.take(copy);
    this.#reporter.take(copy);
    const isAction = this.#compared.take(copy);
    if (!isAction && !isLedger(copy, "lease")) return;
    this.#done += 1;
    if (record.type !== "event") this.#giveDue(); // An event reaches the other sinks first.
  }

  /** Gives the commands that came right after what the agents have done by now. */
  #giveDue(): void {
    this.#giveNew(this.#atOnce.get(this.#done));
  }

  /** Gives the commands that came before the run began or continued. */
  #giveEarly(): void {
    for (const [actionsBefore, entries] of this.#atOnce)
      if (actionsBefore <= this.#done) this.#giveNew(entries);
  }

  /** Gives those of them that were not given yet. */
  #giveNew(entries: readonly CommandEntry[] = []): void {
    const commands = this.#commands;
    if (commands === undefined) return;
    for (const { record } of entries) if (!commands.isDone(record)) commands.give(record);
  }

  /** False: it did not come in time. */
  async #until(isSo: () => boolean): Promise<boolean> {
    const sinceMs = systemClock.monotonicMs();
    for (let turns = 0; !isSo(); turns += 1) {
      const isPatient = this.#outcomes.isBusy && systemClock.monotonicMs() - sinceMs < PATIENCE_MS;
      if (turns >= MOST_TURNS && !isPatient) return false;
      await (turns < MOST_TURNS ? endOfTurn() : sleep(systemClock, 1, NEVER));
    }
    return true;
  }

  async #end(): Promise<RunResult> {
    if (this.#script.end === "broken") {
      for (let turns = 0; turns < 3; turns += 1) await endOfTurn();
      if (this.#result !== undefined) return this.#result;
      return await this.#leave("The recording ends here.");
    }
    await this.#until(() => this.#result !== undefined);
    const found = this.#compared.surplus();
    if (found !== undefined) throw this.#reporter.error(found);
    if (this.#result !== undefined) return this.#result;
    throw this.#reporter.error({
      agentPath: this.#root?.agentPath ?? "",
      stepNumber: 0,
      field: "result",
      expected: "the end of the run",
      got: undefined,
    });
  }

  /** What was recorded does not come: the first difference of all that has come, or else what is waited for instead. */
  #missing(expected: Action | RecordOf<"effect"> | CommandRecord): EspalierError {
    const found = this.#compared.firstIn(this.#actions.slice(this.#seen));
    if (found !== undefined) return this.#reporter.error(found);
    if (!("type" in expected)) {
      const { agentPath, stepNumber, what, facts, agentId } = expected;
      const unknown = this.#outcomes.unknownOf(agentId);
      const field = unknown === undefined ? what : "effect";
      return this.#reporter.error({ agentPath, stepNumber, field, expected: facts, got: unknown });
    }
    const agentId = "agentId" in expected ? expected.agentId : (this.#root?.agentId ?? "");
    const last = this.#actions
      .slice(0, this.#seen)
      .findLast((action) => action.agentId === agentId);
    const { agentPath = agentId, stepNumber = 0 } = last ?? {};
    const field = expected.type;
    const what = expected.type === "effect" ? expected.name : expected;
    return this.#reporter.error({ agentPath, stepNumber, field, expected: what, got: undefined });
  }

  /** Ends what is under way, and waits for it. */
  async #leave(message: string): Promise<RunResult> {
    this.#isSilent = !this.#isLast;
    const ending = this.#run.cancel(message);
    ending.catch(() => undefined);
    this.#outcomes.close();
    for (let turns = 0; turns < MOST_TURNS && this.#result === undefined; turns += 1) {
      await endOfTurn();
      if (turns % 10 === 9) this.#clock.advance(this.#runtime.settings.graceMs);
    }
    return await ending;
  }
}
