// A PostgreSQL server for tests: a local one on a free port, in a folder that is removed at the
// end; or the one of ESPALIER_TEST_POSTGRES_URL. Without either, tests are skipped with the reason;
// if `REAL_PARTS` names postgresql, they fail instead.

import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { chownSync, existsSync, globSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { freePort } from "../free-port.ts";

export interface PostgresServer {
  readonly url: string;
  /** Undefined: these tests must not stop the server. */
  readonly machine: PostgresMachine | undefined;
  /** Stops the server, and removes its folder. */
  close(): Promise<void>;
}

export interface PostgresMachine {
  /**
   * Stops the server like a crash: unwritten data is lost, and connections are not closed in order.
   */
  crash(): Promise<void>;
  /** Ends in order: every connection gets a notice. */
  stop(): Promise<void>;
  /** Starts the server again, on the same port and with its data. */
  start(): Promise<void>;
}

/** Returns the server, or the reason why there is none. */
export async function findPostgres(): Promise<PostgresServer | string> {
  const url = process.env["ESPALIER_TEST_POSTGRES_URL"];
  if (url !== undefined) return { url, machine: undefined, close: async () => undefined };
  const binaries = findBinaries();
  if (binaries === undefined) {
    const reason =
      "PostgreSQL is not installed (initdb and postgres), and ESPALIER_TEST_POSTGRES_URL is not set";
    if (process.env["REAL_PARTS"]?.split(" ").includes("postgresql") === true)
      throw new Error(`REAL_PARTS says that PostgreSQL is here, but ${reason}.`);
    return reason;
  }
  const server = new Server(binaries, await freePort());
  server.initialise();
  await server.start();
  return {
    url: `postgres://postgres@127.0.0.1:${server.port}/postgres`,
    machine: server,
    close: () => server.close(),
  };
}

function findBinaries(): string | undefined {
  const configured = spawnSync("pg_config", ["--bindir"], { encoding: "utf8" }).stdout;
  const folders = [configured?.trim(), ...globSync("/usr/lib/postgresql/*/bin").toReversed()];
  return folders.find(
    (folder) =>
      folder !== undefined &&
      existsSync(join(folder, "initdb")) &&
      existsSync(join(folder, "postgres")),
  );
}

class Server implements PostgresMachine {
  readonly port: number;
  readonly #binaries: string;
  readonly #data = join(mkdtempSync(join(tmpdir(), "postgres-")), "data");
  readonly #user = userOf();
  #process: ChildProcess | undefined;

  constructor(binaries: string, port: number) {
    this.#binaries = binaries;
    this.port = port;
  }

  initialise(): void {
    const folder = dirname(this.#data);
    if (this.#user !== undefined) chownSync(folder, this.#user.uid, this.#user.gid);
    const options = [
      "-D",
      this.#data,
      "-U",
      "postgres",
      "--auth=trust",
      "-E",
      "UTF8",
      "--locale=C",
    ];
    const { status, stderr } = spawnSync(join(this.#binaries, "initdb"), options, {
      ...this.#user,
      cwd: folder,
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`initdb has failed: ${stderr}`);
  }

  async start(): Promise<void> {
    const settings = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "lc_messages=C"];
    const options = [
      "-D",
      this.#data,
      "-p",
      `${this.port}`,
      ...settings.flatMap((one) => ["-c", one]),
    ];
    const child = spawn(join(this.#binaries, "postgres"), options, {
      ...this.#user,
      cwd: this.#data,
      stdio: ["ignore", "ignore", "pipe"],
    });
    this.#process = child;
    let said = "";
    await new Promise<void>((resolve, reject) => {
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        said += text;
        if (said.includes("ready to accept connections")) resolve();
      });
      child.once("error", reject);
      child.once("exit", () => reject(new Error(`postgres has ended: ${said}`)));
    });
  }

  crash(): Promise<void> {
    return this.#end("SIGQUIT");
  }

  stop(): Promise<void> {
    return this.#end("SIGINT");
  }

  async close(): Promise<void> {
    await this.#end("SIGQUIT");
    rmSync(dirname(this.#data), { recursive: true });
  }

  async #end(signal: "SIGQUIT" | "SIGINT"): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }
}

/** Returns another user for root, as which PostgreSQL does not run. Undefined: the present user. */
function userOf(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  return { uid: idOf("-u"), gid: idOf("-g") };
}

function idOf(flag: "-u" | "-g"): number {
  return Number(spawnSync("id", [flag, "postgres"], { encoding: "utf8" }).stdout || "65534");
}
