import { EspalierError } from "./error.ts";

/** Minimum version of Node, as in `engines` of package.json. */
const NEEDED = { major: 22, minor: 19 };

/**
 * Refuses a Node that is too old. Called when espalier is imported: otherwise a function that this
 * Node does not have would fail first, in the middle of a run.
 */
export function checkNode(): void {
  const { node } = process.versions;
  const [major = 0, minor = 0] = node.split(".").map(Number);
  if (major > NEEDED.major || (major === NEEDED.major && minor >= NEEDED.minor)) return;
  throw new EspalierError({
    code: "unsupported_node",
    message: `espalier needs Node ${NEEDED.major}.${NEEDED.minor} or newer, got ${node}. Install it from https://nodejs.org.`,
  });
}
