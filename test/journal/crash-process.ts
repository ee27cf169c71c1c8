// A process that runs the tree of crash-world.ts over a SQLite file, and kills itself at one of its appends:
// `crash-process.ts <folder> <run to recover, or -> <append, or -> <before|after>`. Writes what it did to files of the folder.

import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { Orchestrator } from "espalier";
import type { Store } from "espalier/extend";
import { sqliteStore } from "espalier/store/sqlite";

import { world } from "./crash-world.ts";
import { forwarding } from "./forwarding-store.ts";

const [folder = "", runId = "-", killedAt = "-", when = "before"] = process.argv.slice(2);
const file = (name: string): string => join(folder, name);

/** Dies as a process dies: without a sign, and nothing is tidied up. */
function die(): void {
  process.kill(process.pid, "SIGKILL");
}

function dying(store: Store): Store {
  let appends = 0;
  return {
    ...forwarding(store),
    append: async (ownership, batch) => {
      appends += 1;
      const isLast = String(appends) === killedAt;
      if (isLast && when === "before") die();
      await store.append(ownership, batch);
      if (isLast) die();
    },
  };
}

const { role } = world({
  onTool: (idempotencyKey) => appendFileSync(file("calls.txt"), `${idempotencyKey}\n`),
});
const store = dying(sqliteStore(file("runs.db")));
const orchestrator = new Orchestrator({
  limits: { maxDepth: 3, maxBreadthPerParent: 10, maxTotalSubagents: 100 },
  roles: [role],
  store,
});
const run = runId === "-" ? orchestrator.start(role, "Go.") : await orchestrator.recover(runId);
writeFileSync(file("run.txt"), run.runId);
writeFileSync(file("result.json"), JSON.stringify(await run.result));
await store.close();
