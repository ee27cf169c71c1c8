// RunDefinitions: texts that the steps of a run refer to by hash, each stored once. Owns the table,
// to which all agents of the run add.
//
// A known text costs one look-up. Fifty steps with the same prompt, or a thousand agents of the
// same role, hash it once.

import { deepFreeze } from "../kernel/json.ts";
import type { ToolSpec } from "../model/model.ts";
import { hashText, type Definitions } from "../protocol/definition.ts";

/** Persists each new definition. */
interface DefinitionJournal {
  append(record: {
    readonly type: "definition";
    readonly hash: string;
    readonly text: string;
  }): void;
}

/** The tools of a step, as the step record refers to them. */
export interface DefinedTools {
  readonly names: readonly string[];
  readonly hash: string;
}

export class RunDefinitions {
  /** The hash of each text, in insertion order. */
  readonly #hashes = new Map<string, string>();
  readonly #journal: DefinitionJournal | undefined;

  /**
   * `earlier` contains the definitions of the run before a pause. `journal` receives each new
   * definition.
   */
  constructor(earlier: Definitions = {}, journal?: DefinitionJournal) {
    for (const [hash, text] of Object.entries(earlier)) this.#hashes.set(text, hash);
    this.#journal = journal;
  }

  /** Stores a text and returns its hash. `hash` avoids hashing again, if known. */
  define(text: string, hash = this.#hashes.get(text) ?? hashText(text)): string {
    if (!this.#hashes.has(text)) this.#add(hash, text);
    return hash;
  }

  /** Stores the definitions of tools as one text. The same list is serialised only once. */
  defineTools(tools: readonly ToolSpec[]): DefinedTools {
    const { text, defined } = describedTools.get(tools) ?? describeTools(tools);
    if (!this.#hashes.has(text)) this.#add(defined.hash, text);
    return defined;
  }

  /** Returns the text with this hash. */
  findText(hash: string): string | undefined {
    for (const [text, known] of this.#hashes) if (known === hash) return text;
    return undefined;
  }

  /** Returns all texts by their hashes, frozen. */
  toJSON(): Definitions {
    return Object.freeze(
      Object.fromEntries([...this.#hashes].map(([text, hash]) => [hash, text] as const)),
    );
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

/** Serialised tools by list. The tools of a role are the same list in every run. */
const describedTools = new WeakMap<readonly ToolSpec[], DescribedTools>();

function describeTools(tools: readonly ToolSpec[]): DescribedTools {
  const text = JSON.stringify(tools);
  const defined = deepFreeze({ names: tools.map(({ name }) => name), hash: hashText(text) });
  const described = { text, defined };
  describedTools.set(tools, described);
  return described;
}
