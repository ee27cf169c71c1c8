// State of a run on the page. Rows and spans are in arrays that are updated in place; signals
// announce the changes. The set of rows (`structure`) changes rarely, their contents (`amounts`)
// ten times a second, so code that lists rows does not subscribe to `amounts`.

import { batch, signal, type Signal } from "@preact/signals";

import type {
  AgentRow,
  Cause,
  QuestionRow,
  RefusalRow,
  RunHead,
  RunPatch,
  RunSnapshot,
} from "../../src/read-model/viewer-data.ts";
import { AT, getDisplayStatus } from "./agent-row.ts";

/** Owns the state of a run and the number of the last applied record. */
export class RunState {
  readonly structure = signal(0);
  readonly amounts = signal(0);
  readonly head: Signal<RunHead>;
  readonly questions: Signal<readonly QuestionRow[]>;
  readonly causes: Signal<readonly Cause[]>;
  readonly refusals: Signal<readonly RefusalRow[]>;
  record: number;
  #agents: AgentRow[];
  #spans: (readonly number[])[];
  #children: number[][] = [];
  #indexById = new Map<string, number>();

  constructor(snapshot: RunSnapshot) {
    this.record = snapshot.record;
    this.head = signal(snapshot.run);
    this.questions = signal(snapshot.questions);
    this.causes = signal(snapshot.causes);
    this.refusals = signal(snapshot.refusals);
    this.#agents = [...snapshot.agents];
    this.#spans = [...snapshot.spans];
    this.#link(0);
  }

  get agents(): readonly AgentRow[] {
    return this.#agents;
  }

  getSpans(index: number): readonly number[] {
    return this.#spans[index] ?? NONE;
  }

  getChildren(index: number): readonly number[] {
    return this.#children[index] ?? NONE;
  }

  findIndex(agentId: string): number | undefined {
    return this.#indexById.get(agentId);
  }

  replace(snapshot: RunSnapshot): void {
    batch(() => {
      this.record = snapshot.record;
      this.#agents = [...snapshot.agents];
      this.#spans = [...snapshot.spans];
      this.#children = [];
      this.#indexById.clear();
      this.#link(0);
      this.head.value = snapshot.run;
      this.questions.value = snapshot.questions;
      this.causes.value = snapshot.causes;
      this.refusals.value = snapshot.refusals;
      this.structure.value += 1;
      this.amounts.value += 1;
    });
  }

  apply(patch: RunPatch): void {
    batch(() => {
      this.record = patch.record;
      const before = this.#agents.length;
      let hasMoved = false;
      for (const [index, row] of patch.agents) {
        const old = this.#agents[index];
        if (old === undefined || getDisplayStatus(old) !== getDisplayStatus(row)) hasMoved = true;
        this.#agents[index] = row;
      }
      for (const [index, from, numbers] of patch.spans)
        this.#spans[index] = [...this.getSpans(index).slice(0, from), ...numbers];
      this.#link(before);
      this.head.value = patch.run;
      if (patch.questions !== undefined) this.questions.value = patch.questions;
      if (patch.causes !== undefined) this.causes.value = patch.causes;
      if (patch.refusals !== undefined) {
        this.refusals.value = [...this.refusals.value, ...patch.refusals];
        hasMoved = true;
      }
      if (hasMoved) this.structure.value += 1;
      this.amounts.value += 1;
    });
  }

  /** Indexes the agents from this position on, and links them to their parents. */
  #link(from: number): void {
    for (let index = from; index < this.#agents.length; index += 1) {
      const row = this.#agents[index];
      if (row === undefined) continue;
      this.#indexById.set(row[AT.id], index);
      const parent = row[AT.parent];
      if (parent < 0) continue;
      const siblings = this.#children[parent];
      if (siblings === undefined) this.#children[parent] = [index];
      else siblings.push(index);
    }
  }
}

const NONE: readonly number[] = [];
