// The page of the viewer: three files, which the build puts beside the package's code. Nothing else on the disk can be asked for.

import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";

import { refusedRequest, SECURITY_HEADERS, sendBytes } from "./reply.ts";

const FILES: ReadonlyMap<string, string> = new Map([
  ["viewer.js", "text/javascript; charset=utf-8"],
  ["viewer.css", "text/css; charset=utf-8"],
]);
/** Browsers ask for it by themselves, and complain of an error. */
const ICON = "favicon.ico";
/** The first parts of the addresses that the page itself knows. */
const PAGES: ReadonlySet<string> = new Set(["r", "questions", "compare"]);
const NOT_BUILT =
  "The page of the viewer is not built. Run `npm run build` where the package stands, or install the package; the API works without it.\n";
/** How `index.html` names the other files. */
const NAMED = /\b(src|href)="(?:\.?\/)?(viewer\.(?:js|css))"/g;

export class Page {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Answers a request by its path below `prefix`. Throws 404 for what is no part of the page, and 405. */
  async send(
    request: IncomingMessage,
    response: ServerResponse,
    { path, prefix }: { readonly path: readonly string[]; readonly prefix: string },
  ): Promise<void> {
    const [first = ""] = path;
    const type = path.length === 1 ? FILES.get(first) : undefined;
    const isIcon = path.length === 1 && first === ICON;
    const isPage = first === "" ? path.length === 1 : PAGES.has(first);
    if (type === undefined && !isPage && !isIcon)
      throw refusedRequest(404, "not_found", "Expected an address of the viewer, got another one.");
    if (request.method !== "GET" && request.method !== "HEAD")
      throw refusedRequest(405, "not_allowed", "Expected GET for a page, got another method.");
    if (isIcon) return void response.writeHead(204, SECURITY_HEADERS).end();
    const read = await readFile(
      join(this.#folder, type === undefined ? "index.html" : first),
    ).catch(() => undefined);
    if (read === undefined) {
      const plain = { type: "text/plain; charset=utf-8", bytes: Buffer.from(NOT_BUILT) };
      return sendBytes(request, response, 503, plain);
    }
    if (type !== undefined) return sendBytes(request, response, 200, { type, bytes: read });
    // A page at any depth, below any prefix: CSP allows no <base>.
    const html = read.toString("utf8").replaceAll(NAMED, `$1="${prefix}/$2"`);
    const bytes = Buffer.from(html);
    sendBytes(request, response, 200, { type: "text/html; charset=utf-8", bytes });
  }
}
