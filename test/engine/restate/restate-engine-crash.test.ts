// Goal: no run that Restate accepted is lost with a worker or the server, and no worker process
// prints anything.
// Method: a real server and processes, ended as by `kill -9`.

import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

import { describe, expect } from "vitest";

import { createServiceName } from "../../../src/engine/restate/restate-object.ts";
import { restateEngine } from "../../../src/engine/restate/restate-engine.ts";
import { RunIdSchema, type RunId } from "../../../src/protocol/ids.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { balancer } from "../../support/balancer.ts";
import { freePort } from "../../support/free-port.ts";
import { findRestate, type RestateServer } from "../../support/restate-server.ts";
import { GatedExecutor, LEFT, toBeLeft } from "../../support/engine/gated-executor.ts";

const found = await findRestate();
if (typeof found === "string") console.warn(`Tests of Restate are skipped: ${found}.`);
else await found.close();

const role = "lead";
const service = createServiceName(role, "1");
const runIds = ["run_1", "run_2", "run_3", "run_4"].map((id) => RunIdSchema().parse(id));

async function newServer(): Promise<RestateServer> {
  const server = await findRestate();
  if (typeof server === "string") throw new Error(server);
  afterwards(() => server.close());
  return server;
}

/** A worker in its own process, and its output. */
class WorkerProcess {
  /** A set of runs: a slow server may deliver one twice. */
  readonly led = new Set<string>();
  readonly #child: ChildProcess;
  readonly #wake: () => void;
  said = "";

  constructor(options: readonly string[], wake: () => void) {
    this.#wake = wake;
    this.#child = fork(
      join(import.meta.dirname, "../../support/engine/restate-worker-process.ts"),
      options,
      {
        execArgv: [
          "--no-warnings",
          ...process.execArgv.filter((one) => one.startsWith("--import")),
        ],
        silent: true,
      },
    );
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => (this.said += text));
    afterwards(() => this.kill());
  }

  async ready(): Promise<void> {
    await once(this.#child, "message");
    this.#child.on("message", (runId: string) => {
      this.led.add(runId);
      this.#wake();
    });
  }

  settle(runId: string): void {
    this.#child.send(runId);
  }

  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await ended;
  }
}

/** Starts two workers at one address. `until` resolves once a condition on their runs holds. */
async function twoProcesses({ ingressUrl, adminUrl }: RestateServer) {
  const ports = [await freePort(), await freePort()];
  const workerUrl = `http://127.0.0.1:${await balancer(ports)}`;
  let look = (): void => undefined;
  const workers = ports.map(
    (port) => new WorkerProcess([ingressUrl, adminUrl, workerUrl, `${port}`, role], () => look()),
  );
  for (const worker of workers) await worker.ready();
  const until = (holds: () => boolean): Promise<void> =>
    new Promise((resolve) => {
      look = () => (holds() ? resolve() : undefined);
      look();
    });
  return { workers, until };
}

async function settleNext(executor: GatedExecutor): Promise<RunId> {
  const leading = await executor.next();
  leading.settle();
  return leading.runId;
}

/** Settles every run that is delivered from now on. */
async function settleRest(executor: GatedExecutor): Promise<never> {
  for (;;) await settleNext(executor);
}

describe.skipIf(typeof found === "string")("over a real server", () => {
  proves(["E65"], "delivers the runs of a killed worker to another one", async () => {
    const server = await newServer();
    const { workers, until } = await twoProcesses(server);
    const client = restateEngine({ ingressUrl: server.ingressUrl });
    for (const runId of runIds) await client.enqueue({ runId, role, version: "1" });
    const allLed = (): Set<string> => new Set(workers.flatMap(({ led }) => [...led]));
    await until(() => allLed().size === 4);
    const [one, other] = workers.toSorted((a, b) => b.led.size - a.led.size);
    if (one === undefined || other === undefined) throw new Error("Expected two workers.");
    expect([...allLed()].toSorted()).toEqual(runIds);
    await one.kill();
    await until(() => other.led.size === 4);
    expect([...other.led].toSorted()).toEqual(runIds);
    for (const runId of runIds) other.settle(runId);
    await server.whenDone(service);
    expect([other.led.size, one.said, other.said]).toEqual([4, "", ""]);
  });

  proves(["E65"], "delivers the accepted runs of a killed server when it is back", async () => {
    const server = await newServer();
    const { ingressUrl, adminUrl } = server;
    const executor = new GatedExecutor([role]);
    const engine = restateEngine({ ingressUrl, adminUrl, port: 0 });
    const worker = await engine.serve(executor);
    afterwards(() => worker.close());
    const [led, behind, later] = runIds;
    if (led === undefined || behind === undefined || later === undefined) throw new Error();
    await engine.enqueue({ runId: led, role, version: "1" });
    const first = await executor.next();
    await engine.enqueue({ runId: led, role, version: "1" });
    await engine.enqueue({ runId: behind, role, version: "1" }, Date.now() + 1_000);
    await engine.enqueue({ runId: later, role, version: "1" });
    (await executor.next()).settle({ type: "waiting", untilMs: Date.now() + 1_000 });
    await server.crash();
    await toBeLeft(first);
    await server.start();
    // The execution is released late: the new delivery of the same run waits for it.
    // A slow server may deliver a run twice: which runs are executed counts, and when.
    const before = new Set<RunId>();
    while (before.size < 2) before.add(await settleNext(executor));
    first.fail(LEFT);
    const after: RunId[] = [];
    while (after.filter((runId) => runId === led).length < 2)
      after.push(await settleNext(executor));
    void settleRest(executor);
    await server.whenDone(service);
    expect([executor.led.slice(0, 2), [...before].toSorted()]).toEqual([
      [led, later],
      [behind, later],
    ]);
  });

  proves(["E125"], "closes a worker although the server no longer responds", async () => {
    const server = await newServer();
    const { ingressUrl, adminUrl, pid } = server;
    const executor = new GatedExecutor([role]);
    const engine = restateEngine({ ingressUrl, adminUrl, port: 0 });
    const worker = await engine.serve(executor);
    const [led] = runIds;
    if (led === undefined) throw new Error();
    await engine.enqueue({ runId: led, role, version: "1" });
    const first = await executor.next();
    process.kill(pid, "SIGSTOP");
    const closed = worker.close();
    await toBeLeft(first);
    first.fail(LEFT);
    await closed;
    expect(executor.led).toEqual([led]);
  });
});
