import { randomInt } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";

const EPHEMERAL_FILE = "/proc/sys/net/ipv4/ip_local_port_range";
// Browsers and fetch refuse port 10,080.
const LOWEST_PORT = 11_000;
const HIGHEST_PORT = 32_000;
const MAX_TRIES = 100;

const given = new Set<number>();

/**
 * Returns a port of 127.0.0.1 on which nothing listens, never the same one twice. It lies outside
 * the ephemeral range, so no outgoing connection can take the port before a test listens on it.
 */
export async function freePort(): Promise<number> {
  const [lowest, highest] = portRange();
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    const port = randomInt(lowest, highest + 1);
    if (given.has(port) || !(await canListen(port))) continue;
    given.add(port);
    return port;
  }
  throw new Error(
    `Expected a free port from ${lowest} to ${highest}, got ${MAX_TRIES} taken ones.`,
  );
}

/** Returns the larger part of the ports from 11,000 to 32,000 outside the ephemeral range. */
function portRange(): readonly [lowest: number, highest: number] {
  if (!existsSync(EPHEMERAL_FILE)) return [LOWEST_PORT, HIGHEST_PORT];
  const [first = 0, last = 0] = readFileSync(EPHEMERAL_FILE, "utf8")
    .trim()
    .split(/\s+/)
    .map(Number);
  const below = Math.min(HIGHEST_PORT, first - 1) - LOWEST_PORT;
  const above = HIGHEST_PORT - Math.max(LOWEST_PORT, last + 1);
  // If the ephemeral range covers all ports, no port outside exists.
  if (below <= 0 && above <= 0) return [LOWEST_PORT, HIGHEST_PORT];
  return below >= above ? [LOWEST_PORT, LOWEST_PORT + below] : [HIGHEST_PORT - above, HIGHEST_PORT];
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer().on("error", () => resolve(false));
    probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
  });
}
