// sendRequest: one request to the server that was named, and to no other. Redirects are followed by us alone, so that neither the key
// nor the prompt reaches another origin, whatever sends the requests.

import { invoke, type CancelSignal } from "../../kernel/cancel.ts";
import { redirectError, unreachedError } from "./openai-errors.ts";
import { requestTarget, type RequestTarget } from "./request-target.ts";
import {
  checkStatus,
  fetchedResponse,
  headersOf,
  isSuccess,
  openingOf,
  type WireResponse,
} from "./wire-response.ts";

const MOST_REDIRECTS = 5;
/** The others may turn a request into one without a body. */
const FOLLOWED: ReadonlySet<number> = new Set([307, 308]);
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, ...FOLLOWED]);

/** What is the same in all requests to one address for a reply of one kind. */
export interface RequestHead {
  readonly target: RequestTarget;
  /** Names and values in turn. */
  readonly headers: readonly string[];
}

/** Sends one request by POST, and follows nothing. Fails soon after the signal was aborted, with its reason. */
export type Send = (head: RequestHead, body: Buffer, signal: CancelSignal) => Promise<WireResponse>;

export interface ServerAnswer {
  readonly response: WireResponse;
  /** The beginning of the body of one that is no success. */
  readonly opening: string | undefined;
}

/**
 * The answer of the server at `head.target`.
 *
 * @throws ModelError if there is none; `model_refused_request` for a redirect to another origin, one that changes the request, or the
 * sixth.
 */
export function sendRequest(
  send: Send,
  head: RequestHead,
  body: Buffer,
  signal: CancelSignal,
): Promise<ServerAnswer> {
  return answerTo({ send, body, signal }, head, 0);
}

interface Sending {
  readonly send: Send;
  readonly body: Buffer;
  readonly signal: CancelSignal;
}

function answerTo(sent: Sending, head: RequestHead, redirects: number): Promise<ServerAnswer> {
  const { send, body, signal } = sent;
  const sending = invoke(() => {
    if (signal.aborted) throw signal.reason;
    return send(head, body, signal);
  });
  // Not awaited here: what an async function holds while it waits is held by every call that waits.
  return sending.then(
    async (response) => {
      if (isSuccess(response)) return { response, opening: undefined };
      const opening = await openingOf(response);
      const target = redirection(response, head.target, redirects);
      if (target === undefined) return { response, opening };
      return await answerTo(sent, { ...head, target }, redirects + 1);
    },
    (thrown: unknown) => {
      throw unreachedError(thrown);
    },
  );
}

/** Where a response sends the request; undefined: nowhere. Throws for what is not followed. */
function redirection(
  response: WireResponse,
  at: RequestTarget,
  redirects: number,
): RequestTarget | undefined {
  const { status } = response;
  const location = response.header("location");
  if (location === null || !REDIRECTS.has(status)) return undefined;
  const to = URL.canParse(location, at.href)
    ? requestTarget(new URL(location, at.href))
    : undefined;
  if (to?.origin === at.origin && FOLLOWED.has(status) && redirects < MOST_REDIRECTS) return to;
  throw redirectError(status, at.origin, to?.origin);
}

/** Sends requests by a `fetch` of the user's. */
export function sendBy(fetch: typeof globalThis.fetch): Send {
  return async ({ target, headers }, body, { abortSignal: signal }) => {
    const response = await fetch(target.href, {
      method: "POST",
      headers: headersOf(headers),
      body: body.toString(),
      signal,
      redirect: "manual",
    });
    checkStatus(response.status); // `Response.error()` has none.
    return fetchedResponse(response);
  };
}
