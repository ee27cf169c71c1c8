// Workers in separate processes that execute surveys over a real engine and a real PostgreSQL, and
// the log of their effects.

import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

import { z } from "zod";

import type { Engine } from "../../src/engine/engine.ts";
import { pgBossEngine } from "../../src/engine/pg-boss/pg-boss-engine.ts";
import { restateEngine } from "../../src/engine/restate/restate-engine.ts";
import { RunClient } from "../../src/engines.ts";
import { omitUndefined } from "../../src/kernel/json.ts";
import { postgresStore } from "../../src/store/postgres/postgres-store.ts";
import type { Store } from "../../src/store/store.ts";
import type { SurveyWorkerOptions, TakenBatch } from "./engine/survey-worker.ts";
import { afterwards } from "../harness/afterwards.ts";
import { findPostgres, type PostgresServer } from "./store/postgres-server.ts";
import { balancer } from "./balancer.ts";
import { freePort } from "./free-port.ts";
import { wholeLines } from "./line-log.ts";
import { findRestate, type RestateServer } from "./restate-server.ts";

const EffectSchema = z.object({
  what: z.enum(["begin", "end"]),
  /** Which one: `model leaf order-1/2 0`. */
  key: z.string(),
  pid: z.number(),
  atMs: z.number(),
});
/** A line of the log of effects. */
export type Effect = Readonly<z.infer<typeof EffectSchema>>;

const TakenBatchSchema = z.object({
  runId: z.string(),
  epoch: z.number(),
  firstNumber: z.number(),
  count: z.number(),
});

export type EngineName = "pg-boss" | "restate";

/** The servers that both engines need, for all tests of a file. */
export interface Servers {
  readonly postgres: PostgresServer;
  readonly restate: RestateServer | undefined;
}

/** The servers of an engine, or why there are none. */
export async function findServers(engine: EngineName): Promise<Servers | string> {
  const postgres = await findPostgres();
  if (typeof postgres === "string") return postgres;
  if (engine === "pg-boss") return { postgres, restate: undefined };
  const restate = await findRestate();
  if (typeof restate !== "string") return { postgres, restate };
  await postgres.close();
  return restate;
}

let placeCount = 0;

/** How fast effects are, and who does them. */
interface Pace {
  readonly modelMs?: number;
  readonly toolMs?: number;
  readonly workers?: number;
  /** That one worker leads at once. */
  readonly maxRuns?: number;
}

export class SurveyPlace {
  readonly servers: Servers;
  readonly store: Store;
  readonly client: RunClient;
  readonly workers: SurveyWorker[] = [];
  readonly #options: Omit<SurveyWorkerOptions, "engine">;
  readonly #engines: SurveyWorkerOptions["engine"][];

  /** Starts workers in a schema of their own. They end with the test. */
  static async open(servers: Servers, pace: Pace = {}): Promise<SurveyPlace> {
    const { workers = 2 } = pace;
    const { restate } = servers;
    placeCount += 1;
    const jobs = `jobs_${process.pid}_${placeCount}`;
    const ports = await Promise.all(Array.from({ length: workers }, () => freePort()));
    const workerUrl = restate && `http://127.0.0.1:${await balancer(ports)}`;
    const engines = ports.map((port): SurveyWorkerOptions["engine"] => {
      if (restate === undefined || workerUrl === undefined) return { name: "pg-boss", jobs };
      const { ingressUrl, adminUrl } = restate;
      return { name: "restate", ingressUrl, adminUrl, workerUrl, port };
    });
    const place = new SurveyPlace(servers, engines, pace);
    for (const index of engines.keys()) await place.add(index);
    return place;
  }

  private constructor(servers: Servers, engines: SurveyWorkerOptions["engine"][], pace: Pace) {
    const { url: connectionString } = servers.postgres;
    const folder = mkdtempSync(join(tmpdir(), "surveys-"));
    afterwards(() => rmSync(folder, { recursive: true }));
    const schema = `runs_${process.pid}_${placeCount}`;
    this.servers = servers;
    const { modelMs = 60, toolMs = 30, maxRuns } = pace;
    const logs = { log: join(folder, "effects"), batchLog: join(folder, "batches") };
    this.#options = {
      connectionString,
      schema,
      ...logs,
      modelMs,
      toolMs,
      ...omitUndefined({ maxRuns }),
    };
    this.#engines = engines;
    this.store = postgresStore({ connectionString, schema });
    afterwards(() => this.store.close());
    const engine = this.#clientEngine();
    afterwards(() => engine.close?.());
    this.client = new RunClient({ store: this.store, engine, pollIntervalMs: 50 });
  }

  /** Starts one more worker, in the place of the one at this index. */
  async add(index: number): Promise<SurveyWorker> {
    const engine = this.#engines[index];
    if (engine === undefined) throw new Error("There is no such place.");
    const worker = await SurveyWorker.start({ ...this.#options, engine });
    this.workers[index] = worker;
    return worker;
  }

  /** The place of the worker that leads most runs now: one may lead all, and the other none. */
  async busiest(): Promise<number> {
    const runs = await this.store.list({ status: "open", limit: 1_000 });
    const counts = this.workers.map(
      ({ pid }) => runs.filter(({ owner }) => owner?.processId === pid).length,
    );
    return counts.indexOf(Math.max(...counts));
  }

  /** Effects so far. */
  get effects(): readonly Effect[] {
    return wholeLines(this.#options.log).map((line) => EffectSchema.parse(line));
  }

  /**
   * Batches that the journals of its runs consist of, in the order in which workers learned that
   * they were stored.
   */
  get takenBatches(): readonly TakenBatch[] {
    return wholeLines(this.#options.batchLog).map((line) => TakenBatchSchema.parse(line));
  }

  /** Resolves once the condition holds for the effects so far. */
  async until(holds: (effects: readonly Effect[]) => boolean): Promise<void> {
    while (!holds(this.effects)) await setTimeout(10);
  }

  #clientEngine(): Engine {
    const { connectionString } = this.#options;
    const [engine] = this.#engines;
    if (engine?.name !== "restate")
      return pgBossEngine({ connectionString, schema: engine?.jobs ?? "" });
    return restateEngine({ ingressUrl: engine.ingressUrl });
  }
}

/** A worker in a process of its own. */
export class SurveyWorker {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  said = "";

  static async start(options: SurveyWorkerOptions): Promise<SurveyWorker> {
    const worker = new SurveyWorker(options);
    await Promise.race([once(worker.#child, "message"), worker.#failed()]);
    return worker;
  }

  private constructor(options: SurveyWorkerOptions) {
    const program = join(import.meta.dirname, "engine/survey-worker.ts");
    this.#child = fork(program, [JSON.stringify(options)], {
      execArgv: ["--conditions=@espalier/source", "--no-warnings"],
      silent: true,
    });
    this.#ended = once(this.#child, "exit");
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.setEncoding("utf8").on("data", (text: string) => (this.said += text));
    afterwards(() => this.kill());
  }

  async #failed(): Promise<never> {
    await this.#ended;
    throw new Error(`A worker ended before it served: ${this.said}`);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  async kill(): Promise<void> {
    if (this.hasEnded) return;
    this.#child.kill("SIGKILL");
    await this.#ended;
  }

  /** As an operator ends it: it gives its runs up first. */
  async terminate(): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.#ended;
  }

  freeze(): void {
    this.#child.kill("SIGSTOP");
  }

  thaw(): void {
    this.#child.kill("SIGCONT");
  }
}
