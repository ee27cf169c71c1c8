// The port of a viewer as an option says it.

import type { CommandCall } from "./command-call.ts";
import { UsageError } from "./usage-error.ts";

const GREATEST_PORT = 65_535;

/** Returns the port of `--port`. Throws UsageError if the value is not a port. */
export function portOf({ text }: CommandCall): number | undefined {
  const said = text("port");
  if (said === undefined) return undefined;
  const port = /^\d{1,5}$/.test(said) ? Number(said) : NaN;
  if (port <= GREATEST_PORT) return port;
  throw new UsageError(
    `Expected --port to be a whole number from 0 to ${GREATEST_PORT}, got ${JSON.stringify(said)}. 0 is any that is free.`,
  );
}
