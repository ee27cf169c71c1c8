// The redirects that an adapter follows: within one origin, so that neither the key nor the prompt
// reaches another server.

import type { AdapterFailures } from "./http-errors.ts";

const MOST_REDIRECTS = 5;
/** Redirects that keep the method and the body. */
const FOLLOWED: ReadonlySet<number> = new Set([307, 308]);
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, ...FOLLOWED]);

/** A response that names another address. */
export interface Redirect {
  readonly status: number;
  readonly location: string;
  /** The address that was requested. */
  readonly from: string;
  /** Redirects that were followed before. */
  readonly count: number;
}

/** True for the status of a redirect. */
export function isRedirect(status: number): boolean {
  return REDIRECTS.has(status);
}

/**
 * Returns the address to which the request is sent instead.
 *
 * @throws ModelError `model_refused_request` for another origin, a redirect that changes the request, or the sixth.
 */
export function followRedirect(
  { status, location, from, count }: Redirect,
  failures: AdapterFailures,
  option: string,
): URL {
  const { origin } = new URL(from);
  const to = URL.canParse(location, from) ? new URL(location, from) : undefined;
  if (to?.origin === origin && FOLLOWED.has(status) && count < MOST_REDIRECTS) return to;
  const target = to?.origin ?? "no address";
  throw failures.failure({
    code: "model_refused_request",
    got: `a redirect (status ${status}) from ${origin} to ${target}`,
    advice: `${option}: only a 307 or 308 within one origin is followed, at most five times.`,
    data: { status, from: origin, to: target },
  });
}
