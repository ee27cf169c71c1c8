// A worker behind a Restate server. Owns its port and the invocations that arrive there.
//
// - A run has one `execute` at a time. If Restate delivers an invocation again, because it or the
//   worker was lost, the second one waits until the first has ended.
// - `releaseSignal` is aborted if Restate no longer waits, or if the worker closes. A closing
//   worker first accepts nothing more, then releases its runs, sends its replies and ends its
//   connections.

import { createServer, type Http2Server, type ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";

import type * as RestateSdk from "@restatedev/restate-sdk";

import { systemClock } from "../../kernel/clock.ts";
import { EspalierError, getErrorMessage } from "../../kernel/error.ts";
import { loadPackage } from "../../kernel/optional-package.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { RunId } from "../../protocol/ids.ts";
import type { EngineWorker, RunExecutor, ExecutorResult } from "../engine.ts";
import { RunTurns } from "../run-turns.ts";
import { createRestateObject, createServiceName } from "./restate-object.ts";
import { registerWorker } from "./restate-ingress.ts";

/** Address at which a worker listens, and where it registers. */
export interface RestateListener {
  readonly host: string;
  readonly port: number;
  readonly identityKeys: readonly string[];
  readonly adminUrl?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly workerUrl?: string;
}

/** Largest value of an HTTP/2 setting. */
const MOST_STREAMS = 2 ** 32 - 1;
/** Maximum number of characters quoted from a log message. */
const QUOTED = 300;
/** Time in milliseconds to send the replies of the last runs. */
const GOODBYE_MS = 2_000;

/** Starts to listen, and registers with Restate if `adminUrl` is set. */
export async function serveRestate(
  executor: RunExecutor,
  listener: RestateListener,
): Promise<EngineWorker> {
  const sdk: WorkerSdk = await loadPackage(
    "@restatedev/restate-sdk",
    "no run of Restate can be executed",
    () => import("@restatedev/restate-sdk"),
  );
  const worker = new RestateWorker(executor, listener, sdk);
  const port = await worker.listen();
  const close = (): Promise<void> => worker.close();
  const { adminUrl, headers = {} } = listener;
  if (adminUrl === undefined) return { close };
  const { workerUrl = formatUrl(listener.host, port) } = listener;
  const services = executor.roles.map((role) => createServiceName(role, executor.version));
  try {
    await registerWorker({ adminUrl, headers, workerUrl, services });
  } catch (cause) {
    await close();
    throw cause;
  }
  return { close };
}

type WorkerSdk = Pick<typeof RestateSdk, "object" | "RetryableError" | "createEndpointHandler">;

function formatUrl(host: string, port: number): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

class RestateWorker {
  readonly #executor: RunExecutor;
  readonly #listener: RestateListener;
  readonly #server: Http2Server;
  readonly #sessions = new Set<ServerHttp2Session>();
  /**
   * Sockets below the HTTP/2 sessions: a session that closes waits for the other side to end the
   * connection.
   */
  readonly #sockets = new Set<Socket>();
  readonly #turns = new RunTurns();
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;

  constructor(executor: RunExecutor, listener: RestateListener, sdk: WorkerSdk) {
    this.#executor = executor;
    this.#listener = listener;
    // If a connection is full, Restate opens another, possibly to another worker behind the same
    // address.
    const maxConcurrentStreams = Math.min(Math.max(1, executor.maxRuns), MOST_STREAMS);
    this.#server = createServer({ settings: { maxConcurrentStreams } }, this.#createHandler(sdk));
    this.#server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    this.#server.on("session", (session) => {
      this.#sessions.add(session);
      session.once("close", () => this.#sessions.delete(session));
    });
  }

  /** Resolves with the port. Rejects with `engine_failed` if the port cannot be used. */
  listen(): Promise<number> {
    const { host, port } = this.#listener;
    return new Promise((resolve, reject) => {
      this.#server.on("error", (cause) => reject(createListenError(host, port, cause)));
      this.#server.listen({ host, port }, () => {
        const address = this.#server.address();
        resolve(typeof address === "object" && address !== null ? address.port : port);
      });
    });
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  #createHandler({ object, RetryableError, createEndpointHandler }: WorkerSdk) {
    const { roles, version } = this.#executor;
    const { identityKeys } = this.#listener;
    const services = roles.map((role) =>
      createRestateObject(
        { object, RetryableError },
        createServiceName(role, version),
        (runId, lost) => this.#settle(runId, lost),
      ),
    );
    try {
      return createEndpointHandler({
        services,
        ...(identityKeys.length === 0 ? {} : { identityKeys: [...identityKeys] }),
        logger: ({ source, level }, message) => this.#logMessage(source, level, message),
      });
    } catch (cause) {
      throw createKeysError(cause);
    }
  }

  /**
   * Logs messages of the SDK. Restate shows how invocations end; only this process knows of
   * requests that it rejected for their signature or role.
   */
  #logMessage(source: string, level: string, message: unknown): void {
    if (source !== "SYSTEM" || level !== "error") return;
    const text = getErrorMessage(message).slice(0, QUOTED);
    const advice = "Check identityKeys, and the deployment that is registered at its address.";
    warnOnce(
      this,
      `A Restate worker refused a request. ${text}. ${advice} Further refusals are not reported.`,
    );
  }

  #settle(runId: RunId, lost: AbortSignal): Promise<ExecutorResult> {
    const releaseSignal = AbortSignal.any([lost, this.#closing.signal]);
    return this.#turns.run(runId, async () => {
      if (releaseSignal.aborted) throw createClosedError(runId);
      return await this.#executor.execute(runId, releaseSignal);
    });
  }

  async #close(): Promise<void> {
    const stopped = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const session of this.#sessions) session.close();
    this.#closing.abort();
    await this.#turns.whenIdle();
    const cancel = systemClock.setTimer(GOODBYE_MS, () => {
      for (const socket of this.#sockets) socket.destroy();
    });
    await stopped;
    cancel();
  }
}

function createClosedError(runId: RunId): EspalierError {
  const message = `Cannot execute run ${JSON.stringify(runId)}: the worker is closing, or the request was dropped. Another worker executes it.`;
  return new EspalierError({ code: "run_released", message, data: { runId } });
}

function createListenError(host: string, port: number, cause: unknown): EspalierError {
  const code: unknown = cause instanceof Error && "code" in cause ? cause.code : undefined;
  const advice =
    code === "EADDRINUSE"
      ? "Choose another port, or end the process that uses it."
      : "See the cause of this error.";
  const message = `Cannot listen at ${host}, port ${port}: ${getErrorMessage(cause)}. ${advice}`;
  return new EspalierError({ code: "engine_failed", message, data: { host, port }, cause });
}

function createKeysError(cause: unknown): EspalierError {
  const message = `Expected options.identityKeys to be public keys of Restate's request identity, got: ${getErrorMessage(cause)}. Copy the key that Restate prints when it starts.`;
  const data = { field: "options.identityKeys" };
  return new EspalierError({ code: "invalid_argument", message, data, cause });
}
