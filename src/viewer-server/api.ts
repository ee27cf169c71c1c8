// Routes of the viewer's API: from a path and a method to a reply.

import type { IncomingMessage, ServerResponse } from "node:http";

import { EspalierError } from "../kernel/error.ts";
import { omitUndefined } from "../kernel/json.ts";
import type { RunId } from "../protocol/ids.ts";
import { checkRunId } from "../orchestrator/run/run-options.ts";
import { openToolCalls } from "../read-model/agent-row.ts";
import type { ViewerMeta } from "../read-model/viewer-data.ts";
import { readJsonBody, type RequestAuth } from "./request-auth.ts";
import type { ReaderDependencies, RunFoldCache } from "./run-fold-cache.ts";
import { readLogPage, type LogQuery, buildRunSnapshot } from "./run-rows.ts";
import { createProblemReply } from "./problem-reply.ts";
import { RefusedRequest, sendJson } from "./http-reply.ts";
import type { RunActions } from "./run-actions.ts";
import { RunFeed } from "./run-feed.ts";
import type { RunList } from "./run-list.ts";
import { readAgentDetail, readStepDetail } from "./step-detail.ts";

/** Dependencies of the routes. */
export interface ApiParts extends ReaderDependencies {
  readonly runs: RunFoldCache;
  readonly list: RunList;
  readonly actions: RunActions;
  readonly meta: () => ViewerMeta;
}

interface Call {
  readonly gate: RequestAuth;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
}

const MAX_FEEDS = 64;

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
      throw new RefusedRequest("not_allowed", "Only GET and POST are supported. Use one of them.");
    await gate.checkCaller(request);
    if (isPost) gate.checkOrigin(request);
    try {
      const [first, runId, ...rest] = path;
      const answer =
        first === "runs" && runId !== undefined
          ? await this.#answerAboutRun(parseRunId(runId), rest, call)
          : await this.#answerAboutAll(path, call);
      if (answer !== undefined) await sendJson(request, response, isPost ? 202 : 200, answer);
    } catch (cause) {
      throw EspalierError.is(cause) ? createProblemReply(cause, this.#parts.content) : cause;
    }
  }

  /** Ends all feeds. */
  close(): void {
    for (const feed of this.#feeds) feed.end();
  }

  async #answerAboutAll([first, ...rest]: readonly string[], call: Call): Promise<unknown> {
    if (call.request.method !== "GET" || rest.length > 0) throw createNotFoundError();
    const { meta, list } = this.#parts;
    switch (first) {
      case "meta":
        return meta();
      case "runs":
        return await list.listRows({
          status: call.query.get("status") ?? undefined,
          q: call.query.get("q") ?? undefined,
          before: parseOptionalRunId(call.query.get("before")),
          limit: readQueryNumber(call.query, "limit"),
        });
      case "questions":
        return await list.listQuestions();
      default:
        throw createNotFoundError();
    }
  }

  async #answerAboutRun(runId: RunId, path: readonly string[], call: Call): Promise<unknown> {
    const { runs, clock, actions } = this.#parts;
    const [first, agentId, ...rest] = path;
    if (call.request.method === "POST") {
      if (first !== "actions" || agentId !== undefined) throw createNotFoundError();
      return await actions.take(runId, await readJsonBody(call.request));
    }
    if (first === undefined) return buildRunSnapshot(await runs.look(runId), clock.nowMs());
    if (first === "agents" && agentId !== undefined)
      return await this.#answerAboutAgent(runId, [agentId, ...rest], call.query);
    if (agentId !== undefined) throw createNotFoundError();
    if (first === "interrupted") return { calls: openToolCalls((await runs.look(runId)).fold) };
    if (first === "feed") return await this.#sendFeed(runId, call);
    if (first === "log")
      return await readLogPage(await runs.look(runId), parseLogQuery(call.query));
    throw createNotFoundError();
  }

  async #answerAboutAgent(
    runId: RunId,
    [agentId = "", ...rest]: readonly string[],
    query: URLSearchParams,
  ): Promise<unknown> {
    const run = await this.#parts.runs.look(runId);
    const agent = run.fold.agents.find((other) => other.agentId === agentId);
    if (agent === undefined)
      throw new RefusedRequest("unknown_agent", "The run has no agent of this id. Check the id.");
    if (rest.length === 0) return await readAgentDetail(run, agent);
    const [steps, number = ""] = rest;
    if (steps !== "steps" || rest.length !== 2) throw createNotFoundError();
    const execution = readQueryNumber(query, "execution");
    return await readStepDetail(run, {
      agent,
      number: parseWholeNumber("a step", number),
      execution,
    });
  }

  /** Sends the changes of a run until the reader disconnects. */
  async #sendFeed(runId: RunId, { request, response, query }: Call): Promise<undefined> {
    const { runs, clock } = this.#parts;
    const last = request.headers["last-event-id"]?.toString();
    const after =
      last === undefined
        ? (readQueryNumber(query, "after") ?? 0)
        : parseWholeNumber("Last-Event-ID", last);
    const run = await runs.look(runId);
    if (this.#feeds.size >= MAX_FEEDS || !runs.canWatch(run))
      throw new RefusedRequest("too_many_feeds", "Too many feeds are open. Close some.");
    const feed = new RunFeed(run, response, { after, clock });
    this.#feeds.add(feed);
    await feed.send().finally(() => this.#feeds.delete(feed));
    return undefined;
  }
}

function parseOptionalRunId(text: string | null): RunId | undefined {
  return text === null || text === "" ? undefined : parseRunId(text);
}

/** Returns the run id. Throws 404 for an invalid id. */
function parseRunId(text: string): RunId {
  try {
    checkRunId("run", text);
    return text;
  } catch {
    throw new RefusedRequest(
      "unknown_run",
      "Expected the id of a run, got an invalid id. Check the id.",
    );
  }
}

function parseLogQuery(query: URLSearchParams): LogQuery {
  return {
    after: readQueryNumber(query, "after") ?? 0,
    ...omitUndefined({
      agentId: query.get("agent") ?? undefined,
      type: query.get("type") ?? undefined,
      limit: readQueryNumber(query, "limit"),
    }),
  };
}

function createNotFoundError() {
  return new RefusedRequest("not_found", "The API has no such route. Check the path.");
}

function readQueryNumber(query: URLSearchParams, name: string): number | undefined {
  const value = query.get(name);
  return value === null || value === "" ? undefined : parseWholeNumber(name, value);
}

function parseWholeNumber(name: string, text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new RefusedRequest(
    "invalid_request",
    `Expected ${name} to be a whole number, got another value. Correct the query.`,
  );
}
