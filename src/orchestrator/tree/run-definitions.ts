// RunDefinitions: the texts that the steps of a run speak of, each once, under its hash (C28). Owns the table; every agent adds to it.
// A text that is there already costs one look: fifty steps with one prompt, or a thousand agents of one role, hash it once.

import type { DefinedTools, DefinitionTable } from "../../agent/definition-table.ts";
import { deepFreeze } from "../../kernel/json.ts";
import type { ToolSpec } from "../../model/model.ts";
import { textHash, type Definitions } from "../../protocol/definition.ts";

export class RunDefinitions implements DefinitionTable {
  readonly #hashes = new Map<string, string>();
  /** In the order in which they came. */
  readonly #texts = new Map<string, string>();
  readonly #tools = new WeakMap<readonly ToolSpec[], DefinedTools>();

  readonly #onNew: ((hash: string, text: string) => void) | undefined;

  /** `earlier`: those of the run up to a pause. `onNew`: called with each that comes. */
  constructor(earlier: Definitions = {}, onNew?: (hash: string, text: string) => void) {
    for (const [hash, text] of Object.entries(earlier)) {
      this.#hashes.set(text, hash);
      this.#texts.set(hash, text);
    }
    this.#onNew = onNew;
  }

  /** How many there are. */
  get size(): number {
    return this.#texts.size;
  }

  define(text: string): string {
    const known = this.#hashes.get(text);
    if (known !== undefined) return known;
    const hash = textHash(text);
    this.#add(hash, text);
    return hash;
  }

  defineTools(tools: readonly ToolSpec[]): DefinedTools {
    const known = this.#tools.get(tools);
    if (known !== undefined) return known;
    const described = describedTools.get(tools) ?? describeTools(tools);
    const { text, defined } = described;
    if (!this.#texts.has(defined.hash)) this.#add(defined.hash, text);
    this.#tools.set(tools, defined);
    return defined;
  }

  textOf(hash: string): string | undefined {
    return this.#texts.get(hash);
  }

  /** All of them, as JSON; `from`: without so many that came first. */
  toJSON(from = 0): Definitions {
    return Object.freeze(Object.fromEntries([...this.#texts].slice(from)));
  }

  #add(hash: string, text: string): void {
    this.#hashes.set(text, hash);
    this.#texts.set(hash, text);
    this.#onNew?.(hash, text);
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
  const defined = deepFreeze({ names: tools.map(({ name }) => name), hash: textHash(text) });
  const described = { text, defined };
  describedTools.set(tools, described);
  return described;
}
