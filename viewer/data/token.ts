// The token of the server: it comes behind the `#` of the printed address, and is taken out of it before anything else is done, so that no link
// that is copied from the page has it. A tab keeps it for itself.

const KEPT_AS = "espalier-token";

/** Takes the token out of the address, if it has one. */
export function takeToken(): void {
  const found = /^#(?:token=)?([\w-]{32,})$/.exec(location.hash)?.[1];
  if (found === undefined) return;
  sessionStorage.setItem(KEPT_AS, found);
  history.replaceState(history.state, "", location.pathname + location.search);
}

/** What a request says of who asks. */
export function authorization(): Readonly<Record<string, string>> {
  const token = sessionStorage.getItem(KEPT_AS);
  return token === null ? {} : { authorization: `Bearer ${token}` };
}
