// A Restate server for tests: the binary from npm, on free ports of this machine, in a temporary
// folder. Without a binary for this machine, tests are skipped with the reason, or fail if
// `REAL_PARTS` names Restate. The server looks for newer releases when it starts, which cannot be
// disabled; without a network it logs that and continues.

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";

import { freePort } from "./free-port.ts";

export interface RestateServer {
  readonly ingressUrl: string;
  readonly adminUrl: string;
  /** The process that serves now. */
  readonly pid: number;
  /** Number of accepted requests of one service that are not finished. */
  unfinished(service: string): Promise<number>;
  /** Resolves when all that it has taken for this service is done with. */
  whenDone(service: string): Promise<void>;
  /** As `kill -9`. */
  crash(): Promise<void>;
  /** Starts the server again, on the same ports and with the same data. */
  start(): Promise<void>;
  /** Ends it, and takes its folder away. */
  close(): Promise<void>;
}

/**
 * The server, or the reason why there is none. With the key in `privateKeyFile` the server signs
 * its requests to workers.
 */
export async function findRestate(privateKeyFile?: string): Promise<RestateServer | string> {
  const binary = findBinary();
  if (binary === undefined) return whyNoRestate() ?? "";
  for (let tries = 1; ; tries += 1) {
    const ports = { ingress: await freePort(), admin: await freePort(), node: await freePort() };
    const server = new Server(binary, ports, privateKeyFile);
    try {
      await server.start();
      return server;
    } catch (cause) {
      await server.close();
      // Another process may have taken a port since it was free.
      if (tries === MOST_TRIES || !String(cause).includes("Address in use")) throw cause;
    }
  }
}

const MOST_TRIES = 3;

/** Why there can be no server; undefined: there can. */
export function whyNoRestate(): string | undefined {
  if (findBinary() !== undefined) return undefined;
  const reason = `@restatedev/restate-server has no binary for ${process.platform}-${process.arch} here`;
  if (process.env["REAL_PARTS"]?.split(" ").includes("restate") === true)
    throw new Error(`REAL_PARTS says that Restate is here, but ${reason}.`);
  return reason;
}

function findBinary(): string | undefined {
  const name = `@restatedev/restate-server-${process.platform}-${process.arch}`;
  try {
    const manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
    const binary = join(dirname(manifest), "bin", "restate-server");
    return existsSync(binary) ? binary : undefined;
  } catch {
    return undefined;
  }
}

/** The line that it logs once it accepts connections. */
const LISTENING = ["server_name: http-ingress-server", "server_name: admin-api-server"];

interface Ports {
  readonly ingress: number;
  readonly admin: number;
  readonly node: number;
}

class Server implements RestateServer {
  readonly ingressUrl: string;
  readonly adminUrl: string;
  readonly #binary: string;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #folder = mkdtempSync(join(tmpdir(), "restate-"));
  #process: ChildProcess | undefined;

  constructor(binary: string, ports: Ports, privateKeyFile: string | undefined) {
    this.#binary = binary;
    this.ingressUrl = `http://127.0.0.1:${ports.ingress}`;
    this.adminUrl = `http://127.0.0.1:${ports.admin}`;
    this.#environment = {
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ports.ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${ports.admin}`,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${ports.node}`,
      RESTATE_LISTEN_MODE: "tcp",
      RESTATE_LOG_DISABLE_ANSI_CODES: "true",
      RESTATE_ADMIN__DISABLE_WEB_UI: "true",
      RESTATE_DISABLE_TELEMETRY: "true",
      RESTATE_DEFAULT_NUM_PARTITIONS: "2",
      RESTATE_ROCKSDB_TOTAL_MEMORY_SIZE: "128MB",
      ...(privateKeyFile === undefined
        ? {}
        : { RESTATE_REQUEST_IDENTITY_PRIVATE_KEY_PEM_FILE: privateKeyFile }),
    };
  }

  async start(): Promise<void> {
    const options = ["--base-dir", this.#folder, "--node-name", "test", "--no-logo"];
    const child = spawn(this.#binary, options, {
      cwd: this.#folder,
      env: { ...process.env, ...this.#environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    let said = "";
    // The port is not probed before the server listens: a socket to an unused port may connect to
    // itself by chance, and occupy the port.
    await new Promise<void>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", () => reject(new Error(`restate-server has ended: ${said}`)));
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding("utf8").on("data", (text: string) => {
          said += text;
          if (LISTENING.every((words) => said.includes(words))) resolve();
        });
    });
    while (!(await this.#isHealthy())) {
      if (hasEnded(child)) throw new Error(`restate-server has ended: ${said}`);
      await setTimeout(20);
    }
  }

  get pid(): number {
    return this.#process?.pid ?? 0;
  }

  async unfinished(service: string): Promise<number> {
    const query = `select id from sys_invocation where target_service_name = '${service}' and status != 'completed'`;
    const response = await fetch(`${this.adminUrl}/query`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify({ query }),
    });
    const reply: unknown = await response.json();
    const rows: unknown = Reflect.get(Object(reply), "rows");
    if (!Array.isArray(rows)) throw new Error(`Expected rows, got ${JSON.stringify(reply)}.`);
    return rows.length;
  }

  async whenDone(service: string): Promise<void> {
    while ((await this.unfinished(service)) > 0) await setTimeout(20);
  }

  async crash(): Promise<void> {
    const child = this.#process;
    if (child === undefined || hasEnded(child)) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }

  async close(): Promise<void> {
    await this.crash();
    rmSync(this.#folder, { recursive: true });
  }

  async #isHealthy(): Promise<boolean> {
    const urls = [`${this.adminUrl}/health`, `${this.ingressUrl}/restate/health`];
    const replies = await Promise.all(
      urls.map((url) => fetch(url, { signal: AbortSignal.timeout(1_000) }).catch(() => undefined)),
    );
    return replies.every((reply) => reply?.ok === true);
  }
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}
