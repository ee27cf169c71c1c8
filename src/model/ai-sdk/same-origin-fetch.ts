// A `fetch` for providers of the AI SDK that sends prompt and key to no other server.

import { failures } from "./ai-sdk-errors.ts";
import { fieldsOf, parseWireJson } from "../wire-json.ts";
import { followRedirect, isRedirect } from "../redirects.ts";
import { withReadableBody } from "./readable-response.ts";

const BASE_URL = "Give the provider the address of the server as baseURL";

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
  let target = url;
  for (let count = 0; ; count += 1) {
    const request = { ...init, method, headers, signal, redirect: "manual" as const };
    const response = await fetch(target, sent === undefined ? request : { ...request, body: sent });
    const { status } = response;
    const location = response.headers.get("location");
    if (location === null || !isRedirect(status))
      return withReadableBody(response, () => requestsEvents(url, sent));
    await response.body?.cancel();
    const redirect = { status, location, from: target, count };
    target = followRedirect(redirect, failures, BASE_URL).href;
  }
}

/** Returns true for a request that asks for a stream of events, in the form of any provider. */
function requestsEvents(url: string, body = new ArrayBuffer()): boolean {
  const { stream } = fieldsOf(parseWireJson(Buffer.from(body).toString()));
  return stream === true || url.includes(":streamGenerateContent");
}
