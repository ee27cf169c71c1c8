// RunRecord: the journal of a run, for a reader that does not own the run. Provides events as they
// arrive, and the steps and model requests of one agent at a time, folded from the agent's own
// lines only. Owns its position in the journal, the numbers of the lines of each agent, and
// positions from which lines can be read without the earlier ones.
//
// 1. It holds no content, which is read on demand.
// 2. It writes nothing and does not block: it reads in turns of the event loop.
// 3. A later `run` record does not invalidate earlier events, agents and executions.

import {
  findStepHistory,
  rebuildStepRequest,
  collectStepTextHashes,
  type RebuiltRequest,
} from "../../agent/shown-messages.ts";
import { createUnknownAgentError } from "../../agent/agent-identity.ts";
import { deepFreeze, isRecord } from "../../kernel/json.ts";
import { waitForTurnEnd, Turns } from "../../kernel/throttle.ts";
import type { EspalierEvent } from "../../protocol/event.ts";
import { isId, type AgentId, type RunId } from "../../protocol/ids.ts";
import type { Message } from "../../protocol/message.ts";
import type { RunStore } from "../../store/run-store.ts";
import { readAgents, AgentSteps, readDefinitions, type RecordedExecution } from "./agent-steps.ts";
import { readJournalLine } from "./journal-errors.ts";
import { RECORDS_PER_TURN, RecordCodec } from "./record-codec.ts";
import {
  collectInheritedMessages,
  resolveOrigins,
  type InheritedMessage,
} from "./message-origins.ts";
import { parseKnownEvent } from "./open-spans.ts";

const RECORDS_PER_PLACE = 800;
/** Maximum number of cached texts. Most agents refer to the same few. */
const MOST_TEXTS = 100;

interface ReadPoint {
  /** Number of lines before it. */
  readonly lines: number;
  readonly codec: () => RecordCodec;
}

interface KnownAgent {
  parentAgentId: AgentId | null;
  /** Number of messages that it inherited from its parent. */
  inherited: number;
  /** Numbers of the lines about it, in order. */
  readonly lines: number[];
}

/**
 * Reads the journal of a run from a store, for viewers and debuggers. `advance` returns new
 * events; `steps` and `request` return what an agent did and what its model was sent. Reads only
 * what is asked for, holds no content, and never writes.
 *
 * @example
 * ```ts
 * import { toRunId } from "espalier/extend";
 *
 * const record = new RunRecord(store, toRunId("order-4711"));
 * await record.advance((event, line) => console.log(line, event.agentPath, event.type));
 * ```
 */
export class RunRecord {
  readonly #store: Pick<RunStore, "read">;
  readonly #runId: RunId;
  readonly #codec = new RecordCodec();
  #lineCount = 0;
  #recordCount = 0;
  readonly #places: ReadPoint[] = [{ lines: 0, codec: () => new RecordCodec() }];
  readonly #agents = new Map<AgentId, KnownAgent>();
  /** Number of the last line that has a text, by the hash of the text. */
  readonly #definitions = new Map<string, number>();
  readonly #texts = new Map<string, string>();
  readonly #handled: number[] = [];
  readonly #rejectedAnswers = new Map<number, string>();
  /** Agent that was read last, up to a line. */
  #last:
    | { readonly agentId: AgentId; readonly line: number; readonly steps: AgentSteps }
    | undefined;
  #advanced: Promise<unknown> = Promise.resolve();

  /** Creates a reader. Reads nothing until `advance` is called. */
  constructor(store: Pick<RunStore, "read">, runId: RunId) {
    this.#store = store;
    this.#runId = runId;
  }

  /** Number of journal lines read so far. */
  get lineCount(): number {
    return this.#lineCount;
  }

  /** Ids of the agents found so far, in the order of their creation. */
  get agentIds(): readonly AgentId[] {
    return [...this.#agents.keys()];
  }

  /** Numbers of the mails that the run has handled. */
  get handledMail(): readonly number[] {
    return this.#handled;
  }

  /**
   * Reason for each handled mail that had no effect, by its number, such as an answer that fits no
   * open call.
   */
  get rejectedAnswers(): ReadonlyMap<number, string> {
    return this.#rejectedAnswers;
  }

  /**
   * Reads the lines that were added since the last call, and calls `take` with each event and the
   * number of its line. Returns the number of the last line. Lines that were read before an error
   * count as read.
   *
   * @throws EspalierError `unknown_run` if the store has no such run.
   * @throws EspalierError `store_failed` if the store fails.
   * @throws EspalierError `unsupported_version` or `invalid_journal` if a line cannot be read.
   *
   * @example
   * ```ts
   * import { toRunId } from "espalier/extend";
   *
   * const record = new RunRecord(store, toRunId("order-4711"));
   * const lastLine = await record.advance(({ type }) => console.log(type));
   * ```
   */
  advance(take: (event: EspalierEvent, line: number) => void = () => undefined): Promise<number> {
    const advanced = this.#advanced.then(() => this.#advance(take));
    this.#advanced = advanced.catch(() => undefined);
    return advanced;
  }

  /**
   * Returns the steps of an agent, for each of its executions.
   *
   * @throws EspalierError `unknown_agent` if `advance` has not found the agent.
   * @throws Everything that `advance` rejects with.
   *
   * @example
   * ```ts
   * import { toRunId } from "espalier/extend";
   *
   * const record = new RunRecord(store, toRunId("order-4711"));
   * await record.advance();
   * const [root] = record.agentIds;
   * if (root !== undefined) console.log((await record.steps(root)).at(-1)?.steps.length);
   * ```
   */
  async steps(agentId: AgentId): Promise<readonly RecordedExecution[]> {
    return deepFreeze((await this.#readSteps(agentId)).executions());
  }

  /**
   * Rebuilds the model request of a step.
   *
   * @throws EspalierError `unknown_agent` if `advance` has not found the agent.
   * @throws EspalierError `invalid_argument` if the agent has no such step.
   * @throws Everything that `advance` rejects with.
   *
   * @example
   * ```ts
   * import { toRunId } from "espalier/extend";
   *
   * const record = new RunRecord(store, toRunId("order-4711"));
   * await record.advance();
   * const [agentId] = record.agentIds;
   * if (agentId !== undefined) {
   *   const { request } = await record.request({ agentId, stepNumber: 1 });
   *   console.log(request.messages);
   * }
   * ```
   */
  async request({
    agentId,
    stepNumber,
    execution,
  }: {
    /** Agent whose step is rebuilt. */
    readonly agentId: AgentId;
    /** Number of the step, from 1. The open step counts. */
    readonly stepNumber: number;
    /**
     * Number of the execution.
     *
     * @default the last one
     */
    readonly execution?: number;
  }): Promise<
    RebuiltRequest & {
      /**
       * For each message of the request, the ancestor that it was inherited from. `null` if the
       * agent's own.
       */
      readonly inheritedFrom: readonly (AgentId | null)[];
    }
  > {
    const steps = await this.#readSteps(agentId);
    const state = steps.findState(execution);
    const texts = await this.#readTexts(
      state === undefined ? [] : collectStepTextHashes(state, stepNumber),
    );
    const step = { field: "stepNumber", stepNumber, agentPath: steps.agentPath };
    const rebuilt = rebuildStepRequest(state, step, (hash) => texts.get(hash));
    const inherited = await this.#readInherited(agentId);
    const history = state && findStepHistory(state, stepNumber);
    return deepFreeze({ ...rebuilt, inheritedFrom: resolveOrigins(history ?? [], inherited) });
  }

  /**
   * Iterates over the events after a line, among the lines that `advance` has read.
   *
   * @throws Everything that `advance` rejects with.
   *
   * @example
   * ```ts
   * import { toRunId } from "espalier/extend";
   *
   * const record = new RunRecord(store, toRunId("order-4711"));
   * await record.advance();
   * for await (const { event, line } of record.eventsAfter(100)) console.log(line, event.type);
   * ```
   */
  async *eventsAfter(
    line: number,
  ): AsyncGenerator<{ readonly event: EspalierEvent; readonly line: number }, void> {
    const place = this.#places.findLast(({ lines }) => lines <= line);
    const limit = this.#lineCount - (place?.lines ?? 0);
    if (place === undefined || limit === 0) return;
    const events: EspalierEvent[] = [];
    const visit = (value: unknown, number: number): void => {
      const event = number > line ? readEvent(value) : undefined;
      if (event !== undefined) events.push(event);
    };
    for await (const { number } of this.#scan(place.codec(), { after: place.lines, limit }, visit))
      for (const event of events.splice(0)) yield { event, line: number };
  }

  async #advance(take: (event: EspalierEvent, line: number) => void): Promise<number> {
    const events: EspalierEvent[] = [];
    const visit = (value: unknown, number: number): void => this.#note(value, number, events);
    const lines = this.#scan(this.#codec, { after: this.#lineCount }, visit);
    for await (const { number, records } of lines) {
      this.#lineCount = number;
      this.#noteRead(records);
      for (const event of events.splice(0)) take(event, number);
    }
    return this.#lineCount;
  }

  #noteRead(records: number): void {
    const places = Math.floor(this.#recordCount / RECORDS_PER_PLACE);
    this.#recordCount += records;
    if (Math.floor(this.#recordCount / RECORDS_PER_PLACE) === places) return;
    this.#places.push({ lines: this.#lineCount, codec: this.#codec.createFactory() });
  }

  /**
   * Yields the number of each line and its count of records, after passing the records to `see`.
   */
  async *#scan(
    codec: RecordCodec,
    { after, limit }: { readonly after: number; readonly limit?: number },
    see: (value: unknown, number: number) => void,
  ): AsyncGenerator<{ readonly number: number; readonly records: number }, void> {
    const turns = new Turns(RECORDS_PER_TURN);
    let number = after;
    for await (const line of this.#store.read(this.#runId, number + 1, limit)) {
      number += 1;
      const records = readJournalLine(this.#runId, number, () =>
        codec.scan(line, (value) => see(value, number)),
      );
      yield { number, records };
      await turns.did(records);
    }
  }

  #note(value: unknown, line: number, events: EspalierEvent[]): void {
    if (!isRecord(value)) return;
    switch (value["type"]) {
      case "event": {
        const event = readEvent(value);
        if (event === undefined) return;
        if (event.type === "subagent.spawned")
          this.#addAgent(event.childId).inherited = countInherited(event.inherited);
        events.push(event);
        return;
      }
      case "post":
        this.#handled.push(Number(value["number"]));
        if (typeof value["problem"] === "string")
          this.#rejectedAnswers.set(Number(value["number"]), value["problem"]);
        return;
      case "definition":
      case "restored":
        for (const hash of Object.keys(readDefinitions(value))) this.#definitions.set(hash, line);
        for (const agent of readAgents(value["run"])) this.#noteAgent(agent, line);
        return;
      case "agent":
        this.#noteAgent(value["agent"], line);
        return;
      case "execution":
      case "state":
      case "effect":
        this.#noteLine(value["agentId"], line);
    }
  }

  #noteAgent(agent: unknown, line: number): void {
    if (!isRecord(agent)) return;
    const known = this.#noteLine(agent["agentId"], line);
    const parent = agent["parentAgentId"];
    if (known !== undefined) known.parentAgentId = isId<"AgentId">(parent) ? parent : null;
  }

  #noteLine(agentId: unknown, line: number): KnownAgent | undefined {
    if (!isId<"AgentId">(agentId)) return undefined;
    const known = this.#addAgent(agentId);
    if (known.lines.at(-1) !== line) known.lines.push(line);
    return known;
  }

  #addAgent(agentId: AgentId): KnownAgent {
    const known = this.#agents.get(agentId);
    if (known !== undefined) return known;
    const agent = { parentAgentId: null, inherited: 0, lines: [] };
    this.#agents.set(agentId, agent);
    return agent;
  }

  #getAgent(agentId: AgentId): KnownAgent {
    const known = this.#agents.get(agentId);
    if (known !== undefined) return known;
    throw createUnknownAgentError(agentId);
  }

  async #readSteps(agentId: AgentId): Promise<AgentSteps> {
    const lines = [...this.#getAgent(agentId).lines];
    const line = lines.at(-1) ?? 0;
    if (this.#last?.agentId === agentId && this.#last.line === line) return this.#last.steps;
    const steps = new AgentSteps(agentId);
    await this.#readOwn(lines, steps);
    readJournalLine(this.#runId, line, () => steps.findState(undefined));
    await waitForTurnEnd();
    this.#last = { agentId, line, steps };
    return steps;
  }

  /** Reads the records of an agent in these lines, which are in order. */
  async #readOwn(lines: readonly number[], steps: AgentSteps): Promise<void> {
    const isOwn = (value: unknown): boolean => steps.isOwn(value);
    for await (const { value, line } of this.#read(lines, isOwn)) {
      readJournalLine(this.#runId, line, () => steps.addRecord(value));
      await waitForTurnEnd(); // Parsing a record takes longer than skipping a hundred.
    }
  }

  /**
   * Yields the matching records of these lines, frozen. Each line is read from the closest position
   * before it.
   */
  async *#read(
    lines: readonly number[],
    isWanted: (value: unknown) => boolean,
  ): AsyncGenerator<{ readonly value: unknown; readonly line: number }, void> {
    const values: unknown[] = [];
    let at = 0;
    while (at < lines.length) {
      const first = lines[at] ?? 0;
      const index = this.#places.findLastIndex((entry) => entry.lines < first);
      const place = this.#places[index];
      if (place === undefined) return;
      const end = this.#places[index + 1]?.lines ?? Infinity;
      const here = new Set(lines.slice(at).filter((line) => line <= end));
      const range = { after: place.lines, limit: Math.max(...here) - place.lines };
      const visit = (value: unknown, number: number): void => {
        if (here.has(number) && isWanted(value)) values.push(deepFreeze(value));
      };
      for await (const { number } of this.#scan(place.codec(), range, visit))
        for (const value of values.splice(0)) yield { value, line: number };
      at += here.size;
    }
  }

  /** Returns the texts of these hashes that the journal has. */
  async #readTexts(hashes: readonly string[]): Promise<ReadonlyMap<string, string>> {
    const texts = new Map<string, string>();
    const lines = new Set<number>();
    for (const hash of hashes) {
      const [text, line] = [this.#texts.get(hash), this.#definitions.get(hash)];
      if (text !== undefined) texts.set(hash, text);
      else if (line !== undefined) lines.add(line);
    }
    const inOrder = [...lines].toSorted((left, right) => left - right);
    for await (const { value } of this.#read(inOrder, hasDefinitions)) {
      const definitions = readDefinitions(value);
      for (const hash of hashes)
        if (Object.hasOwn(definitions, hash)) texts.set(hash, String(definitions[hash]));
    }
    for (const [hash, text] of texts) this.#remember(hash, text);
    return texts;
  }

  #remember(hash: string, text: string): void {
    if (this.#texts.size >= MOST_TEXTS) this.#texts.clear();
    this.#texts.set(hash, text);
  }

  /** Returns the messages of ancestors with which an agent began. */
  async #readInherited(agentId: AgentId): Promise<readonly InheritedMessage[]> {
    const { inherited, parentAgentId } = this.#getAgent(agentId);
    if (inherited === 0 || parentAgentId === null) return [];
    const opening = await this.#readOpening(agentId);
    const begin = opening[0]?.role === "system" ? 1 : 0;
    const messages = opening.slice(begin, begin + inherited);
    return collectInheritedMessages(
      messages,
      parentAgentId,
      await this.#readInherited(parentAgentId),
    );
  }

  /** Returns the messages with which the history of an agent began, from its first lines. */
  async #readOpening(agentId: AgentId): Promise<readonly Message[]> {
    if (this.#last?.agentId === agentId) return this.#last.steps.opening ?? [];
    const steps = new AgentSteps(agentId);
    for (const line of this.#getAgent(agentId).lines) {
      await this.#readOwn([line], steps);
      if (steps.opening !== undefined) return steps.opening;
    }
    return [];
  }
}

function hasDefinitions(value: unknown): boolean {
  return Object.keys(readDefinitions(value)).length > 0;
}

function readEvent(value: unknown): EspalierEvent | undefined {
  return isRecord(value) && value["type"] === "event"
    ? parseKnownEvent(deepFreeze(value["event"]))
    : undefined;
}

/**
 * Returns the number of messages that a subagent inherited from its parent. The value is unchecked.
 */
function countInherited(context: unknown): number {
  const messages = isRecord(context) ? context["messages"] : undefined;
  return isRecord(messages) ? Number(messages["count"]) : 0;
}
