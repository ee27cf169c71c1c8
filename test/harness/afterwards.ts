// What a test leaves behind is ended after it. Test files share their modules: a hook that one of these registers would hold for the first
// file only, so that the set-up of every file calls `cleanUp`.

const cleanups: (() => unknown)[] = [];

/** Does it after the test, however the test ends; the last is done first. */
export function afterwards(cleanup: () => unknown): void {
  cleanups.push(cleanup);
}

export async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
}
