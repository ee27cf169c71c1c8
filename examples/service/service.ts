// An HTTP service that streams each run to its readers. It cancels a run when its last reader leaves,
// and continues all active runs after a restart.
//
//   node examples/service/service.ts runs.db 8080
//   curl -d "Tell me of trees." http://127.0.0.1:8080/runs      → {"runId":"run_…"}
//   curl -N http://127.0.0.1:8080/runs/run_…                    → server-sent events

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";

import { EspalierError, Orchestrator, toSse, type Run } from "espalier";
import { sqliteStore } from "espalier/store/sqlite";

import { narrator } from "./narrator.ts";

/** A page that only lost its connection comes back within this time. */
const LEFT_AFTER_MS = 500;

const [, , file = "runs.db", port = "8080"] = process.argv;
const store = sqliteStore(file);
const orchestrator = new Orchestrator({
  roles: [narrator],
  store,
  onStreamPart: () => undefined, // stream from the first call
});
const followers = new Map<string, number>();

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [, folder, runId] = (request.url ?? "").split("/");
  if (folder !== "runs") return void response.writeHead(404).end();
  if (request.method === "POST") {
    const task = await text(request);
    const run = orchestrator.start(narrator, task, { budget: { costUsd: 0.5 } });
    await run.whenPersisted(); // from now on, a crashed run is recovered
    const { runId } = run;
    return void response.writeHead(201).end(JSON.stringify({ runId }));
  }
  const run = orchestrator.findActiveRun(runId ?? "");
  if (run !== undefined) return await follow(run, request, response);
  const { status, text: answer } = await orchestrator.getResult(runId ?? "");
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.end(`event: result\ndata: ${JSON.stringify({ runId, status, text: answer })}\n\n`);
}

async function follow(run: Run, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const header = request.headers["last-event-id"];
  const messages = toSse(run, { from: 1, lastEventId: header?.toString() });
  response.writeHead(200, {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
  });
  followers.set(run.runId, (followers.get(run.runId) ?? 0) + 1);
  try {
    await pipeline(messages, response);
  } finally {
    followers.set(run.runId, (followers.get(run.runId) ?? 1) - 1);
    setTimeout(() => {
      if (followers.get(run.runId) === 0) void run.cancel("Nobody follows it any more.");
    }, LEFT_AFTER_MS).unref();
  }
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    if (response.headersSent) return void response.destroy(); // the client comes back with Last-Event-ID
    const code = EspalierError.is(error) ? error.code : "failed";
    response.writeHead(code === "unknown_run" ? 404 : 400).end(code);
  });
});

await orchestrator.resumeLostRuns();
server.listen(Number(port), "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object") console.log(`Listening on http://127.0.0.1:${address?.port}`);
});

async function stop(): Promise<void> {
  server.close();
  const runs = orchestrator.activeRuns();
  await Promise.all(runs.map((run) => run.release({ graceMs: 2_000 })));
  await orchestrator.close();
  await store.close();
  server.closeAllConnections(); // clients reconnect to the next process
}
process.once("SIGTERM", () => void stop());
