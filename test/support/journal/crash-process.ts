// A process that runs the tree of crash-world.ts over a store, and may kill itself at one of its
// appends. Writes its calls and the result to files of its folder. Prints `up` when its modules are
// loaded, and at its end `ended`, or the code of a run that is over.
//   --folder <path>                     of its files, and of the SQLite file
//   --run <id>                          to recover; without it a run is started
//   --schema <name>                     of PostgreSQL at ESPALIER_TEST_POSTGRES_URL, not SQLite
//   --at <append> --when before|after   kills itself there
//   --slowly                            calls take some milliseconds, workers pay, with a budget

import { appendFileSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as milliseconds } from "node:timers/promises";
import { parseArgs } from "node:util";

import { EspalierError, Orchestrator, type Run } from "espalier";
import type { Store } from "espalier/extend";
import { postgresStore } from "espalier/store/postgres";
import { sqliteStore } from "espalier/store/sqlite";

import { EXACT_BUDGET, LIMITS, world } from "./crash-world.ts";
import { forwarding } from "./forwarding-store.ts";

const { values } = parseArgs({
  options: {
    folder: { type: "string", default: "" },
    run: { type: "string" },
    schema: { type: "string" },
    at: { type: "string" },
    when: { type: "string" },
    slowly: { type: "boolean", default: false },
  },
});
const file = (name: string): string => join(values.folder, name);

/** Ends the process as `kill -9` would, without any cleanup. */
function die(): void {
  process.kill(process.pid, "SIGKILL");
}

function dying(store: Store): Store {
  let appends = 0;
  return forwarding(store, {
    append: async (ownership, batch) => {
      appends += 1;
      const isLast = String(appends) === values.at;
      if (isLast && values.when === "before") die();
      await store.append(ownership, batch);
      if (isLast) die();
    },
  });
}

function open(): Store {
  const { schema } = values;
  if (schema === undefined) return sqliteStore(file("runs.db"));
  return postgresStore({
    connectionString: process.env["ESPALIER_TEST_POSTGRES_URL"] ?? "",
    schema,
  });
}

/** Delays calls, so that kills occur before, during and after their effects. Some do not wait. */
async function aWhile(): Promise<void> {
  const lengthMs = Math.random() * 25 - 5;
  if (values.slowly && lengthMs > 0) await milliseconds(lengthMs);
}

async function told(begin: () => Promise<Run>): Promise<string> {
  try {
    const run = await begin();
    writeFileSync(file("result.json"), JSON.stringify(await run.result));
    return "ended";
  } catch (cause) {
    if (EspalierError.is(cause) && cause.code === "run_ended") return cause.code;
    throw cause;
  }
}

const { role } = world({
  isPaying: values.slowly,
  onTool: async (idempotencyKey, toolName) => {
    await aWhile();
    appendFileSync(file(`${toolName}.txt`), `${idempotencyKey}\n`);
    await aWhile();
  },
  onModel: aWhile,
});
writeSync(1, "up\n");
const store = dying(open());
// The test may kill more processes in a row than a run without progress survives by default.
const orchestrator = new Orchestrator({ limits: LIMITS, roles: [role], store, maxCrashes: 1_000 });
const { run } = values;
const start = values.slowly ? { budget: EXACT_BUDGET } : {};
const end = await told(async () =>
  run === undefined ? orchestrator.start(role, "Go.", start) : await orchestrator.resume(run),
);
await store.close();
writeSync(1, `${end}\n`);
