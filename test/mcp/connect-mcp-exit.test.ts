// Goal: after `close()` nothing prevents a program from exiting, and none of its processes are
// left.
// Method: a short program in its own process.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";

import { handMadeOverHttp } from "../support/mcp/http-server.ts";
import { afterwards } from "../harness/afterwards.ts";
import { handMadeOverStdio, isAlive } from "../support/mcp/servers.ts";

/**
 * Returns the exit code of the short program with this server, its output, and the processes that
 * it started.
 */
async function ending(args: readonly string[]) {
  const program = fileURLToPath(new URL("../support/mcp/short-program.ts", import.meta.url));
  const flags = ["--conditions=@espalier/source", "--disable-warning=ExperimentalWarning"];
  const child = spawn(process.execPath, [...flags, program, ...args]);
  afterwards(() => child.kill("SIGKILL"));
  let text = "";
  let errorText = "";
  child.stdout.on("data", (chunk: unknown) => (text += String(chunk)));
  child.stderr.on("data", (chunk: unknown) => (errorText += String(chunk)));
  await once(child, "close");
  const { exitCode: code } = child;
  const pids = [...errorText.matchAll(/(?:pid|grandchild) (\d+)\n/g)].map(([, pid]) => Number(pid));
  afterwards(() => {
    for (const pid of pids.filter(isAlive)) process.kill(pid, "SIGKILL");
  });
  return { code, text, alive: pids.map(isAlive) };
}

test("lets the program exit over stdio and ends its server", async () => {
  const { args = [] } = handMadeOverStdio("well").transport;
  expect(await ending(args)).toEqual({ code: 0, text: "closed\n", alive: [false] });
});

test("lets the program exit over stdio even if its server has left a process at its pipes", async () => {
  const { args = [] } = handMadeOverStdio("parent").transport;
  expect(await ending(args)).toEqual({ code: 0, text: "closed\n", alive: [false, true] });
});

test("lets the program exit over HTTP", async () => {
  const { transport, server } = await handMadeOverHttp();
  expect(await ending([String(transport.url)])).toEqual({ code: 0, text: "closed\n", alive: [] });
  expect(server.seen.at(-1)).toBe("DELETE");
});
