// Two workers and a client, each a process; the worker that leads the run is killed in the middle. Shared by the examples that show engines.

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";

type Environment = Readonly<Record<string, string>>;

function startProgram(name: string, environment: Environment, args: readonly string[] = []) {
  const program = join(import.meta.dirname, name);
  const child = spawn(process.execPath, [...process.execArgv, program, ...args], {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "inherit"],
  });
  process.once("exit", () => child.kill("SIGKILL"));
  return child;
}

/** Resolves when it serves. */
export async function startWorker(environment: Environment): Promise<ChildProcess> {
  const worker = startProgram("worker.ts", environment);
  for await (const line of createInterface({ input: worker.stdout }))
    if (line === "ready") return worker;
  throw new Error("The worker did not start.");
}

/** As whatever looks after processes does before it ends one for good: the worker gives its runs up. */
export async function stopWorker(worker: ChildProcess): Promise<void> {
  worker.kill("SIGTERM");
  await once(worker, "exit");
  assert.equal(worker.exitCode, 0);
}

/** Two minutes at most. */
async function until(isSo: () => boolean): Promise<void> {
  const signal = AbortSignal.timeout(120_000);
  while (!isSo()) await setTimeout(10, undefined, { signal });
}

/** Has markets compared, and kills the worker that does it. Gives the one that is left. */
export async function compareWithCrash(
  workers: readonly [ChildProcess, ChildProcess],
  environment: Environment & { readonly LOG: string },
): Promise<ChildProcess> {
  const { LOG } = environment;
  const done = (): string[] => readFileSync(LOG, { encoding: "utf8", flag: "a+" }).split("\n");
  const client = startProgram("client.ts", environment, ["order-4711"]);
  const output = text(client.stdout);

  await until(() => done().length > 2); // two look-ups are under way
  const leader = workers.find(({ pid }) => done()[0]?.startsWith(`${pid} `));
  assert.ok(leader);
  leader.kill("SIGKILL");
  const killedMs = performance.now();
  const other = workers.find((worker) => worker !== leader);
  assert.ok(other);
  await until(() => done().some((line) => line.startsWith(`${other.pid} `)));
  console.log(`led elsewhere after ${((performance.now() - killedMs) / 1_000).toFixed(1)} s`);

  const said = await output;
  console.log(said);
  assert.equal(
    said,
    'lead asks for publish: {"text":"Three markets."}\ncompleted: All of them sell trees.\n',
  );
  assert.equal(done().filter((line) => line.includes("publishes")).length, 1);
  rmSync(LOG);
  return other;
}
