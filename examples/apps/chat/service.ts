// A chat for several people: streamed answers, a token limit per person, and runs that continue after
// a crash.
//
//   USERS=ann:secret,bob:secret node service.ts --file chat.db --port 8080

import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { parseArgs } from "node:util";

import { defineAgent, openai, Orchestrator, toSse, type Run, type Session } from "espalier";
import { sqliteStore } from "espalier/store/sqlite";
import { z } from "zod";

const { values } = parseArgs({
  options: {
    file: { type: "string", default: "chat.db" },
    port: { type: "string", default: "8080" },
    model: { type: "string", default: "gpt-5-mini" },
    allowance: { type: "string", default: "100000" }, // tokens a day, for each person
  },
});
const allowance = z.coerce.number().int().positive().parse(values.allowance);
const page = readFileSync(join(import.meta.dirname, "page.html"), "utf8");

/** Who may come in, by what a browser sends of a name and its password. */
const users = new Map<string, string>(
  (process.env["USERS"] ?? "").split(",").map((pair) => {
    if (!/^\w+:./.test(pair)) throw new Error("Expected USERS=name:password,name:password");
    const [user = ""] = pair.split(":");
    return [`Basic ${Buffer.from(pair).toString("base64")}`, user];
  }),
);

const Person = z.object({ user: z.string() });
const partner = defineAgent({
  name: "partner",
  instructions: ({ user }: z.infer<typeof Person>) => `You talk with ${user}. Answer in short.`,
  model: openai(values.model),
  maxOutputTokens: 4_000,
});
const orchestrator = new Orchestrator({
  roles: [partner],
  store: sqliteStore(values.file),
  onStreamPart: () => undefined, // an answer streams from its first word on, before its page comes to listen
});

/** A conversation lasts a day: what it has used counts against the allowance, also after a restart. */
const conversationOf = (user: string): Promise<Session> =>
  orchestrator.openSession(`${user} ${new Date().toISOString().slice(0, 10)}`);

/** What is being answered for this person, since a restart, too; one answer at a time. */
const runOf = (user: string): Run | undefined =>
  orchestrator.activeRuns().find(({ sessionId }) => sessionId?.startsWith(`${user} `));
const beginning = new Set<string>();

function reportProblems(run: Run): void {
  const report = (problem: unknown): void => console.error(`${run.runId}:`, problem);
  run.result.then(
    ({ errors, session }) => [...errors, session?.error].filter(Boolean).forEach(report),
    report,
  );
}

const Said = z.object({ text: z.string().trim().min(1).max(10_000) });

async function say(user: string, request: IncomingMessage, response: ServerResponse) {
  // Forms of other sites cannot send this type.
  if (request.headers["content-type"] !== "application/json") return end(response, 415, "No JSON.");
  const length = Number(request.headers["content-length"] ?? Infinity);
  if (length > 50_000) return end(response, 413, "Too long.");
  if (beginning.has(user) || runOf(user)) return end(response, 409, "One question at a time.");
  beginning.add(user);
  try {
    const { text } = Said.parse(await json(request));
    const session = await conversationOf(user);
    const totalTokens = allowance - session.usage.totalTokens;
    if (totalTokens <= 0) return end(response, 429, "Your allowance for today is spent.");
    const run = orchestrator.start(partner, text, {
      session,
      budget: { totalTokens, timeMs: 120_000 },
      context: { user }, // what code is given
      metadata: { user }, // what is kept, from which the context is made again
    });
    reportProblems(run);
    await run.whenPersisted(); // what is accepted is not lost
    end(response, 202);
  } finally {
    beginning.delete(user);
  }
}

async function follow(user: string, request: IncomingMessage, response: ServerResponse) {
  const run = runOf(user);
  if (run === undefined) return end(response, 204); // the browser does not come back
  const lastEventId = request.headers["last-event-id"]?.toString();
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  await pipeline(toSse(run, { from: 1, lastEventId }), response);
}

const POLICY =
  "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'";

function end(response: ServerResponse, status: number, text = "", type = "text/plain"): void {
  const headers = { "content-type": `${type}; charset=utf-8`, "content-security-policy": POLICY };
  response.writeHead(status, headers).end(text);
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const user = users.get(request.headers.authorization ?? "");
  if (user === undefined) {
    response.setHeader("www-authenticate", 'Basic realm="chat", charset="UTF-8"');
    return end(response, 401, "Who are you?");
  }
  const asked = `${request.method} ${request.url}`;
  if (asked === "GET /") return end(response, 200, page, "text/html");
  if (asked === "POST /messages") return await say(user, request, response);
  if (asked === "GET /stream") return await follow(user, request, response);
  if (asked !== "GET /messages") return end(response, 404, "Page not found.");
  end(response, 200, JSON.stringify(await saidTo(user)), "application/json");
}

/** Out of the runs: the session has what the model will read, and no more. */
async function saidTo(user: string): Promise<readonly object[]> {
  const { executions } = await conversationOf(user);
  const ended = executions.filter(({ runId }) => orchestrator.findActiveRun(runId) === undefined);
  const turns = await Promise.all(ended.map(({ runId }) => orchestrator.getResult(runId)));
  return turns.flatMap(({ newMessages }) => newMessages.map(({ role, text }) => ({ role, text })));
}

const { runs, failed } = await orchestrator.resumeLostRuns({
  context: ({ metadata }) => Person.parse(metadata),
});
for (const run of runs) reportProblems(run);
for (const { runId, error } of failed) console.error(`${runId} is not recovered:`, error);

const server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    if (response.headersSent) return void response.destroy(); // the browser comes back
    const isTheirs = error instanceof z.ZodError || error instanceof SyntaxError;
    end(response, isTheirs ? 400 : 500, "That cannot be answered.");
    if (!isTheirs) console.error(error);
  });
});
server.listen(Number(values.port), "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object") console.log(`Listening on http://127.0.0.1:${address?.port}`);
});
