import { nanoid } from "nanoid";

/** Where ids come from. Tests hand in a sequential one. */
export interface IdSource {
  /** A new id, unique in its kind, as text that starts with the kind: `run_x7Gq…`. */
  next(kind: string): string;
}

/** Ids by chance, collision-safe across processes. */
export const randomIds: IdSource = { next: (kind) => `${kind}_${nanoid()}` };
