// A worker in its own process. Arguments: the ingress, the admin API, the address of the workers,
// its port, its role. Sends `ready` over its channel, then each run that it begins to execute.
// Settles each run that it receives there, as often as the server delivers it.

import { restateEngine } from "../../../src/engine/restate/restate-engine.ts";
import type { RunId } from "../../../src/protocol/ids.ts";

const [ingressUrl = "", adminUrl = "", workerUrl = "", port = "", role = ""] =
  process.argv.slice(2);
const ends = new Map<unknown, PromiseWithResolvers<void>>();
process.on("message", (runId) => endOf(runId).resolve());

function endOf(runId: unknown): PromiseWithResolvers<void> {
  const end = ends.get(runId) ?? Promise.withResolvers<void>();
  ends.set(runId, end);
  return end;
}

const engine = restateEngine({ ingressUrl, adminUrl, workerUrl, port: Number(port) });
await engine.serve({
  roles: [role],
  version: "1",
  maxRuns: 2,
  execute: async (runId: RunId) => {
    process.send?.(runId);
    await endOf(runId).promise;
    return { type: "ended" };
  },
});
process.send?.("ready");
