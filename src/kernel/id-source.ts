import { nanoid } from "nanoid";

/** Where ids come from. Tests hand in a sequential one. */
export interface IdSource {
  /**
   * A new id, unique in its kind, as text that starts with the kind: `run_x7Gq…`. `place`: what it is for, where that has a name that is
   * the same each time that the run is done: the path of an agent, or that and the number of its execution.
   */
  next(kind: string, place?: string): string;
}

/** Ids by chance, collision-safe across processes. Joined, they are one text; put together otherwise, each is three, as long as it lives. */
export const randomIds: IdSource = { next: (kind) => [kind, nanoid()].join("_") };
