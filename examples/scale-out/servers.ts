// A PostgreSQL and a Restate server for the examples: on free ports of this machine, in a folder that goes away with them. Where one cannot
// be had, the example says so and ends; where `REAL_PARTS` names it, it fails instead.

import { spawn, spawnSync, type ChildProcess, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { chownSync, existsSync, globSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";

/** Ends the program: with 0, unless `part` is said to be here. */
function skip(part: string, reason: string): never {
  console.log(`Skipped: ${reason}.`);
  process.exit(process.env["REAL_PARTS"]?.split(" ").includes(part) === true ? 1 : 0);
}

/** A folder that goes away with this process, and its servers with it. */
function newFolder(servers: readonly ChildProcess[]): string {
  const folder = mkdtempSync(join(tmpdir(), "scale-out-"));
  process.once("exit", () => {
    for (const server of servers) server.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
  });
  return folder;
}

async function portOf(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

/** A port on which nothing listens. */
export async function freePort(): Promise<number> {
  const probe = createServer();
  const port = await portOf(probe);
  probe.close();
  return port;
}

/** The address of a database. */
export async function startPostgres(): Promise<string> {
  const [binaries] = globSync("/usr/lib/postgresql/*/bin").toReversed();
  if (binaries === undefined || !existsSync(join(binaries, "initdb")))
    skip("postgresql", "PostgreSQL is not installed (initdb and postgres)");
  const servers: ChildProcess[] = [];
  const folder = newFolder(servers);
  const as = notRoot(folder);
  const data = join(folder, "data");
  const initdb = ["-D", data, "-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C"];
  const { status, stderr } = spawnSync(join(binaries, "initdb"), initdb, { ...as, cwd: folder });
  if (status !== 0) throw new Error(`initdb has failed: ${stderr.toString()}`);
  const port = await freePort();
  const settings = ["-h", "127.0.0.1", "-p", `${port}`, "-c", "unix_socket_directories="];
  servers.push(
    spawn(join(binaries, "postgres"), ["-D", data, ...settings], { ...as, stdio: "ignore" }),
  );
  await whenOpen(port);
  return `postgres://postgres@127.0.0.1:${port}/postgres`;
}

/** PostgreSQL does not run as root: as its own user then, to whom the folder is given. */
function notRoot(folder: string): SpawnOptions {
  if (process.getuid?.() !== 0) return {};
  const idOf = (flag: string): number =>
    Number(spawnSync("id", [flag, "postgres"]).stdout.toString() || "65534");
  const user = { uid: idOf("-u"), gid: idOf("-g") };
  chownSync(folder, user.uid, user.gid);
  return user;
}

async function whenOpen(port: number): Promise<void> {
  const isOpen = new Promise<boolean>((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true));
    socket.once("error", () => resolve(false)).once("connect", () => socket.destroy());
  });
  if (await isOpen) return;
  await setTimeout(50);
  await whenOpen(port);
}

/** The addresses of a Restate server, as workers and clients need them. */
export async function startRestate() {
  const name = `@restatedev/restate-server-${process.platform}-${process.arch}`;
  const binary = binaryOf(name);
  if (binary === undefined) skip("restate", `${name} is not installed`);
  const servers: ChildProcess[] = [];
  const folder = newFolder(servers);
  const [ingress, admin, node] = [await freePort(), await freePort(), await freePort()];
  const env = {
    ...process.env,
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
    RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
    RESTATE_LISTEN_MODE: "tcp",
    RESTATE_DISABLE_TELEMETRY: "true",
  };
  servers.push(spawn(binary, ["--base-dir", folder], { cwd: folder, env, stdio: "ignore" }));
  const urls = {
    INGRESS_URL: `http://127.0.0.1:${ingress}`,
    ADMIN_URL: `http://127.0.0.1:${admin}`,
  };
  for (const url of [`${urls.ADMIN_URL}/health`, `${urls.INGRESS_URL}/restate/health`])
    while ((await fetch(url).catch(() => undefined))?.ok !== true) await setTimeout(50);
  return urls;
}

function binaryOf(name: string): string | undefined {
  try {
    const manifest = createRequire(import.meta.url).resolve(`${name}/package.json`);
    return join(dirname(manifest), "bin", "restate-server");
  } catch {
    return undefined;
  }
}

/** One address for several workers: connections go to those that listen, in turn. In a network of yours a balancer does it, or DNS. */
export async function startBalancer(ports: readonly number[]): Promise<string> {
  let order = ports;
  const balancer = createServer((client) => {
    const [first = 0, ...others] = order;
    order = [...others, first];
    client.on("error", () => client.destroy());
    passOn(client, order);
  });
  return `http://127.0.0.1:${await portOf(balancer.unref())}`;
}

/** To the first port at which something listens. */
function passOn(client: Socket, [port, ...others]: readonly number[]): void {
  if (port === undefined) return void client.destroy();
  const worker = connect(port, "127.0.0.1");
  const tryNext = (): void => passOn(client, others);
  worker.once("error", tryNext);
  worker.once("connect", () => {
    worker.off("error", tryNext).on("error", () => worker.destroy());
    worker.once("close", () => client.destroy());
    client.once("close", () => worker.destroy());
    client.pipe(worker).pipe(client);
  });
}
