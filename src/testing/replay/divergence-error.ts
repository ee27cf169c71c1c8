// The error for a divergence. Owns the texts behind hashes.

import { EspalierError } from "../../kernel/error.ts";
import type { JournalRecord } from "../../orchestrator/durability/journal-record.ts";
import type { Divergence } from "./compare-actions.ts";

const MOST_CHARACTERS = 200;
/** So much is shown before the first character that differs. */
const LEAD_IN = 40;

export class DivergenceReporter {
  readonly #texts = new Map<string, string>();
  readonly #segment: number;

  /** `segment`: which one of the recording is replayed, from 1. */
  constructor(records: readonly JournalRecord[], segment: number) {
    this.#segment = segment;
    for (const record of records) this.take(record);
  }

  /** Collects the texts behind hashes. */
  take(record: JournalRecord): void {
    if (record.type === "definition") this.#texts.set(record.hash, record.text);
  }

  error({ agentPath, stepNumber, field, expected, got }: Divergence): EspalierError {
    const [was, is] = this.#shown(expected, got);
    const segment = this.#segment;
    const where = `in step ${stepNumber}${segment === 1 ? "" : ` of segment ${segment}`}`;
    return new EspalierError({
      code: "replay_diverged",
      message: `Expected ${agentPath} to do ${where} what was recorded, got another ${field}: ${was} was recorded, ${is} came. Find what changed in roles, prompts or tools, or record the run anew.`,
      data: { segment, agentPath, stepNumber, field, expected: was, got: is },
    });
  }

  /** Both values, cut to what is around the first difference. Hashes are shown as their texts. */
  #shown(expected: unknown, got: unknown): readonly [string, string] {
    const [was, is] = [this.#textOf(expected), this.#textOf(got)];
    let same = 0;
    while (same < was.length && was[same] === is[same]) same += 1;
    const from = same > MOST_CHARACTERS / 2 ? same - LEAD_IN : 0;
    return [cut(was, from), cut(is, from)];
  }

  #textOf(value: unknown): string {
    const known = typeof value === "string" ? this.#texts.get(value) : undefined;
    return JSON.stringify(known ?? value) ?? "nothing";
  }
}

function cut(text: string, from: number): string {
  const opening = from > 0 ? "…" : "";
  const ending = text.length > from + MOST_CHARACTERS ? "…" : "";
  return `${opening}${text.slice(from, from + MOST_CHARACTERS)}${ending}`;
}
