// Options of the viewer, and their checks.

import type { IncomingMessage } from "node:http";

import {
  checkFunction,
  checkFields,
  checkKeys,
  checkMethods,
  checkText,
  mismatch,
} from "../kernel/argument-checks.ts";
import type { Clock } from "../kernel/clock.ts";
import type { Store } from "../store/store.ts";
import type { ViewerAction } from "../read-model/viewer-data.ts";
import { isLoopback } from "../kernel/loopback.ts";

/** Options of {@link startViewer}. */
export interface ViewerOptions {
  /**
   * Store that has the runs.
   *
   * @default an in-memory store of its own, at `view.store`
   * @example
   * ```ts
   * import { sqliteStore } from "espalier/store/sqlite";
   *
   * await using viewer = await startViewer({ store: sqliteStore("runs.db") });
   * console.log(viewer.url);
   * ```
   */
  readonly store?: Store;
  /**
   * Name of the store on the page, for example its file name.
   *
   * @default `memory` for the viewer's own store, otherwise `store`
   */
  readonly storeName?: string;
  /**
   * Whether the server sends content: prompts, tasks, arguments, results, texts and error messages.
   *
   * `false` sends none of it. `{ redact }` sends the texts that `redact` returns, and refuses
   * edited arguments.
   *
   * @default true
   * @example
   * ```ts
   * const EMAIL = /[\w.]+@[\w.]+/g;
   * await startViewer({ store, content: { redact: (text) => text.replace(EMAIL, "[email]") } });
   * ```
   */
  readonly content?:
    | boolean
    | {
        /**
         * Returns the part of a text that may be shown. Called synchronously with each whole text,
         * and with each number and member name in arguments and results.
         *
         * If `redact` throws or returns no string, the text is withheld.
         */
        readonly redact: (text: string) => string;
      };
  /**
   * Actions that the page offers. `[]` makes the viewer read-only.
   *
   * @default `["answer", "cancel", "pause", "resume"]`
   * @example
   * ```ts
   * await startViewer({ store, actions: ["answer"] }); // answer questions, but never cancel a run
   * ```
   */
  readonly actions?: readonly ViewerAction[];
  /**
   * TCP port of the server. 0 chooses any free port. `null` opens no port, for a server of your
   * own.
   *
   * @default the first free port from 4983 on
   * @example
   * ```ts
   * await startViewer({ store, port: 8080 });
   * ```
   */
  readonly port?: number | null;
  /**
   * Address on which the server listens. An address that other machines can reach needs
   * `authorize`.
   *
   * @default `127.0.0.1`
   * @example
   * ```ts
   * await startViewer({
   *   store,
   *   host: "0.0.0.0",
   *   authorize: ({ headers }) => headers["x-proxy-secret"] === process.env["PROXY_SECRET"],
   * });
   * ```
   */
  readonly host?: string;
  /**
   * Returns true to accept a request to the API. Replaces the token, and the check of the `Host`
   * header.
   *
   * Decide by a proof in the request, such as a header that only your proxy can set. Never decide
   * by the address of the sender: any page in a browser can send requests from that address.
   *
   * @default the token in `view.url`
   * @example
   * ```ts
   * await startViewer({
   *   store,
   *   port: null, // see `Viewer.handler`
   *   authorize: ({ headers }) => headers["x-signed-in-user"] !== undefined, // set by the proxy
   * });
   * ```
   */
  readonly authorize?: (request: IncomingMessage) => boolean | Promise<boolean>;
  /**
   * Command line of espalier, for commands that the page shows for copying.
   *
   * @default `npx espalier`
   * @example
   * ```ts
   * await startViewer({ store, command: "pnpm exec espalier" });
   * ```
   */
  readonly command?: string;
  /**
   * Name of the person who uses the page. Answers from the page name this person, and so does the
   * default reason of a cancellation: `Support desk cancelled the run.`
   *
   * @default answers name nobody, and cancellations name `viewer`
   * @example
   * ```ts
   * await startViewer({ store, by: "Support desk" });
   * ```
   */
  readonly by?: string;
  /**
   * URL of a Jaeger UI that has the traces of the runs, for links from the page.
   *
   * @default no links
   * @example
   * ```ts
   * await startViewer({ store, jaegerUrl: "http://localhost:16686" });
   * ```
   */
  readonly jaegerUrl?: string;
  /**
   * File that stores the token, so that open pages keep working after a restart.
   *
   * The file is created readable by its owner only. A file that other users can read gets a new
   * token.
   *
   * @default a new token at each start
   * @example
   * ```ts
   * await startViewer({ store, tokenFile: ".espalier/viewer-token" });
   * ```
   */
  readonly tokenFile?: string;
  /**
   * Folder with the files of the page.
   *
   * @default the files in the package
   */
  readonly pageFolder?: string;
  /**
   * Clock for times and timers, for tests.
   *
   * @default the system clock
   */
  readonly clock?: Clock;
}

/** All actions, in the order of the page. */
export const ACTIONS: readonly ViewerAction[] = ["answer", "cancel", "pause", "resume"];
const GREATEST_PORT = 65_535;

/** Throws `invalid_argument`. */
export function checkViewerOptions(options: ViewerOptions): void {
  const field = "viewer options";
  checkFields(field, options, {
    store: (name, store) =>
      checkMethods(name, store, ["find", "list", "read", "sendMail", "readMail"]),
    storeName: checkText,
    content: checkContent,
    actions: checkActions,
    port: checkPortOrNull,
    host: checkText,
    authorize: checkAuthorize,
    command: checkText,
    by: checkText,
    jaegerUrl: checkAddress,
    tokenFile: checkText,
    pageFolder: checkText,
    clock: (name, clock) => checkMethods(name, clock, ["nowMs", "monotonicMs", "setTimer"]),
  });
  const { host, authorize } = options;
  if (host === undefined || authorize !== undefined || isLoopback(host)) return;
  const advice = "Set authorize to decide who may use it: other machines can reach this address.";
  throw mismatch(`${field}.host`, "a loopback address, such as 127.0.0.1", host, advice);
}

function checkContent(field: string, content: unknown): void {
  if (typeof content === "boolean") return;
  if (typeof content !== "object" || content === null)
    throw mismatch(field, "true, false or an object", content, "Leave it out to show everything.");
  checkKeys(field, content, ["redact"]);
  checkFunction(`${field}.redact`, Reflect.get(content, "redact"));
}

function checkActions(field: string, actions: unknown): void {
  const isKnown = (action: unknown): boolean => ACTIONS.some((known) => known === action);
  if (Array.isArray(actions) && actions.every(isKnown)) return;
  throw mismatch(field, `an array of ${ACTIONS.join(", ")}`, actions, "Pass [] for none.");
}

function checkPortOrNull(field: string, port: unknown): void {
  const isPort =
    typeof port === "number" && Number.isInteger(port) && port >= 0 && port <= GREATEST_PORT;
  if (port === null || isPort) return;
  throw mismatch(
    field,
    `null or a whole number from 0 to ${GREATEST_PORT}`,
    port,
    "Leave it out for 4983 or the next free port.",
  );
}

function checkAuthorize(field: string, value: unknown): void {
  if (typeof value === "function") return;
  throw mismatch(field, "a function", value, "Leave it out for a token.");
}

function checkAddress(field: string, value: unknown): void {
  const isAddress = typeof value === "string" && /^https?:\/\//.test(value) && URL.canParse(value);
  if (isAddress) return;
  throw mismatch(
    field,
    "an http or https URL",
    value,
    "Pass the address of its pages, for example http://localhost:16686.",
  );
}
