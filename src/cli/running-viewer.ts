// The address of a viewer that runs already, with its token: for a user whose link has none.

import { createHmac, randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import type { CommandCall } from "./command-call.ts";
import type { Project } from "./project.ts";
import { DEFAULT_FOLDER } from "./store-choice.ts";
import { UsageError } from "./usage-error.ts";
import { portOf } from "./port-option.ts";
import { TOKEN_FILE } from "./viewing.ts";

/** Ports at which a viewer listens that was given none. */
const PORTS = Array.from({ length: 20 }, (_, nth) => 4_983 + nth);
const PATIENCE_MS = 1_000;

/**
 * Returns the address of the viewer of this project and this store. The token is never sent to the
 * server that listens there: the server has to prove that it has the token.
 *
 * @throws UsageError if there is none.
 */
export async function runningViewer(
  call: CommandCall,
  { folder }: Project,
  storeName: string,
): Promise<string> {
  const file = join(folder, DEFAULT_FOLDER, TOKEN_FILE);
  const token = (await readFile(file, "utf8").catch(() => "")).trim();
  const port = portOf(call);
  for (const one of port === undefined ? PORTS : [port]) {
    const origin = `http://127.0.0.1:${one}`;
    if (token !== "" && (await isViewerOf(origin, token, storeName)))
      return `${origin}/#token=${token}`;
  }
  const place =
    port === undefined
      ? `ports ${PORTS[0]} to ${PORTS.at(-1)}. If it listens at another one, add --port <number>`
      : `port ${port}`;
  throw new UsageError(
    `Expected a running viewer of ${storeName}, found none at ${place}. Start it: espalier view`,
  );
}

/** Returns true if the server there proves that it has the token and serves the store. */
async function isViewerOf(origin: string, token: string, storeName: string): Promise<boolean> {
  try {
    const challenge = randomUUID();
    const response = await fetch(`${origin}/api/v1/meta`, {
      signal: AbortSignal.timeout(PATIENCE_MS),
      redirect: "error",
      headers: { "espalier-challenge": challenge },
    });
    const proof = createHmac("sha256", token).update(`${challenge}\n${storeName}`).digest("hex");
    return response.headers.get("espalier-proof") === proof;
  } catch {
    return false;
  }
}
