// View state of a run: folded lines, cursor, and the visible parts of the list and of the time. It
// contains no state of the run itself.

import { computed, signal, type Signal } from "@preact/signals";

import { AT } from "../data/agent-row.ts";
import type { RunState } from "../data/run-state.ts";
import {
  listKeysAbove,
  listLines,
  type Folds,
  type Listing,
  type TreeFilter,
  type TreeLine,
} from "./tree-lines.ts";
import type { TimeWindow } from "./time-scale.ts";

export const ROW_PX = 24;
/** Extra rows beyond the visible ones, so that scrolling shows no gap. */
const OVERSCAN = 6;

export class RunView {
  readonly state: RunState;
  readonly filter: Signal<TreeFilter> = signal({ words: "", show: "all" });
  readonly folds: Signal<Folds> = signal(new Map());
  readonly cursor = signal("");
  readonly scrollTop = signal(0);
  readonly heightPx = signal(0);
  readonly timeWindow: Signal<TimeWindow | undefined> = signal(undefined);
  readonly listing = computed((): Listing => {
    // Without `amounts`, because the set of lines does not depend on them.
    void this.state.structure.value;
    return listLines(this.#tree, this.filter.value, this.folds.value);
  });
  readonly range = computed(() => {
    const from = Math.floor(this.scrollTop.value / ROW_PX);
    const count = Math.ceil(this.heightPx.value / ROW_PX) + 1;
    const last = this.listing.value.lines.length;
    return { from: Math.max(0, from - OVERSCAN), to: Math.min(last, from + count + OVERSCAN) };
  });
  /** Scrolls a row into view. Set by the rendered list. */
  showRow: (at: number) => void = () => undefined;

  constructor(state: RunState) {
    this.state = state;
    this.cursor.value = state.agents[0]?.[AT.id] ?? "";
  }

  /** Index of the line at the cursor, or of the line that now hides it. */
  get cursorAt(): number {
    const { places } = this.listing.value;
    const at = places.get(this.cursor.value);
    if (at !== undefined) return at;
    const index = this.state.findIndex(this.cursor.value);
    if (index === undefined) return 0;
    for (const key of listKeysAbove(this.#tree, index)) {
      const above = places.get(key);
      if (above !== undefined) return above;
    }
    return 0;
  }

  get cursorLine(): TreeLine | undefined {
    return this.listing.value.lines[this.cursorAt];
  }

  moveTo(at: number): TreeLine | undefined {
    const { lines } = this.listing.value;
    const to = Math.max(0, Math.min(lines.length - 1, at));
    const line = lines[to];
    if (line === undefined) return undefined;
    this.cursor.value = line.key;
    this.showRow(to);
    return line;
  }

  fold(line: TreeLine, isOpen: boolean): void {
    if (line.kind === "refusal") return;
    this.folds.value = new Map(this.folds.value).set(line.key, isOpen);
  }

  /** Opens all ancestors of an agent, and moves the cursor to it. */
  reveal(index: number): void {
    const row = this.state.agents[index];
    if (row === undefined) return;
    const folds = new Map(this.folds.value);
    for (const key of listKeysAbove(this.#tree, index)) folds.set(key, true);
    this.folds.value = folds;
    this.cursor.value = row[AT.id];
    const at = this.listing.value.places.get(row[AT.id]);
    if (at !== undefined) this.showRow(at);
  }

  get #tree() {
    return {
      agents: this.state.agents,
      childrenOf: (index: number) => this.state.getChildren(index),
      refusals: this.state.refusals.value,
    };
  }
}

export function isOpen(line: TreeLine): boolean {
  return line.kind === "agent" ? line.fold === "open" : line.kind === "group" && line.isOpen;
}

export function isClosed(line: TreeLine): boolean {
  return line.kind === "agent" ? line.fold === "closed" : line.kind === "group" && !line.isOpen;
}
