// Replayer: plays one recording. Owns its clock, and how far it has come.
// An effect comes to its end when its turn in the recording has come, and not before: so the interleavings of the recording are made again.

import { sleep, systemClock } from "../../kernel/clock.ts";
import { endOfTurn } from "../../kernel/throttle.ts";
import type { EspalierError } from "../../kernel/error.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import {
  JournalRecordSchema,
  type JournalRecord,
  type RecordOf,
} from "../../orchestrator/durability/journal-record.ts";
import type { Run } from "../../orchestrator/run/run.ts";
import type { RunRuntime } from "../../orchestrator/tree/run-runtime.ts";
import type { RunResult } from "../../orchestrator/run/run-result.ts";
import type { EventSink } from "../../protocol/event-sink.ts";
import { ManualClock } from "../manual-clock.ts";
import { Commands } from "./commands.ts";
import { Comparison, type Divergence } from "./compare-deeds.ts";
import type { Deed } from "./deeds.ts";
import { DivergenceTeller } from "./divergence-error.ts";
import { ReplayEffects } from "./replay-effects.ts";
import { ReplayStage } from "./replay-stage.ts";
import {
  isLease,
  type CommandCue,
  type CommandRecord,
  type Cue,
  type EffectCue,
  type Score,
} from "./score.ts";
import { beginsAtMs, placesOf, rootOf, type Beginning, type Stretch } from "./stretch.ts";
import { setStage, type Means } from "./stage-set.ts";
import { passages, randomFrom } from "./shuffle.ts";

/** The order in which effects end that are under way at the same time. */
export type ReplayOrder = "recorded" | { readonly shuffledBy: number };

export interface ReplayerParts {
  /** The stretch that is played, from 1. */
  readonly number: number;
  readonly score: Score;
  readonly beginning: Beginning;
  readonly stretch: Stretch;
  /** Of the whole recording. */
  readonly records: readonly JournalRecord[];
  /** No other stretch follows. */
  readonly isLast: boolean;
  readonly role: AgentRole;
  readonly context: unknown;
  readonly means: Means;
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
  readonly #score: Score;
  readonly #root: ReturnType<typeof rootOf>;
  readonly #order: ReplayOrder;
  readonly #clock = new ManualClock();
  readonly #stage: ReplayStage;
  readonly #compared: Comparison;
  readonly #teller: DivergenceTeller;
  readonly #deeds: readonly Deed[];
  /** What was wanted right after so many deeds. */
  readonly #atOnce: ReadonlyMap<number, readonly CommandCue[]>;
  readonly #run: Run;
  #commands: Commands | undefined;
  /** Deeds of the replay so far, and leases. */
  #done = 0;
  /** Deeds of the recording that were looked at. */
  #seen = 0;
  #result: RunResult | undefined;
  /** Nobody is told what becomes of agents that go on in the next stretch. */
  #isSilent = false;
  readonly #isLast: boolean;
  readonly #runtime: RunRuntime;

  constructor(parts: ReplayerParts) {
    const { score, beginning, stretch, records, role, context, means, order, number } = parts;
    this.#score = score;
    this.#order = order;
    this.#isLast = parts.isLast;
    this.#root = rootOf(beginning);
    this.#teller = new DivergenceTeller(records, number);
    this.#checkRole(role);
    this.#deeds = score.cues.flatMap((cue) => (cue.type === "deed" ? [cue.deed] : []));
    this.#atOnce = Map.groupBy(
      score.cues.flatMap((cue) => (cue.type === "command" && cue.isAtOnce ? [cue] : [])),
      ({ deedsBefore }) => deedsBefore,
    );
    const effects = stretch.records.filter((record) => record.type === "effect");
    this.#stage = new ReplayStage(effects, score, (call) => this.#giveAt(call));
    const isInOrder = order === "recorded";
    this.#compared = new Comparison({
      isInOrder,
      places: placesOf(beginning),
      untold: score.unrun,
    });
    this.#clock.advance(beginsAtMs(beginning, stretch));
    const sinks = (means.sinks ?? []).map((sink) => this.#heard(sink));
    const { runtime, run } = setStage({
      score,
      beginning,
      records,
      own: stretch.records,
      clock: this.#clock,
      role,
      context,
      means: { ...means, sinks: [...sinks, { take: () => this.#giveDue() }] },
      logOf: (agent) => new ReplayEffects(this.#stage, agent),
      append: (record) => this.#take(record),
    });
    this.#run = run;
    this.#runtime = runtime;
    this.#commands = new Commands(runtime, run);
    this.#giveEarly();
    void run.settled.then((result) => (this.#result = result)).catch(() => undefined);
  }

  async play(): Promise<RunResult> {
    try {
      await endOfTurn();
      if (this.#order === "recorded") for (const cue of this.#score.cues) await this.#follow(cue);
      else await this.#shuffle(this.#order.shuffledBy);
      return await this.#end();
    } catch (cause) {
      await this.#leave("The replay went its own way.");
      throw cause;
    }
  }

  #checkRole({ name: got }: AgentRole): void {
    const { agentPath = "", role: expected } = this.#root ?? {};
    const place = { agentPath, stepNumber: 0, field: "role" };
    if (got !== expected) throw this.#teller.error({ ...place, expected, got });
  }

  #heard(sink: EventSink): EventSink {
    return {
      take: (event) => {
        if (!this.#isSilent) sink.take(event);
      },
    };
  }

  async #follow(cue: Cue): Promise<void> {
    switch (cue.type) {
      case "effect":
        return await this.#release(cue);
      case "booking":
        if (this.#order !== "recorded") return; // Leases have other ids, and each settlement books all of its call.
        await this.#rest();
        this.#moveTo(cue.atMs);
        this.#runtime.ledger.redo(cue.done);
        return await endOfTurn();
      case "command":
        return await this.#command(cue.record);
      case "deed":
        this.#moveTo(cue.atMs);
        return await this.#see(cue.deed);
      case "time":
        this.#moveTo(cue.atMs);
    }
  }

  async #shuffle(seed: number): Promise<void> {
    const random = randomFrom(seed);
    for (const passage of passages(this.#score)) {
      // Within it time stands still: whoever comes before its turn must not come after its time.
      const [first] = passage;
      if (first !== undefined && "atMs" in first) this.#moveTo(first.atMs);
      const left = passage.filter((cue) => cue.type === "effect");
      while (left.length > 0) {
        await this.#rest();
        const ready = left.filter(({ record }) => this.#stage.isAwaited(record));
        const chosen = ready[Math.floor(random() * ready.length)] ?? left[0];
        if (chosen === undefined) break;
        left.splice(left.indexOf(chosen), 1);
        await this.#release({ ...chosen, atMs: undefined });
      }
      for (const cue of passage) if (cue.type !== "effect") await this.#follow(cue);
    }
  }

  #moveTo(atMs: number | undefined): void {
    if (atMs !== undefined) this.#clock.advance(Math.max(0, atMs - this.#clock.monotonicMs()));
  }

  /** Waits until the agent asks for the effect, and lets it end. */
  async #release(cue: EffectCue): Promise<void> {
    const { record } = cue;
    const isPermit = record.name.startsWith("permit.");
    const isAwaited = (): boolean => isPermit || this.#stage.isAwaited(record);
    if (!isAwaited() && !(await this.#until(isAwaited))) throw this.#missing(record);
    this.#moveTo(this.#timeOf(cue));
    this.#stage.release(record);
    await endOfTurn();
  }

  /**
   * By then what comes of it was done. What is decided in between was decided a little earlier: the time of an agent is over only where the
   * recording says so.
   */
  #timeOf({ record, atMs, isLate }: EffectCue): number | undefined {
    if (atMs === undefined || isLate || this.#score.hasDeadlines) return atMs;
    const deadlineAtMs = this.#runtime.tree.find(record.agentId)?.account.deadlineAtMs() ?? null;
    return deadlineAtMs === null ? atMs : Math.min(atMs, deadlineAtMs - 1);
  }

  /** Waits until the agent has done what was recorded, and compares. */
  async #see(deed: Deed): Promise<void> {
    const hasCome = (): boolean => this.#compared.hasNext(deed);
    if (!hasCome() && !(await this.#until(hasCome))) throw this.#missing(deed);
    const found = this.#compared.check(deed);
    this.#seen += 1;
    if (found !== undefined) throw this.#teller.error(this.#moreTelling(deed, found));
  }

  /** A request of another size is told by what is in it, where that is known. */
  #moreTelling({ agentId }: Deed, found: Divergence): Divergence {
    const following = this.#deeds.slice(this.#seen).filter((deed) => deed.agentId === agentId);
    let best = found;
    for (const deed of following.slice(0, 3)) {
      if (!DERIVED.test(best.field) || !this.#compared.hasNext(deed)) break;
      best = this.#compared.check(deed) ?? best;
    }
    return best;
  }

  async #command(record: CommandRecord): Promise<void> {
    const { commands } = this;
    if (commands.isDone(record)) return;
    if (record.type === "signal") {
      let isRaised = commands.takeRaised(record);
      if (!isRaised)
        await this.#until(() => !this.#stage.isBusy || (isRaised = commands.takeRaised(record)));
      if (isRaised) return;
    }
    await this.#rest();
    this.#give(record);
    await endOfTurn();
  }

  /** What comes of the last effect without anything else comes first. */
  async #rest(): Promise<void> {
    await endOfTurn();
    await endOfTurn();
  }

  #give(record: CommandRecord): void {
    if (!this.commands.give(record)) throw this.#missing(record);
  }

  get commands(): Commands {
    if (this.#commands === undefined) throw new TypeError("The replay has not begun.");
    return this.#commands;
  }

  /** Takes in what the replay writes, as it would be read again. */
  #take(record: JournalRecord): void {
    const copy = JournalRecordSchema.parse(JSON.parse(JSON.stringify(record)));
    this.#commands?.take(copy);
    this.#teller.take(copy);
    const isDeed = this.#compared.take(copy);
    if (!isDeed && !isLease(copy)) return;
    this.#done += 1;
    if (record.type !== "event") this.#giveDue(); // Of an event others hear first.
  }

  /** What was wanted right after what the agents have done by now. */
  #giveDue(): void {
    const commands = this.#commands;
    if (commands === undefined) return;
    for (const { record } of this.#atOnce.get(this.#done) ?? [])
      if (!commands.isDone(record)) commands.give(record);
  }

  /** What was wanted before the run began, or went on. */
  #giveEarly(): void {
    const early = [...this.#atOnce].filter(([deedsBefore]) => deedsBefore <= this.#done);
    for (const { record } of early.flatMap(([, cues]) => cues))
      if (!this.commands.isDone(record)) this.commands.give(record);
  }

  /** What was wanted right after the beginning of a call. */
  #giveAt(call: string): void {
    const commands = this.#commands;
    if (commands === undefined) return;
    for (const cue of this.#score.cues)
      if (cue.type === "command" && cue.call === call && !commands.isDone(cue.record))
        commands.give(cue.record);
  }

  /** False: it did not come in time. */
  async #until(isSo: () => boolean): Promise<boolean> {
    const sinceMs = systemClock.monotonicMs();
    for (let turns = 0; !isSo(); turns += 1) {
      const isPatient = this.#stage.isBusy && systemClock.monotonicMs() - sinceMs < PATIENCE_MS;
      if (turns >= MOST_TURNS && !isPatient) return false;
      await (turns < MOST_TURNS ? endOfTurn() : sleep(systemClock, 1, NEVER));
    }
    return true;
  }

  async #end(): Promise<RunResult> {
    if (this.#score.end === "broken") {
      for (let turns = 0; turns < 3; turns += 1) await endOfTurn();
      if (this.#result !== undefined) return this.#result;
      return await this.#leave("The recording ends here.");
    }
    await this.#until(() => this.#result !== undefined);
    const found = this.#compared.surplus();
    if (found !== undefined) throw this.#teller.error(found);
    if (this.#result !== undefined) return this.#result;
    throw this.#teller.error({
      agentPath: this.#root?.agentPath ?? "",
      stepNumber: 0,
      field: "result",
      expected: "the end of the run",
      got: undefined,
    });
  }

  /** What was recorded does not come: the first difference of all that has come, or else what is waited for instead. */
  #missing(expected: Deed | RecordOf<"effect"> | CommandRecord): EspalierError {
    const found = this.#compared.firstIn(this.#deeds.slice(this.#seen));
    if (found !== undefined) return this.#teller.error(found);
    if (!("type" in expected)) {
      const { agentPath, stepNumber, what, facts, agentId } = expected;
      const unknown = this.#stage.unknownOf(agentId);
      const field = unknown === undefined ? what : "effect";
      return this.#teller.error({ agentPath, stepNumber, field, expected: facts, got: unknown });
    }
    const agentId = "agentId" in expected ? expected.agentId : (this.#root?.agentId ?? "");
    const last = this.#deeds.slice(0, this.#seen).findLast((deed) => deed.agentId === agentId);
    const { agentPath = agentId, stepNumber = 0 } = last ?? {};
    const field = expected.type;
    const what = expected.type === "effect" ? expected.name : expected;
    return this.#teller.error({ agentPath, stepNumber, field, expected: what, got: undefined });
  }

  /** Ends what is under way, and waits for it. */
  async #leave(message: string): Promise<RunResult> {
    this.#isSilent = !this.#isLast;
    const ending = this.#run.cancel(message);
    ending.catch(() => undefined);
    this.#stage.close();
    for (let turns = 0; turns < MOST_TURNS && this.#result === undefined; turns += 1) {
      await endOfTurn();
      if (turns % 10 === 9) this.#clock.advance(this.#runtime.settings.graceMs);
    }
    return await ending;
  }
}
