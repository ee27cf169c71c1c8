// A worker in a process of its own. Arguments: the ingress, the admin API, the address of the workers, its port, its role. Says over its
// channel `ready`, then each run that it begins to lead; a run that it gets over it settles.

import { restateEngine } from "../../src/engine/restate/restate-engine.ts";
import type { RunId } from "../../src/protocol/ids.ts";

const [ingressUrl = "", adminUrl = "", workerUrl = "", port = "", role = ""] =
  process.argv.slice(2);
const underWay = new Map<unknown, () => void>();
process.on("message", (runId) => underWay.get(runId)?.());

const engine = restateEngine({ ingressUrl, adminUrl, workerUrl, port: Number(port) });
await engine.serve({
  roles: [role],
  version: "1",
  maxRuns: 2,
  settle: async (runId: RunId) => {
    await new Promise<void>((resolve) => {
      underWay.set(runId, resolve);
      process.send?.(runId);
    });
    return { type: "ended" };
  },
});
process.send?.("ready");
