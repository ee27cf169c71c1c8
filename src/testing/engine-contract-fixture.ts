// The parts of an engine check: workers and clients, each with its own engine as in a separate
// process, and agents whose models follow the task text. Owns the record of their calls, and closes
// all parts.

import { AssertionError, deepStrictEqual } from "node:assert/strict";

import { z } from "zod";

import type { Engine, RunExecutor, ExecutorResult } from "../engine/engine.ts";
import { systemClock } from "../kernel/clock.ts";
import { EspalierError, type ErrorCode } from "../kernel/error.ts";
import { randomIds } from "../kernel/id-source.ts";
import { omitUndefined } from "../kernel/json.ts";
import { Orchestrator } from "../orchestrator/orchestrator.ts";
import { RunClient, type RemoteRun } from "../orchestrator/run/run-client.ts";
import type { WorkerOptions } from "../orchestrator/run/worker.ts";
import { RunIdSchema, type RunId } from "../protocol/ids.ts";
import type { Store } from "../store/store.ts";
import type { AgentRole } from "../agent/agent-role.ts";
import { defineAgent } from "../agent/define-agent.ts";
import type { ModelRequest } from "../model/model.ts";
import { defineTool } from "../tools/define-tool.ts";
import { says, ScriptedModel, type ScriptedReply } from "./scripted-model.ts";

/**
 * Environment of a check of `engineContract`: the store and the engines that the processes of the
 * check share.
 *
 * @example
 * ```ts
 * const createSetup = async (): Promise<EngineSetup> => {
 *   const store = memoryStore();
 *   return { store, createEngine: () => storeEngine(), close: () => store.close() };
 * };
 * ```
 */
export interface EngineSetup {
  /**
   * Creates an engine, as a separate process would. `deployment` names the workers that will serve
   * with it: those with one name have the same roles and versions. Without it, the engine only
   * enqueues runs.
   */
  createEngine(deployment?: string): Engine;
  /** Empty store that all engines of the check share. */
  readonly store: Store;
  /**
   * Longest wait of a check for one condition, in milliseconds. Choose less than `sweepIntervalMs`
   * of the engine, so that a run which only a sweep finds fails the check. An engine that relies on
   * sweeps needs more.
   *
   * @default 20_000
   */
  readonly timeoutMs?: number;
  /** Releases the resources of the setup. Called when all its engines are closed. */
  close(): Promise<void>;
}

/** Check of a promise of an engine. */
export interface EngineCheck {
  /** Promise as a sentence, for the name of the test. */
  readonly name: string;
  /**
   * Runs the check, and rejects if the promise is broken. `make` must return a new setup; the check
   * closes it.
   */
  run(make: () => Promise<EngineSetup>): Promise<void>;
}

/** Creates a check of each promise, by name. Each closes its setup in any case. */
export function createEngineChecks(
  promises: Readonly<Record<string, (fixture: EngineFixture) => Promise<void>>>,
): readonly EngineCheck[] {
  return Object.entries(promises).map(([name, promise]) => ({
    name,
    run: async (make) => {
      const fixture = new EngineFixture(await make());
      try {
        await promise(fixture);
      } finally {
        await fixture.close();
      }
      deepStrictEqual(fixture.ledTwice, []);
    },
  }));
}

/** An `execute` call of an engine. */
interface Leading {
  readonly runId: RunId;
  readonly releaseSignal: AbortSignal;
  settled?: ExecutorResult | "rejected";
}

interface ClientOptions {
  readonly engine?: Engine;
  readonly rolesVersion?: string;
}

interface FixtureWorkerOptions extends WorkerOptions {
  /** Name of the worker in recorded effects. */
  readonly name?: string;
  readonly role?: string;
  /** Whether its model has a price. True if it is absent. */
  readonly isPriced?: boolean;
  readonly answerTimeoutMs?: number;
  /** Runs before `execute`, and rejects in its place. */
  readonly before?: (leading: Leading) => Promise<void>;
  /** Runs when the run has settled, before `execute` resolves. */
  readonly after?: (leading: Leading) => Promise<void>;
}

/** A worker with the `execute` calls of its engine. */
interface FixtureWorker {
  readonly engine: Engine;
  readonly leadings: readonly Leading[];
  close(graceMs?: number): Promise<void>;
}

const DEFAULT_WITHIN_MS = 20_000;
/** Poll interval of a client. */
const LOOK_MS = 20;

export class EngineFixture {
  readonly store: Store;
  readonly agents = new PlannedAgents(() => this.#notify());
  /** Runs that an engine executed on a worker while that worker was executing them. */
  readonly ledTwice: RunId[] = [];
  readonly #place: EngineSetup;
  readonly withinMs: number;
  readonly #workers: FixtureWorker[] = [];
  readonly #engines: Engine[] = [];
  readonly #looks = new Set<() => void>();

  constructor(place: EngineSetup) {
    this.#place = place;
    this.store = place.store;
    this.withinMs = place.timeoutMs ?? DEFAULT_WITHIN_MS;
  }

  createEngine(deployment?: string): Engine {
    const engine = this.#place.createEngine(deployment);
    this.#engines.push(engine);
    return engine;
  }

  /** Creates a client, as in a separate process or in the process of a worker. */
  createClient({ engine = this.createEngine(), rolesVersion }: ClientOptions = {}): RunClient {
    const { store } = this;
    return new RunClient({
      store,
      engine,
      pollIntervalMs: LOOK_MS,
      ...omitUndefined({ rolesVersion }),
    });
  }

  /** Creates a worker, as in a separate process. */
  async startWorker(options: FixtureWorkerOptions = {}): Promise<FixtureWorker> {
    const { name = "worker", role = "lead", isPriced = true, ...others } = options;
    const { answerTimeoutMs, before, after, ...work } = others;
    const roles = [this.agents.createRole(role, name, isPriced)];
    const { store } = this;
    const orchestrator = new Orchestrator({ roles, store, ...omitUndefined({ answerTimeoutMs }) });
    const engine = this.createEngine(`${role} ${work.rolesVersion ?? "1"}`);
    const leadings: Leading[] = [];
    const watched: Engine = {
      enqueue: (ticket, atMs) => engine.enqueue(ticket, atMs),
      serve: (executor) =>
        engine.serve(this.#watchExecutor(executor, leadings, omitUndefined({ before, after }))),
      ...omitUndefined({ sweepIntervalMs: engine.sweepIntervalMs, exclusive: engine.exclusive }),
    };
    const serving = orchestrator.startWorker(watched, work);
    const worker = await this.waitFor("a worker that serves", serving);
    const close = (graceMs?: number): Promise<void> =>
      this.waitFor("a worker that closes", worker.close(omitUndefined({ graceMs })));
    const started = { engine, leadings, close };
    this.#workers.push(started);
    return started;
  }

  #watchExecutor(
    executor: RunExecutor,
    leadings: Leading[],
    { before, after }: Pick<FixtureWorkerOptions, "before" | "after">,
  ): RunExecutor {
    const settle = async (runId: RunId, releaseSignal: AbortSignal): Promise<ExecutorResult> => {
      const leading: Leading = { runId, releaseSignal };
      const hasOwner = leadings.some(
        (other) => other.runId === runId && other.settled === undefined,
      );
      if (hasOwner) this.ledTwice.push(runId);
      leadings.push(leading);
      this.#notify();
      releaseSignal.addEventListener("abort", () => this.#notify(), { once: true });
      let settled: ExecutorResult | undefined;
      try {
        await before?.(leading);
        settled = await executor.execute(runId, releaseSignal);
        await after?.(leading);
        return settled;
      } finally {
        leading.settled = settled ?? "rejected";
        this.#notify();
      }
    };
    const { roles, version, maxRuns } = executor;
    return { roles, version, maxRuns, execute: settle };
  }

  createRunId(): RunId {
    return RunIdSchema().parse(randomIds.next("run"));
  }

  /**
   * Starts a run. An engine may reject with `unknown_role`; the run then stays enqueued for a later
   * worker.
   */
  async startRun(
    client: RunClient,
    task: string,
    {
      role = "lead",
      ...options
    }: Parameters<RunClient["start"]>[2] & { readonly role?: string } = {},
  ): Promise<RemoteRun> {
    const { runId = this.createRunId() } = options;
    const starting = client.start(role, task, { ...options, runId }).catch((cause: unknown) => {
      if (!EspalierError.is(cause) || cause.code !== "unknown_role") throw cause;
      return client.attach(runId);
    });
    return await this.waitFor("an order that is taken", starting);
  }

  /**
   * Returns how a run settles: `completed`, `cancelled`, or `paused a b` with the calls of its
   * questions.
   */
  async waitForRest(run: RemoteRun): Promise<string> {
    const { status, questions, errors } = await this.waitFor("a run that rests", run.getResult());
    const details = [
      ...questions.map(({ callId }) => callId),
      ...errors.map(({ message }) => message),
    ];
    return [status, ...details].join(" ");
  }

  /** Fails unless the run settles like this, as `waitForRest` describes it. */
  async expectRest(run: RemoteRun, expected = "completed"): Promise<void> {
    deepStrictEqual(await this.waitForRest(run), expected);
  }

  /** Fails unless the work rejects with this code. */
  async expectRejection(work: Promise<unknown>, code: ErrorCode): Promise<void> {
    const outcome = await this.waitFor(
      `${code}, or another outcome`,
      work.then(
        (value) => JSON.stringify(value),
        (cause: unknown) => (EspalierError.is(cause) ? cause.code : String(cause)),
      ),
    );
    deepStrictEqual(outcome, code);
  }

  /** Waits until the condition holds. It is checked after each recorded change. */
  async waitUntil(condition: string, holds: () => boolean): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const look = (): void => (holds() ? resolve() : undefined);
    this.#looks.add(look);
    look();
    try {
      await this.waitFor(condition, promise);
    } finally {
      this.#looks.delete(look);
    }
  }

  #notify(): void {
    for (const look of this.#looks) look();
  }

  /** Returns the result of the work. Fails if it hangs. */
  async waitFor<T>(goal: string, work: Promise<T>): Promise<T> {
    const { promise, reject } = Promise.withResolvers<never>();
    const message = `Expected ${goal}, got none within ${this.withinMs} ms.`;
    const fail = (): void => reject(new AssertionError({ message }));
    const stop = systemClock.setTimer(this.withinMs, fail);
    try {
      return await Promise.race([work, promise]);
    } finally {
      stop();
    }
  }

  /** Closes all engines, workers and agents. */
  async close(): Promise<void> {
    this.agents.endAll();
    const closing = this.#workers.map((worker) => worker.close(0));
    const closed = await Promise.allSettled(closing);
    for (const engine of this.#engines)
      await this.waitFor("an engine that closes", engine.close?.() ?? Promise.resolve());
    await this.#place.close();
    for (const outcome of closed) if (outcome.status === "rejected") throw outcome.reason;
  }
}

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };

/** Agents of all workers of a check, and their recorded effects. */
class PlannedAgents {
  /** Completed effects with their workers: `a by worker`. */
  readonly effects: string[] = [];
  /** Started effects, including completed ones. */
  readonly begun: string[] = [];
  mostAtOnce = 0;
  readonly #gates = new Map<string, PromiseWithResolvers<void>>();
  readonly #changed: () => void;
  #underWay = 0;

  constructor(changed: () => void) {
    this.#changed = changed;
  }

  createRole(name: string, worker: string, isPriced: boolean): AgentRole {
    const model = new ScriptedModel(replyTo, isPriced ? { price: PRICE } : {});
    return defineAgent({
      name,
      instructions: "Do as the task says.",
      model,
      tools: [this.#createTool("note", worker, false), this.#createTool("sign", worker, true)],
    });
  }

  #createTool(name: string, worker: string, needsApproval: boolean) {
    return defineTool({
      name,
      description: "Has an effect.",
      inputSchema: z.object({ text: z.string() }),
      needsApproval,
      execute: async ({ text }, { signal }) => {
        await this.#runEffect(text, worker, signal);
        return "done";
      },
    });
  }

  async #runEffect(text: string, worker: string, signal: AbortSignal): Promise<void> {
    this.begun.push(text);
    this.#underWay += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#underWay);
    this.#changed();
    const aborted = Promise.withResolvers<never>();
    const abort = (): void => aborted.reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    try {
      signal.throwIfAborted();
      await Promise.race([this.#gates.get(text)?.promise, aborted.promise]);
      signal.throwIfAborted();
      this.effects.push(`${text} by ${worker}`);
    } finally {
      signal.removeEventListener("abort", abort);
      this.#underWay -= 1;
      this.#changed();
    }
  }

  /** Blocks these effects until `letGo`. */
  hold(...texts: readonly string[]): void {
    for (const text of texts) this.#gates.set(text, Promise.withResolvers());
  }

  release(...texts: readonly string[]): void {
    for (const text of texts) this.#gates.get(text)?.resolve();
  }

  endAll(): void {
    this.release(...this.#gates.keys());
  }
}

function replyTo({ messages }: ModelRequest): ScriptedReply {
  const plan = messages.find(({ role }) => role === "user")?.text ?? "";
  const count = messages.filter(({ role }) => role === "assistant").length;
  const line = plan.split("\n")[count];
  if (line === undefined) return says("done");
  const calls = line.split(", ").map((call) => {
    const [toolName = "", text = ""] = call.split(" ");
    return { toolName, arguments: { text }, callId: text };
  });
  return { calls };
}
