#!/usr/bin/env node
// The command `espalier`. It imports nothing before it has checked the version of Node.

/** The version of `engines` in package.json. */
const NEEDED = { major: 22, minor: 19 };

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < NEEDED.major || (major === NEEDED.major && minor < NEEDED.minor)) {
  const message = `espalier needs Node ${NEEDED.major}.${NEEDED.minor} or newer, got ${process.versions.node}. Install it from https://nodejs.org.`;
  process.stderr.write(`${message}\n`);
  if (process.argv.includes("--json"))
    process.stdout.write(`${JSON.stringify({ error: { code: "unsupported_node", message } })}\n`);
  process.exitCode = 2;
} else {
  const { startProcess } = await import("./start-process.ts");
  await startProcess();
}
