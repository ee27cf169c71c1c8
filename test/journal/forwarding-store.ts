import type { Store } from "../../src/store/store.ts";

/** A store that hands everything on: spread it, and put something else in the place of one method. */
export function forwarding(store: Store): Store {
  return {
    create: (...asked) => store.create(...asked),
    claim: (...asked) => store.claim(...asked),
    append: (...asked) => store.append(...asked),
    beat: (...asked) => store.beat(...asked),
    release: (...asked) => store.release(...asked),
    read: (...asked) => store.read(...asked),
    post: (...asked) => store.post(...asked),
    posts: (...asked) => store.posts(...asked),
    find: (...asked) => store.find(...asked),
    list: (...asked) => store.list(...asked),
    remove: (...asked) => store.remove(...asked),
    readSession: (...asked) => store.readSession(...asked),
    writeSession: (...asked) => store.writeSession(...asked),
    listSessions: (...asked) => store.listSessions(...asked),
    removeSession: (...asked) => store.removeSession(...asked),
    close: () => store.close(),
  };
}
