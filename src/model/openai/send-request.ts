// sendRequest: one request to the server that was named, and to no other. Redirects are followed by us alone, so that neither the key
// nor the prompt reaches another origin, whatever sends the requests.

import type { CancelSignal } from "../../kernel/cancel.ts";
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
export async function sendRequest(
  send: Send,
  { target, headers }: RequestHead,
  body: Buffer,
  signal: CancelSignal,
): Promise<ServerAnswer> {
  let at = target;
  for (let redirects = 0; ; redirects += 1) {
    let response: WireResponse;
    try {
      if (signal.aborted) throw signal.reason;
      response = await send({ target: at, headers }, body, signal);
    } catch (thrown) {
      throw unreachedError(thrown);
    }
    if (isSuccess(response)) return { response, opening: undefined };
    const opening = await openingOf(response);
    const { status } = response;
    const location = response.header("location");
    if (location === null || !REDIRECTS.has(status)) return { response, opening };
    const to = URL.canParse(location, at.href)
      ? requestTarget(new URL(location, at.href))
      : undefined;
    if (to?.origin !== at.origin || !FOLLOWED.has(status) || redirects === MOST_REDIRECTS) {
      throw redirectError(status, at.origin, to?.origin);
    }
    at = to;
  }
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
