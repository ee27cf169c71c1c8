import type { Store } from "../../../src/store/store.ts";

/** Returns a store that forwards every call except to the methods in `replaced`. */
export function forwarding(store: Store, replaced: Partial<Store> = {}): Store {
  return {
    create: (...asked) => store.create(...asked),
    claim: (...asked) => store.claim(...asked),
    append: (...asked) => store.append(...asked),
    heartbeat: (...asked) => store.heartbeat(...asked),
    release: (...asked) => store.release(...asked),
    read: (...asked) => store.read(...asked),
    sendMail: (...asked) => store.sendMail(...asked),
    readMail: (...asked) => store.readMail(...asked),
    find: (...asked) => store.find(...asked),
    list: (...asked) => store.list(...asked),
    remove: (...asked) => store.remove(...asked),
    readSession: (...asked) => store.readSession(...asked),
    writeSession: (...asked) => store.writeSession(...asked),
    listSessions: (...asked) => store.listSessions(...asked),
    removeSession: (...asked) => store.removeSession(...asked),
    close: () => store.close(),
    ...replaced,
  };
}
