// sendRequest: one request to the server that was named, and to no other. Redirects are followed by us alone, so that neither the key
// nor the prompt reaches another origin, whatever sends the requests.

import { invoke, type CancelSignal } from "../../kernel/cancel.ts";
import { followRedirect, isRedirect } from "../redirects.ts";
import { failures, unreachedError } from "./openai-errors.ts";
import {
  checkStatus,
  fetchedResponse,
  headersOf,
  isSuccess,
  openingOf,
  type WireResponse,
} from "./wire-response.ts";

/** The parts of an address that `http` takes, and the address. Parsing it costs more than a request's head. */
export interface RequestTarget {
  readonly href: string;
  readonly host: string;
  /** As the header `host` has it. */
  readonly authority: string;
  readonly port: string;
  readonly path: string;
}

export function requestTarget({
  href,
  hostname,
  host,
  port,
  pathname,
  search,
}: URL): RequestTarget {
  const path = `${pathname}${search}`;
  return { href, host: hostname.replace(/^\[|\]$/g, ""), authority: host, port, path };
}

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
      const { status } = response;
      const location = response.header("location");
      if (location === null || !isRedirect(status)) return { response, opening };
      const redirect = { status, location, from: head.target.href, count: redirects };
      const target = requestTarget(
        followRedirect(redirect, failures, "Give the address where the server is as baseUrl"),
      );
      return await answerTo(sent, { ...head, target }, redirects + 1);
    },
    (thrown: unknown) => {
      throw unreachedError(thrown);
    },
  );
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
