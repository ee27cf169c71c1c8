// Serves the page of the viewer: three files that the build puts into the package. No other file of
// the disk can be requested.

import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";

import { RefusedRequest, SECURITY_HEADERS, sendBytes } from "./http-reply.ts";

const FILES: ReadonlyMap<string, string> = new Map([
  ["viewer.js", "text/javascript; charset=utf-8"],
  ["viewer.css", "text/css; charset=utf-8"],
]);
/** Browsers request this file on their own, and log an error if it is missing. */
const ICON = "favicon.ico";
/** First path segments that the page itself routes. */
const PAGES: ReadonlySet<string> = new Set(["r", "questions", "compare"]);
const NOT_BUILT =
  "The page of the viewer is not built. Run `npm run build` in the clone, or install the package. The API works without the page.\n";
/** References of `index.html` to the other files, and the place of the command line. */
const NAMED = /\b(src|href)="(?:\.?\/)?(viewer\.(?:js|css))"/g;
const COMMAND = /(?<=<meta name="command" content=")[^"]*/;
const ESCAPED: Readonly<Record<string, string>> = { '"': "&quot;", "&": "&amp;", "<": "&lt;" };

export class Page {
  readonly #folder: string;
  readonly #command: string;

  /** `command` is the command line of espalier. */
  constructor(folder: string, command: string) {
    this.#folder = folder;
    this.#command = command.replaceAll(/["&<]/g, (sign) => ESCAPED[sign] ?? sign);
  }

  /**
   * Answers a request by its path below `prefix`. An unknown path gets a page with status 404 if a
   * browser navigates there, otherwise 404 is thrown. Throws 405 for other methods than GET and
   * HEAD.
   */
  async send(
    request: IncomingMessage,
    response: ServerResponse,
    { path, prefix }: { readonly path: readonly string[]; readonly prefix: string },
  ): Promise<void> {
    const [first = ""] = path;
    const type = path.length === 1 ? FILES.get(first) : undefined;
    const isIcon = path.length === 1 && first === ICON;
    const isPage = first === "" ? path.length === 1 : PAGES.has(first);
    const isKnown = type !== undefined || isPage || isIcon;
    if (!isKnown && !isOfPerson(request))
      throw new RefusedRequest("not_found", "The viewer has no such page. Check the address.");
    if (request.method !== "GET" && request.method !== "HEAD")
      throw new RefusedRequest("not_allowed", "Pages support GET only. Use GET.");
    if (isIcon) return void response.writeHead(204, SECURITY_HEADERS).end();
    const read = await readFile(
      join(this.#folder, type === undefined ? "index.html" : first),
    ).catch(() => undefined);
    if (read === undefined) {
      const plain = { type: "text/plain; charset=utf-8", bytes: Buffer.from(NOT_BUILT) };
      return sendBytes(request, response, 503, plain);
    }
    if (type !== undefined) return sendBytes(request, response, 200, { type, bytes: read });
    // File names get the prefix here, because the CSP forbids a <base> element.
    const html = read
      .toString("utf8")
      .replaceAll(NAMED, `$1="${prefix}/$2"`)
      .replace(COMMAND, () => this.#command);
    const page = { type: "text/html; charset=utf-8", bytes: Buffer.from(html) };
    sendBytes(request, response, isKnown ? 200 : 404, page);
  }
}

/** Returns true for a navigation of a browser. */
function isOfPerson({ method, headers }: IncomingMessage): boolean {
  const isRead = method === "GET" || method === "HEAD";
  return isRead && headers.accept?.includes("text/html") === true;
}
