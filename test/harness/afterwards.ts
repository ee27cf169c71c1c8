// Cleans up after each test. Test files share their modules, so a hook that one of these modules
// registers would apply to the first file only; therefore the set-up of every file calls `cleanUp`.

const cleanups: (() => unknown)[] = [];

/** Runs the function after the test, however the test ends, in reverse order of registration. */
export function afterwards(cleanup: () => unknown): void {
  cleanups.push(cleanup);
}

export async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
}
