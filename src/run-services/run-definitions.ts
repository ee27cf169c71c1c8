// RunDefinitions: the texts that the steps of a run refer to, each once, under its hash (C28). Owns the table; every agent adds to it.
// A text that is there already costs one look: fifty steps with one prompt, or a thousand agents of one role, hash it once.

import { deepFreeze } from "../kernel/json.ts";
import type { ToolSpec } from "../model/model.ts";
import { hashText, type Definitions } from "../protocol/definition.ts";

/** Keeps each definition that comes. */
interface DefinitionJournal {
  append(record: {
    readonly type: "definition";
    readonly hash: string;
    readonly text: string;
  }): void;
}

/** Tools as a step speaks of them. */
export interface DefinedTools {
  readonly names: readonly string[];
  readonly hash: string;
}

export class RunDefinitions {
  /** The hash of each text, in the order in which they came. */
  readonly #hashes = new Map<string, string>();
  readonly #journal: DefinitionJournal | undefined;

  /** `earlier`: those of the run up to a pause. `journal`: gets each that comes. */
  constructor(earlier: Definitions = {}, journal?: DefinitionJournal) {
    for (const [hash, text] of Object.entries(earlier)) this.#hashes.set(text, hash);
    this.#journal = journal;
  }

  /** How many there are. */
  get size(): number {
    return this.#hashes.size;
  }

  /** Keeps a text and returns its hash. `hash`: given where it is known. */
  define(text: string, hash = this.#hashes.get(text) ?? hashText(text)): string {
    if (!this.#hashes.has(text)) this.#add(hash, text);
    return hash;
  }

  /** Keeps the definitions of tools as one text. Asked again with the same list, it only looks them up. */
  defineTools(tools: readonly ToolSpec[]): DefinedTools {
    const { text, defined } = describedTools.get(tools) ?? describeTools(tools);
    if (!this.#hashes.has(text)) this.#add(defined.hash, text);
    return defined;
  }

  /** Returns the text that was kept under the hash. */
  textOf(hash: string): string | undefined {
    for (const [text, known] of this.#hashes) if (known === hash) return text;
    return undefined;
  }

  /** All of them, as JSON; `from`: without so many that came first. */
  toJSON(from = 0): Definitions {
    const definitions = [...this.#hashes].slice(from);
    return Object.freeze(Object.fromEntries(definitions.map(([text, hash]) => [hash, text])));
  }

  #add(hash: string, text: string): void {
    this.#hashes.set(text, hash);
    this.#journal?.append({ type: "definition", hash, text });
  }
}

interface DescribedTools {
  readonly text: string;
  readonly defined: DefinedTools;
}

/** The tools of a role are the same list in every run. */
const describedTools = new WeakMap<readonly ToolSpec[], DescribedTools>();

function describeTools(tools: readonly ToolSpec[]): DescribedTools {
  const text = JSON.stringify(tools);
  const defined = deepFreeze({ names: tools.map(({ name }) => name), hash: hashText(text) });
  const described = { text, defined };
  describedTools.set(tools, described);
  return described;
}
