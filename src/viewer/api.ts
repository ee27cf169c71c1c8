// Routes of the viewer's API: from a path and a method to a reply.

import type { IncomingMessage, ServerResponse } from "node:http";

import { EspalierError } from "../kernel/error.ts";
import { defined } from "../kernel/json.ts";
import type { RunId } from "../protocol/ids.ts";
import { checkRunId } from "../orchestrator/run/start-options.ts";
import { openToolCalls } from "../view/agent-row.ts";
import type { ViewerMeta } from "../view/viewer-data.ts";
import { jsonIn, type Gate } from "./gate.ts";
import type { ReadingMeans, HeldRuns } from "./held-run.ts";
import { logOf, type LogQuery, runSnapshotOf } from "./run-rows.ts";
import { problemIn } from "./problems.ts";
import { refusedRequest, sendJson } from "./reply.ts";
import type { RunActions } from "./run-actions.ts";
import { RunFeed } from "./run-feed.ts";
import type { RunList } from "./run-list.ts";
import { agentDetailOf, stepDetail } from "./step-detail.ts";

/** Dependencies of the routes. */
export interface ApiParts extends ReadingMeans {
  readonly runs: HeldRuns;
  readonly list: RunList;
  readonly actions: RunActions;
  readonly meta: () => ViewerMeta;
}

interface Call {
  readonly gate: Gate;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
}

const MOST_FEEDS = 64;

export class Api {
  readonly #parts: ApiParts;
  readonly #feeds = new Set<RunFeed>();

  constructor(parts: ApiParts) {
    this.#parts = parts;
  }

  /** Answers a request by its path below `/api/v1`. Rejects with the reason of a refusal. */
  async answer(path: readonly string[], call: Call): Promise<void> {
    const { gate, request, response } = call;
    const isPost = request.method === "POST";
    if (!isPost && request.method !== "GET")
      throw refusedRequest(405, "not_allowed", "Only GET and POST are supported. Use one of them.");
    await gate.checkCaller(request);
    if (isPost) gate.checkOrigin(request);
    try {
      const [first, runId, ...rest] = path;
      const answer =
        first === "runs" && runId !== undefined
          ? await this.#ofRun(runIdIn(runId), rest, call)
          : await this.#ofAll(path, call);
      if (answer !== undefined) await sendJson(request, response, isPost ? 202 : 200, answer);
    } catch (cause) {
      throw EspalierError.is(cause) ? problemIn(cause, this.#parts.content) : cause;
    }
  }

  /** Ends all feeds. */
  close(): void {
    for (const feed of this.#feeds) feed.end();
  }

  async #ofAll([first, ...rest]: readonly string[], call: Call): Promise<unknown> {
    if (call.request.method !== "GET" || rest.length > 0) throw notFound();
    const { meta, list } = this.#parts;
    switch (first) {
      case "meta":
        return meta();
      case "runs":
        return await list.rows({
          status: call.query.get("status") ?? undefined,
          q: call.query.get("q") ?? undefined,
          before: runIdOrNone(call.query.get("before")),
          limit: readQueryNumber(call.query, "limit"),
        });
      case "questions":
        return await list.questions();
      default:
        throw notFound();
    }
  }

  async #ofRun(runId: RunId, path: readonly string[], call: Call): Promise<unknown> {
    const { runs, clock, actions } = this.#parts;
    const [first, agentId, ...rest] = path;
    if (call.request.method === "POST") {
      if (first !== "actions" || agentId !== undefined) throw notFound();
      return await actions.take(runId, await jsonIn(call.request));
    }
    if (first === undefined) return runSnapshotOf(await runs.look(runId), clock.nowMs());
    if (first === "agents" && agentId !== undefined)
      return await this.#ofAgent(runId, [agentId, ...rest], call.query);
    if (agentId !== undefined) throw notFound();
    if (first === "interrupted") return { calls: openToolCalls((await runs.look(runId)).fold) };
    if (first === "feed") return await this.#feed(runId, call);
    if (first === "log") return await logOf(await runs.look(runId), logQueryIn(call.query));
    throw notFound();
  }

  async #ofAgent(
    runId: RunId,
    [agentId = "", ...rest]: readonly string[],
    query: URLSearchParams,
  ): Promise<unknown> {
    const run = await this.#parts.runs.look(runId);
    const agent = run.fold.agents.find((one) => one.agentId === agentId);
    if (agent === undefined)
      throw refusedRequest(404, "unknown_agent", "The run has no agent of this id. Check the id.");
    if (rest.length === 0) return await agentDetailOf(run, agent);
    const [steps, number = ""] = rest;
    if (steps !== "steps" || rest.length !== 2) throw notFound();
    const execution = readQueryNumber(query, "execution");
    return await stepDetail(run, { agent, number: wholeNumber("a step", number), execution });
  }

  /** Sends the changes of a run until the reader disconnects. */
  async #feed(runId: RunId, { request, response, query }: Call): Promise<undefined> {
    const { runs, clock } = this.#parts;
    const last = request.headers["last-event-id"]?.toString();
    const after =
      last === undefined
        ? (readQueryNumber(query, "after") ?? 0)
        : wholeNumber("Last-Event-ID", last);
    const run = await runs.look(runId);
    if (this.#feeds.size >= MOST_FEEDS || !runs.canWatch(run))
      throw refusedRequest(503, "too_many_feeds", "Too many feeds are open. Close some.");
    const feed = new RunFeed(run, response, { after, clock });
    this.#feeds.add(feed);
    await feed.send().finally(() => this.#feeds.delete(feed));
    return undefined;
  }
}

function runIdOrNone(text: string | null): RunId | undefined {
  return text === null || text === "" ? undefined : runIdIn(text);
}

/** Returns the run id. Throws 404 for an invalid id. */
function runIdIn(text: string): RunId {
  try {
    checkRunId("run", text);
    return text;
  } catch {
    throw refusedRequest(
      404,
      "unknown_run",
      "Expected the id of a run, got an invalid id. Check the id.",
    );
  }
}

function logQueryIn(query: URLSearchParams): LogQuery {
  return {
    after: readQueryNumber(query, "after") ?? 0,
    ...defined({
      agentId: query.get("agent") ?? undefined,
      type: query.get("type") ?? undefined,
      limit: readQueryNumber(query, "limit"),
    }),
  };
}

function notFound() {
  return refusedRequest(404, "not_found", "The API has no such route. Check the path.");
}

function readQueryNumber(query: URLSearchParams, name: string): number | undefined {
  const given = query.get(name);
  return given === null || given === "" ? undefined : wholeNumber(name, given);
}

function wholeNumber(name: string, text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw refusedRequest(
    400,
    "invalid_request",
    `Expected ${name} to be a whole number, got another value. Correct the query.`,
  );
}
