import type { ToolSpec } from "../model/model.ts";

/** The texts that steps speak of, kept once for the whole run (C28). An agent adds to them and never takes any away. */
export interface DefinitionTable {
  /** Keeps a text, and gives its hash. */
  define(text: string): string;
  /** Keeps the definitions of tools, as one text; asked again with the same list it only looks up what it said. */
  defineTools(tools: readonly ToolSpec[]): DefinedTools;
  /** The text that was kept under the hash. */
  textOf(hash: string): string | undefined;
}

/** Tools as a step speaks of them. */
export interface DefinedTools {
  readonly names: readonly string[];
  readonly hash: string;
}
