// Runs as a child process. The first argument says how it behaves.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { HandMadeServer, incoming, NO_TOOLS, TWIN } from "./hand-made-server.ts";

const [, , behaviour = ""] = process.argv;
process.stderr.write(`pid ${process.pid}\n`);

/** A grandchild that outlives this process and holds its pipes open. */
function startGrandchild(): void {
  const { pid } = spawn(process.execPath, ["-e", "setInterval(() => {}, 60_000)"], {
    stdio: "inherit",
  });
  process.stderr.write(`grandchild ${pid}\n`);
}

const SECOND_PAGES: Readonly<Record<string, readonly unknown[]>> = { twins: [TWIN], odd: NO_TOOLS };

switch (behaviour) {
  case "parent":
  case "twins":
  case "odd":
  case "well": {
    if (behaviour === "parent") startGrandchild();
    const server = new HandMadeServer(SECOND_PAGES[behaviour]);
    createInterface({ input: process.stdin }).on("line", (line) => {
      server.handle(incoming(line), (answer) =>
        process.stdout.write(`${JSON.stringify(answer)}\n`),
      );
    });
    break;
  }
  case "exits":
    process.stderr.write("No key was given.\n");
    process.exitCode = 3;
    break;
  case "silent":
    process.stdin.resume();
    break;
  case "stubborn":
    process.on("SIGTERM", () => process.stderr.write("no\n"));
    process.stderr.write("ready\n");
    process.stdin.resume();
    setInterval(() => {}, 60_000);
    break;
  case "garbage":
    process.stdin.resume();
    process.stdout.write('{"jsonrpc":"2.0"}\n\u0000\u0001 not json\n{"id":{}}\n[]\nnull\n');
    process.stdout.write("no end of line");
    break;
}
