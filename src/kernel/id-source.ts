import { nanoid } from "nanoid";

/**
 * Source of ids. Pass a sequential one in tests.
 *
 * @example
 * ```ts
 * let count = 0;
 * const ids: IdSource = { next: (kind) => `${kind}_${++count}` };
 * const numbered = new Orchestrator({ ids });
 * ```
 */
export interface IdSource {
  /**
   * Returns a new id that starts with its kind, such as `run_x7Gq…`. It must be unique within its
   * kind.
   *
   * `place` identifies the agent or execution by its path, so that repeated runs can use equal ids.
   */
  next(kind: string, place?: string): string;
}

/**
 * Random ids, unique across processes. `join` creates a flat string; concatenation would keep three
 * strings in memory as long as the id lives.
 */
export const randomIds: IdSource = { next: (kind) => [kind, nanoid()].join("_") };
