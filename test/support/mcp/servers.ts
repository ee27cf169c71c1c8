// The servers that tests start: the real one from the registry, and the hand-made one, over both
// transports. They end with the test.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

import type { McpHttp, McpStdio } from "../../../src/mcp/mcp-options.ts";
import { afterwards } from "../../harness/afterwards.ts";

const EVERYTHING = fileURLToPath(
  import.meta.resolve("@modelcontextprotocol/server-everything/dist/index.js"),
);

/** A server over stdio, and the processes that were started for it. */
export interface StdioPeer {
  readonly transport: McpStdio;
  /** Returns the standard error output of the processes. */
  readonly errorText: () => string;
  /** Resolves with the id of the `count`th process, from 1, once it runs. */
  started(count: number): Promise<number>;
  /** The ids of all processes that were started so far. */
  readonly pids: readonly number[];
}

/** The real server over stdio. */
export function everythingOverStdio(): StdioPeer {
  return stdioPeer(["--import", sibling("say-pid.ts"), EVERYTHING, "stdio"]);
}

/** The hand-made server over stdio. */
export function handMadeOverStdio(behaviour: string): StdioPeer {
  return stdioPeer([sibling("stdio-server.ts"), behaviour]);
}

function stdioPeer(args: readonly string[]): StdioPeer {
  const pids: number[] = [];
  let errorText = "";
  let wake = Promise.withResolvers<void>();
  const onStderr = (text: string): void => {
    errorText += text;
    const all = [...errorText.matchAll(/(?:pid|grandchild) (\d+)\n/g)].map(([, pid]) =>
      Number(pid),
    );
    pids.splice(0, pids.length, ...all);
    wake.resolve();
    wake = Promise.withResolvers();
  };
  afterwards(() => {
    for (const pid of pids.filter(isAlive)) process.kill(pid, "SIGKILL");
  });
  return {
    transport: {
      type: "stdio",
      command: process.execPath,
      args: ["--disable-warning=ExperimentalWarning", ...args],
      onStderr,
    },
    errorText: () => errorText,
    pids,
    started: async (count) => {
      for (;;) {
        const pid = pids[count - 1];
        if (pid !== undefined) return pid;
        await wake.promise;
      }
    },
  };
}

/** A server over HTTP in its own process. */
export interface HttpPeer {
  readonly transport: McpHttp;
  readonly pid: number;
  readonly port: number;
  /** Ends it like a crash. */
  kill(): Promise<void>;
}

/** Starts the real server over HTTP, on a free port or on this one. */
export async function everythingOverHttp(port = 0): Promise<HttpPeer> {
  const child = spawn(
    process.execPath,
    [
      "--disable-warning=ExperimentalWarning",
      "--import",
      sibling("local-listener.ts"),
      EVERYTHING,
      "streamableHttp",
    ],
    { env: { ...process.env, PORT: String(port) }, stdio: ["ignore", "pipe", "ignore"] },
  );
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  afterwards(kill);
  const taken = await listeningPort(child);
  return {
    transport: { type: "http", url: `http://127.0.0.1:${taken}/mcp` },
    pid: child.pid ?? 0,
    port: taken,
    kill,
  };
}

/** Resolves with the server's port. Its output is read to the end, so that it never blocks. */
function listeningPort(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    let text = "";
    child.stdout?.on("data", (chunk: unknown) => {
      text += String(chunk);
      const port = /listening (\d+)\n/.exec(text)?.[1];
      if (port !== undefined) resolve(Number(port));
    });
    child.once("exit", () => reject(new Error(`Expected the server to listen, got: ${text}`)));
  });
}

/** True if there is such a process. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function sibling(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url));
}
