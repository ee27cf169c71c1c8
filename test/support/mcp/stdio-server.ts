// Runs as a child process. The first argument selects its behaviour.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

import { ASKING, HandMadeServer, incoming, LONG, NO_TOOLS, PLACE } from "./hand-made-server.ts";

const [, , behaviour = ""] = process.argv;
process.stderr.write(`pid ${process.pid}\n`);

/** Starts a grandchild that outlives this process and holds its pipes open. */
function startGrandchild(): void {
  const { pid } = spawn(process.execPath, ["-e", "setInterval(() => {}, 60_000)"], {
    stdio: "inherit",
  });
  process.stderr.write(`grandchild ${pid}\n`);
}

const SECOND_PAGES: Readonly<Record<string, readonly unknown[]>> = {
  odd: NO_TOOLS,
  asking: ASKING,
  eager: ASKING,
  long: LONG,
};

function write(message: object): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

async function written(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, "drain");
}

switch (behaviour) {
  case "parent":
  case "odd":
  case "asking":
  case "eager":
  case "long":
  case "well": {
    if (behaviour === "parent") startGrandchild();
    const server = new HandMadeServer(SECOND_PAGES[behaviour]);
    createInterface({ input: process.stdin }).on("line", (line) => {
      const message = incoming(line);
      server.handle(message, write);
      // Before any call.
      if (behaviour === "eager" && message.method === "notifications/initialized")
        void server
          .ask("elicitation/create", PLACE, write)
          .then(({ result }) => server.seen.push(JSON.stringify(result)));
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
  case "endless":
    process.stdin.resume();
    for (;;) await written("a".repeat(16_384));
  case "deaf":
    // Reads nothing, and sends requests without end.
    for (let id = 1; ; id += 1)
      await written(`${JSON.stringify({ jsonrpc: "2.0", id, method: "ping" })}\n`);
  case "garbage":
    process.stdin.resume();
    process.stdout.write('{"jsonrpc":"2.0"}\n\u0000\u0001 not json\n{"id":{}}\n[]\nnull\n');
    process.stdout.write("no end of line");
    break;
}
