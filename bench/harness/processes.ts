// The processes of the bench. All get the conditions of this one, so that all load espalier from the same place: `dist`, or its sources.

import { execFile, fork } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";

const FLAGS = [...process.execArgv, "--disable-warning=ExperimentalWarning", "--expose-gc"];
const MAX_OUTPUT_BYTES = 1_000_000;

/** A server in a process of its own. */
export interface Service extends Disposable {
  readonly url: string;
  /** Sends it a message, and gives its answer. */
  report(): Promise<unknown>;
}

export async function startService(file: string, mode = "ok"): Promise<Service> {
  const child = fork(pathOf(file), [mode], {
    execArgv: FLAGS,
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout?.once("data", (data) => resolve(String(data).trim()));
    child.once("exit", () => reject(new Error(`Expected ${file} to listen, but it has ended.`)));
  });
  return {
    url,
    report: async () => {
      child.send("report");
      const said: readonly unknown[] = await once(child, "message");
      return said[0];
    },
    [Symbol.dispose]: () => child.disconnect(),
  };
}

/** Runs a program to its end, and gives what it printed. Rejects if it fails. */
export async function outputOf(
  file: string,
  argument: string,
  environment: Readonly<Record<string, string>>,
): Promise<string> {
  const env = { ...process.env, ...environment };
  const options = { env, maxBuffer: MAX_OUTPUT_BYTES };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...FLAGS, pathOf(file), argument],
    options,
  );
  return stdout;
}

/** As arguments of `process.execPath`. */
export function command(file: string, ...rest: readonly string[]): readonly string[] {
  return [...FLAGS, pathOf(file), ...rest];
}

function pathOf(file: string): string {
  return new URL(file, import.meta.url).pathname;
}
