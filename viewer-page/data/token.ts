// The token of the server. It arrives after the `#` of the printed address and is removed from
// there before the page is shown, so that copied links do not contain it. Each tab stores it for
// itself.

const KEPT_AS = "espalier-token";

/** Token in the address with which the page started. */
const addressToken = /^#(?:token=)?([\w-]{32,})$/.exec(location.hash)?.[1];

/**
 * Removes the token from the address, if it has one. The browser blocks during both calls, so the
 * first request is sent before.
 */
export function takeToken(): void {
  if (addressToken === undefined) return;
  sessionStorage.setItem(KEPT_AS, addressToken);
  history.replaceState(history.state, "", location.pathname + location.search);
}

export function createAuthHeaders(): Readonly<Record<string, string>> {
  const token = addressToken ?? sessionStorage.getItem(KEPT_AS);
  return token === null ? {} : { authorization: `Bearer ${token}` };
}
