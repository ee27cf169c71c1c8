// The address of a viewer that runs already, with its token: for a user whose link has none.

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

/** Throws UsageError if there is none. The token is never sent to the server that listens there. */
export async function runningViewer(call: CommandCall, { folder }: Project): Promise<string> {
  const file = join(folder, DEFAULT_FOLDER, TOKEN_FILE);
  const token = (await readFile(file, "utf8").catch(() => "")).trim();
  const port = portOf(call);
  for (const one of port === undefined ? PORTS : [port]) {
    const origin = `http://127.0.0.1:${one}`;
    if (token !== "" && (await isViewer(origin))) return `${origin}/#token=${token}`;
  }
  throw new UsageError(
    "Expected a viewer of this project that runs, found none. Start it: espalier view",
  );
}

/** Whether a viewer answers there: it has its own words for a request without a token. */
async function isViewer(origin: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const response = await fetch(`${origin}/api/v1/meta`, { signal, redirect: "error" });
    const said: unknown = await response.json();
    const isSaid = typeof said === "object" && said !== null && "code" in said;
    return response.status === 401 && isSaid && said.code === "unauthorized";
  } catch {
    return false;
  }
}
