// A `fetch` for providers of the AI SDK that sends prompt and key to no other server.

import { failures } from "./ai-sdk-errors.ts";
import { fieldsOf, parseWireJson } from "../wire-json.ts";
import { withReadableBody } from "./readable-response.ts";

const MAX_REDIRECTS = 5;
/** A redirect that keeps the method and the body. */
const KEEPS_REQUEST: ReadonlySet<number> = new Set([307, 308]);
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Does what `fetch` does, but follows a redirect only within the origin of the request. `fetch` sends
 * the body, and headers such as `x-api-key`, to whatever server a redirect names. Pass this function to
 * the provider. At most five redirects of status 307 or 308 are followed.
 *
 * The body of the response is one that the provider can read whole. A stream of events ends with a
 * blank line also if its server left that out. A bare `error:` line becomes an event. A body of status
 * 200 that is a page or an error, for example `{"error": {"message": "Busy."}}`, fails with a
 * `ModelError` that quotes it.
 *
 * @throws ModelError `model_refused_request` for any other redirect; `model_protocol_error` for an
 * encoding that `fetch` does not decode.
 *
 * @example
 * const anthropic = createAnthropic({ fetch: sameOriginFetch });
 * const model = aiSdkModel(anthropic("claude-sonnet-5"));
 */
export async function sameOriginFetch(
  input: string | URL | Request,
  init?: RequestInit,
): Promise<Response> {
  const { url, method, headers, signal, body } = new Request(input, init);
  const sent = body === null ? undefined : await new Response(body).arrayBuffer();
  const { origin } = new URL(url);
  let target = url;
  for (let redirects = 0; ; redirects += 1) {
    const request = { ...init, method, headers, signal, redirect: "manual" as const };
    const response = await fetch(target, sent === undefined ? request : { ...request, body: sent });
    const { status } = response;
    const location = response.headers.get("location");
    if (location === null || !REDIRECTS.has(status))
      return withReadableBody(response, () => requestsEvents(url, sent));
    await response.body?.cancel();
    const to = URL.canParse(location, target) ? new URL(location, target) : undefined;
    if (to?.origin !== origin || !KEEPS_REQUEST.has(status) || redirects === MAX_REDIRECTS)
      throw redirectError(status, origin, to?.origin ?? "no address");
    target = to.href;
  }
}

/** Returns true for a request that asks for a stream of events, in the form of any provider. */
function requestsEvents(url: string, body = new ArrayBuffer()): boolean {
  const { stream } = fieldsOf(parseWireJson(Buffer.from(body).toString()));
  return stream === true || url.includes(":streamGenerateContent");
}

function redirectError(status: number, from: string, to: string): Error {
  return failures.failure({
    code: "model_refused_request",
    got: `a redirect (status ${status}) from ${from} to ${to}`,
    advice:
      "Give the provider the address of the server as baseURL: only a 307 or 308 within one origin is followed, at most five times.",
    data: { status, from, to },
  });
}
