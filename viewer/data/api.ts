// What is asked of the server, route by route.

import type {
  ActionRequest,
  ActionTaken,
  AgentDetail,
  FeedEntry,
  LogEntry,
  OpenToolCall,
  QuestionRow,
  RunRow,
  RunSnapshot,
  StepDetail,
  ViewerMeta,
} from "../../src/view/viewer-data.ts";
import { authorization } from "./token.ts";

/** The server did not answer, or would not. `code` is the server's; `unreachable`: nothing came. */
export class Problem extends Error {
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string, status: number) {
    super(message);
    this.name = "Problem";
    this.code = code;
    this.status = status;
  }
}

/** Where the server serves the page, with a slash at its end: the script stands beside it. */
export const BASE = new URL(import.meta.url).pathname.replace(/[^/]*$/, "");

export interface RunList {
  readonly runs: readonly RunRow[];
  /** What `before` is for what comes after these. */
  readonly next?: string | undefined;
  /** True: more runs are active, or rest, than are listed. */
  readonly isCut?: true | undefined;
  /** How many runs that had ended the server has forgotten, to make room. */
  readonly forgotten?: number | undefined;
}

export interface Inbox {
  readonly questions: readonly QuestionRow[];
  /** True: more runs are active, or rest, than were looked at. */
  readonly isCut?: true | undefined;
}

export interface LogPage {
  readonly entries: readonly LogEntry[];
  readonly next?: number | undefined;
}

export interface RunFilter {
  readonly q?: string | undefined;
  readonly before?: string | undefined;
}

/** What each route answers with. */
interface Answers {
  readonly meta: ViewerMeta;
  readonly runs: RunList;
  readonly questions: Inbox;
  readonly run: RunSnapshot;
  readonly agent: AgentDetail;
  readonly step: StepDetail;
  readonly log: LogPage;
  readonly interrupted: { readonly calls: readonly OpenToolCall[] };
  readonly actions: ActionTaken;
  /** One entry of it. */
  readonly feed: FeedEntry;
}

export const api = {
  meta: (signal: AbortSignal) => get("meta", "meta", signal),
  runs: (filter: RunFilter, signal: AbortSignal) =>
    get("runs", `runs${query({ limit: "200", ...filter })}`, signal),
  questions: (signal: AbortSignal) => get("questions", "questions", signal),
  run: (runId: string, signal: AbortSignal) => get("run", runPath(runId), signal),
  agent: (runId: string, agentId: string, signal: AbortSignal) =>
    get("agent", agentPath(runId, agentId), signal),
  step: ({ runId, agentId, step, execution }: StepPlace, signal: AbortSignal) =>
    get("step", `${agentPath(runId, agentId)}/steps/${step}${query({ execution })}`, signal),
  log: (
    runId: string,
    filter: { readonly agent: string; readonly after: string },
    signal: AbortSignal,
  ) => get("log", `${runPath(runId)}/log${query(filter)}`, signal),
  /** The calls of tools that a run was cut off in. */
  interrupted: (runId: string) =>
    get("interrupted", `${runPath(runId)}/interrupted`, new AbortController().signal),
  /** The feed of a run, as it comes. */
  feed: (runId: string, after: number, signal: AbortSignal) =>
    send(`${runPath(runId)}/feed?after=${after}`, { signal }),
  act: async (runId: string, request: ActionRequest): Promise<ActionTaken> => {
    const init = { method: "POST", body: JSON.stringify(request) };
    return read("actions", await send(`${runPath(runId)}/actions`, init));
  },
};

export interface StepPlace {
  readonly runId: string;
  readonly agentId: string;
  readonly step: number;
  /** Left out: the last. */
  readonly execution?: string | undefined;
}

function runPath(runId: string): string {
  return `runs/${encodeURIComponent(runId)}`;
}

function agentPath(runId: string, agentId: string): string {
  return `${runPath(runId)}/agents/${encodeURIComponent(agentId)}`;
}

function query(filter: Readonly<Record<string, string | undefined>>): string {
  const set = Object.entries(filter).filter(([, value]) => value !== undefined && value !== "");
  return set.length === 0
    ? ""
    : `?${new URLSearchParams(set.map(([name, value = ""]) => [name, value]))}`;
}

async function get<Route extends keyof Answers>(
  route: Route,
  path: string,
  signal: AbortSignal,
): Promise<Answers[Route]> {
  return read(route, await send(path, { signal }));
}

const JSON_BODY = { "content-type": "application/json" };

/** @throws Problem unless the server took the request. */
async function send(path: string, init: RequestInit): Promise<Response> {
  const response = await fetch(`${BASE}api/v1/${path}`, {
    ...init,
    headers: { ...authorization(), ...(init.body === undefined ? {} : JSON_BODY) },
  }).catch((error: unknown) => {
    if (init.signal?.aborted === true) throw error;
    throw new Problem("unreachable", "The server does not answer.", 0);
  });
  if (response.ok) return response;
  const said: unknown = await response.json().catch(() => undefined);
  throw isSaid(said)
    ? new Problem(said.code, said.message, response.status)
    : new Problem("unknown", `The server answered ${response.status}.`, response.status);
}

async function read<Route extends keyof Answers>(
  route: Route,
  response: Response,
): Promise<Answers[Route]> {
  const answer: unknown = await response.json().catch(() => undefined);
  if (isAnswer(route, answer)) return answer;
  throw new Problem("unreachable", "The answer of the server broke off.", 0);
}

/** Page and server are of one release: what comes of a route has its type. */
export function isAnswer<Route extends keyof Answers>(
  _route: Route,
  value: unknown,
): value is Answers[Route] {
  return typeof value === "object" && value !== null;
}

function isSaid(value: unknown): value is { readonly code: string; readonly message: string } {
  return (
    typeof value === "object" &&
    value !== null &&
    "code" in value &&
    typeof value.code === "string" &&
    "message" in value &&
    typeof value.message === "string"
  );
}

/** What went wrong, as a problem: a fault of the page has the code `page_fault`. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem("page_fault", error instanceof Error ? error.message : String(error), 0);
}
