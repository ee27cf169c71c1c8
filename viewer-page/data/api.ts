import type {
  ActionRequest,
  ActionResult,
  AgentDetail,
  Inbox,
  LogPage,
  OpenToolCall,
  RunPage,
  RunSnapshot,
  StepDetail,
  ViewerMeta,
} from "../../src/read-model/viewer-data.ts";
import { createAuthHeaders } from "./token.ts";

/**
 * A request that failed or was refused. `code` comes from the server, or is `unreachable` without a
 * response.
 */
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

/** Base path of the server, with a slash at its end. The script is in that folder. */
export const BASE = new URL(import.meta.url).pathname.replace(/[^/]*$/, "");

interface InterruptedCalls {
  readonly calls: readonly OpenToolCall[];
}

export interface RunSearch {
  readonly q?: string | undefined;
  readonly before?: string | undefined;
}

export const api = {
  meta: (signal: AbortSignal) => get<ViewerMeta>("meta", signal),
  runs: (filter: RunSearch, signal: AbortSignal) =>
    get<RunPage>(`runs${query({ limit: "200", ...filter })}`, signal),
  questions: (signal: AbortSignal) => get<Inbox>("questions", signal),
  run: (runId: string, signal: AbortSignal) => get<RunSnapshot>(formatRunPath(runId), signal),
  agent: (runId: string, agentId: string, signal: AbortSignal) =>
    get<AgentDetail>(formatAgentPath(runId, agentId), signal),
  step: ({ runId, agentId, step, execution }: StepAddress, signal: AbortSignal) =>
    get<StepDetail>(
      `${formatAgentPath(runId, agentId)}/steps/${step}${query({ execution })}`,
      signal,
    ),
  log: (
    runId: string,
    filter: { readonly agent: string; readonly after: string },
    signal: AbortSignal,
  ) => get<LogPage>(`${formatRunPath(runId)}/log${query(filter)}`, signal),
  interrupted: (runId: string) =>
    get<InterruptedCalls>(`${formatRunPath(runId)}/interrupted`, new AbortController().signal),
  feed: (runId: string, after: number, signal: AbortSignal) =>
    send(`${formatRunPath(runId)}/feed?after=${after}`, { signal }),
  act: async (runId: string, request: ActionRequest): Promise<ActionResult> => {
    const init = { method: "POST", body: JSON.stringify(request) };
    return read(await send(`${formatRunPath(runId)}/actions`, init));
  },
};

export interface StepAddress {
  readonly runId: string;
  readonly agentId: string;
  readonly step: number;
  readonly execution?: string | undefined;
}

function formatRunPath(runId: string): string {
  return `runs/${encodeURIComponent(runId)}`;
}

function formatAgentPath(runId: string, agentId: string): string {
  return `${formatRunPath(runId)}/agents/${encodeURIComponent(agentId)}`;
}

function query(filter: Readonly<Record<string, string | undefined>>): string {
  const set = Object.entries(filter).filter(([, value]) => value !== undefined && value !== "");
  return set.length === 0
    ? ""
    : `?${new URLSearchParams(set.map(([name, value = ""]) => [name, value]))}`;
}

async function get<Answer>(path: string, signal: AbortSignal): Promise<Answer> {
  return read(await send(path, { signal }));
}

const JSON_BODY = { "content-type": "application/json" };

/**
 * Sends a request.
 *
 * @throws Problem unless the server accepts the request.
 */
async function send(path: string, init: RequestInit): Promise<Response> {
  const response = await fetch(`${BASE}api/v1/${path}`, {
    ...init,
    headers: { ...createAuthHeaders(), ...(init.body === undefined ? {} : JSON_BODY) },
  }).catch((error: unknown) => {
    if (init.signal?.aborted === true) throw error;
    throw new Problem("unreachable", "The server does not answer.", 0);
  });
  if (response.ok) return response;
  const body: unknown = await response.json().catch(() => undefined);
  throw isErrorBody(body)
    ? new Problem(body.code, body.message, response.status)
    : new Problem("unknown", `The server answered ${response.status}.`, response.status);
}

async function read<Answer>(response: Response): Promise<Answer> {
  const answer: unknown = await response.json().catch(() => undefined);
  if (isAnswer<Answer>(answer)) return answer;
  throw new Problem("unreachable", "The response of the server was interrupted.", 0);
}

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- page and server are of one release
export function isAnswer<Answer>(value: unknown): value is Answer {
  return typeof value === "object" && value !== null;
}

function isErrorBody(value: unknown): value is { readonly code: string; readonly message: string } {
  return (
    typeof value === "object" &&
    value !== null &&
    "code" in value &&
    typeof value.code === "string" &&
    "message" in value &&
    typeof value.message === "string"
  );
}

/** Converts an error to a problem. An error of the page has the code `page_fault`. */
export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem("page_fault", error instanceof Error ? error.message : String(error), 0);
}

/** Returns an idempotency key. A request that is sent again with the same key is performed once. */
export function createKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
