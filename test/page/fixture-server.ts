// Serves the built page with made-up runs: every state of a run and every refusal, without a store.
// The headers equal those of the real server.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { readFile } from "node:fs/promises";
import { once } from "node:events";

import type {
  ActionRequest,
  FeedEntry,
  QuestionRow,
  RunPatch,
  RunSnapshot,
  ViewerMeta,
} from "../../src/read-model/viewer-data.ts";
import { askingRun, calmRun, failedRun, hostileRun, parkedRun } from "./fixture-runs.ts";
import { NOW_MS } from "./run-sketch.ts";
import { crowdRun } from "./crowd-run.ts";
import { detailOf, stepDetailOf } from "./fixture-steps.ts";

const TOKEN = "f".repeat(48);
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export interface FixtureOptions {
  /** Default 0: any free port. */
  readonly port?: number;
  readonly runs?: readonly RunSnapshot[];
  readonly meta?: Partial<ViewerMeta>;
  /** The folder of the page. Default `dist/viewer-page`. */
  readonly folder?: string;
  /** The refusal for each run id. */
  readonly refused?: Readonly<
    Record<string, { readonly status: number; readonly code: string; readonly message: string }>
  >;
  /** The response for each agent id, valid or not. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Notices of the lists of runs and questions. */
  readonly said?: { readonly isCut?: true; readonly forgotten?: number };
  /** Overrides the token that pages have. */
  readonly token?: string;
}

export interface FixtureServer {
  readonly origin: string;
  /** Returns the URL, token included. */
  urlOf(path: string): string;
  /** The actions that were requested of runs. */
  readonly actions: readonly ActionRequest[];
  /** The record numbers after which feeds were requested. */
  readonly feedsAfter: readonly number[];
  /** Sends a patch to all watchers of a run and stores it. */
  patch(runId: string, patch: Omit<RunPatch, "record">): void;
  send(runId: string, entry: FeedEntry): void;
  /** Replaces the snapshot without notifying watchers. */
  replace(runId: string, snapshot: RunSnapshot): void;
  /** The number of open feeds. */
  readonly watchers: number;
  close(): Promise<void>;
}

export function fixtureRuns(): readonly RunSnapshot[] {
  return [
    askingRun(),
    hostileRun(),
    hostileRun("failed"),
    parkedRun(),
    crowdRun(5_000),
    failedRun(),
    ...Array.from({ length: 9 }, (_none, at) => calmRun(at)),
  ];
}

export const REFUSED: NonNullable<FixtureOptions["refused"]> = {
  busy: { status: 503, code: "store_failed", message: "The store is locked by process 88." },
  newer: {
    status: 422,
    code: "unsupported_version",
    message: "Expected a journal of format version 1, got version 4.",
  },
  broken: {
    status: 422,
    code: "invalid_journal",
    message: "Record 417 is no record: Unexpected end of JSON input.",
  },
};

class Fixture implements FixtureServer {
  readonly actions: ActionRequest[] = [];
  readonly feedsAfter: number[] = [];
  origin = "";
  readonly #options: FixtureOptions;
  readonly #runs: Map<string, RunSnapshot>;
  readonly #feeds = new Map<ServerResponse, string>();
  readonly #server: Server;

  constructor(options: FixtureOptions) {
    this.#options = options;
    this.#runs = new Map((options.runs ?? fixtureRuns()).map((run) => [run.run.runId, run]));
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch(() => response.destroy());
    });
  }

  async listen(): Promise<void> {
    this.#server.listen(this.#options.port ?? 0, "127.0.0.1");
    await once(this.#server, "listening");
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    this.origin = `http://127.0.0.1:${address.port}`;
  }

  urlOf(path: string): string {
    return `${this.origin}${path}#token=${TOKEN}`;
  }

  patch(runId: string, change: Omit<RunPatch, "record">): void {
    const run = this.#runs.get(runId);
    if (run === undefined) throw new Error(`no run ${runId}`);
    const patch: RunPatch = { record: run.record + 1, ...change };
    const agents = [...run.agents];
    const spans = [...run.spans];
    for (const [index, row] of patch.agents) agents[index] = row;
    for (const [index, from, numbers] of patch.spans)
      spans[index] = [...(spans[index] ?? []).slice(0, from), ...numbers];
    this.#runs.set(runId, {
      ...run,
      record: patch.record,
      run: patch.run,
      agents,
      spans,
      questions: patch.questions ?? run.questions,
      causes: patch.causes ?? run.causes,
      refusals: [...run.refusals, ...(patch.refusals ?? [])],
    });
    this.send(runId, { type: "patch", patch });
  }

  send(runId: string, entry: FeedEntry): void {
    const record = this.#runs.get(runId)?.record ?? 0;
    for (const [response, watched] of this.#feeds) {
      if (watched !== runId) continue;
      response.write(`id: ${record}\ndata: ${JSON.stringify(entry)}\n\n`);
      if (entry.type !== "patch") response.end();
    }
  }

  replace(runId: string, snapshot: RunSnapshot): void {
    this.#runs.set(runId, snapshot);
  }

  get watchers(): number {
    return this.#feeds.size;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "/", this.origin);
    if (!pathname.startsWith("/api/v1/")) return this.#page(pathname, response);
    if (request.headers.authorization !== `Bearer ${this.#options.token ?? TOKEN}`)
      return refuse(response, {
        status: 401,
        code: "unauthorized",
        message: "Expected the token of the viewer, got another one.",
      });
    const [first, runId, ...rest] = pathname
      .slice(8)
      .split("/")
      .map((part) => decodeURIComponent(part));
    if (first === "meta") return json(response, this.#meta());
    if (first === "questions")
      return json(response, { questions: this.#questions(), ...this.#options.said });
    if (first === "runs" && runId === undefined)
      return json(response, {
        runs: this.#rows(searchParams.get("q") ?? ""),
        ...this.#options.said,
      });
    const refused = this.#options.refused?.[runId ?? ""];
    if (refused !== undefined) return refuse(response, refused);
    const run = this.#runs.get(runId ?? "");
    if (run === undefined)
      return refuse(response, {
        status: 404,
        code: "unknown_run",
        message: `Expected a run of the store, got "${runId}".`,
      });
    return this.#ofRun(run, rest, { request, response, searchParams });
  }

  async #ofRun(
    run: RunSnapshot,
    [what, agentId = "", , number]: readonly string[],
    {
      request,
      response,
      searchParams,
    }: {
      readonly request: IncomingMessage;
      readonly response: ServerResponse;
      readonly searchParams: URLSearchParams;
    },
  ): Promise<void> {
    const isShown = this.#meta().content !== false;
    switch (what) {
      case undefined:
        return json(response, run);
      case "interrupted":
        return json(response, { calls: [] });
      case "feed":
        return this.#feed(run, Number(searchParams.get("after")), response);
      case "log":
        return json(response, {
          entries: [
            { record: 3, event: { type: "agent.started", agentId: searchParams.get("agent") } },
            { record: 9, event: { type: "step.started", number: 1 } },
          ],
        });
      case "actions": {
        const action: unknown = JSON.parse(Buffer.concat(await request.toArray()).toString());
        if (!isAction(action)) return refuse(response, MALFORMED);
        this.actions.push(action);
        const answered = new Set(
          action.type === "answer" ? action.answers.map(({ questionId }) => questionId) : [],
        );
        const open = run.questions.filter(({ questionId }) => !answered.has(questionId));
        if (action.type === "answer" && open.length === run.questions.length)
          return refuse(response, {
            status: 409,
            code: "invalid_answer",
            message: "Expected an open question, got one that was answered by viewer.",
          });
        json(response, { hasOwner: true, open }, 202);
        return this.patch(run.run.runId, { run: run.run, agents: [], spans: [], questions: open });
      }
      default: {
        if (number !== undefined && !isShown)
          return refuse(response, {
            status: 403,
            code: "content_off",
            message: "Content is not sent.",
          });
        const given = this.#options.details?.[agentId];
        if (given !== undefined) return json(response, given);
        const found =
          number === undefined
            ? detailOf(run, agentId, isShown)
            : stepDetailOf(run, agentId, Number(number));
        return found === undefined
          ? refuse(response, {
              status: 404,
              code: number === undefined ? "unknown_agent" : "unknown_step",
              message: "There is none.",
            })
          : json(response, found);
      }
    }
  }

  #feed(run: RunSnapshot, after: number, response: ServerResponse): void {
    this.feedsAfter.push(after);
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    response.flushHeaders();
    this.#feeds.set(response, run.run.runId);
    response.on("close", () => this.#feeds.delete(response));
    if (after < run.record) this.#whole(run, response);
    if (run.run.endedAtMs !== undefined)
      response.end(`id: ${run.record}\ndata: {"type":"end"}\n\n`);
  }

  /** Returns the whole run as a patch: at least everything that is new. */
  #whole(
    { record, run, agents, spans, questions, causes }: RunSnapshot,
    response: ServerResponse,
  ): void {
    const patch: RunPatch = {
      record,
      run,
      agents: agents.map((row, at) => [at, row]),
      spans: spans.map((numbers, at) => [at, 0, numbers]),
      questions,
      causes,
    };
    response.write(
      `id: ${record}\ndata: ${JSON.stringify({ type: "patch", patch } satisfies FeedEntry)}\n\n`,
    );
  }

  #meta(): ViewerMeta {
    return {
      version: "0.1.0",
      content: true,
      actions: ["answer", "cancel", "pause", "resume"],
      store: "runs.db",
      nowMs: NOW_MS,
      ...this.#options.meta,
    };
  }

  #questions(): readonly QuestionRow[] {
    return [...this.#runs.values()].flatMap(({ questions }) => questions);
  }

  #rows(q: string) {
    return [...this.#runs.values()]
      .filter(({ run }) => `${run.runId} ${run.title}`.includes(q))
      .map(({ run, questions }) => ({ ...run, questions }));
  }

  async #page(path: string, response: ServerResponse): Promise<void> {
    const file = path === "/viewer.js" || path === "/viewer.css" ? path.slice(1) : "index.html";
    const type = { "viewer.js": "text/javascript", "viewer.css": "text/css" }[file] ?? "text/html";
    const bytes = await readFile(`${this.#options.folder ?? "dist/viewer-page"}/${file}`, "utf8");
    response.writeHead(200, {
      "content-type": `${type}; charset=utf-8`,
      "content-security-policy": CSP,
      "cache-control": "no-store",
      "referrer-policy": "no-referrer",
    });
    response.end(file === "index.html" ? bytes.replaceAll('"./viewer', '"/viewer') : bytes);
  }
}

export async function startFixture(options: FixtureOptions = {}): Promise<FixtureServer> {
  const fixture = new Fixture(options);
  await fixture.listen();
  return fixture;
}

const MALFORMED = { status: 400, code: "invalid_request", message: "Expected an action." };

function isAction(value: unknown): value is ActionRequest {
  return typeof value === "object" && value !== null && "key" in value && "type" in value;
}

function json(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(JSON.stringify(value));
}

function refuse(
  response: ServerResponse,
  {
    status,
    ...error
  }: { readonly status: number; readonly code: string; readonly message: string },
): void {
  json(response, error, status);
}
