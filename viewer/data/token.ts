// The token of the server: it comes behind the `#` of the printed address, and is taken out of it before anything is shown, so that no link
// that is copied from the page has it. A tab keeps it for itself.

const KEPT_AS = "espalier-token";

/** Of the address with which the page began. */
const given = /^#(?:token=)?([\w-]{32,})$/.exec(location.hash)?.[1];

/** Takes the token out of the address, if it has one. The browser waits for both: what is to be asked first is asked before. */
export function takeToken(): void {
  if (given === undefined) return;
  sessionStorage.setItem(KEPT_AS, given);
  history.replaceState(history.state, "", location.pathname + location.search);
}

export function authorization(): Readonly<Record<string, string>> {
  const token = given ?? sessionStorage.getItem(KEPT_AS);
  return token === null ? {} : { authorization: `Bearer ${token}` };
}
