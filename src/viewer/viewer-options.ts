// What a viewer works with, checked.

import type { IncomingMessage } from "node:http";

import { checkFields, checkKeys, checkMethods, checkText, mismatch } from "../kernel/check.ts";
import type { Clock } from "../kernel/clock.ts";
import type { Store } from "../store/store.ts";
import type { ViewerAction } from "../view/viewer-data.ts";
import { isLoopback } from "../kernel/loopback.ts";

/** How a viewer shows runs, and to whom. */
export interface ViewerOptions {
  /** Where the runs are. Default: a store in memory of its own, `view.store`. */
  readonly store?: Store;
  /** What the store is called on the page: the name of its file, say. Default `memory` for its own one, else `store`. */
  readonly storeName?: string;
  /**
   * Whether prompts, tasks, arguments, results, texts and the words of errors are shown. False: none of them leaves the server.
   *
   * @default true
   */
  readonly content?:
    | boolean
    | {
        /** Returns the part of a text that may be shown. Called for each whole text, before it is shortened; must not wait. */
        readonly redact: (text: string) => string;
      };
  /** What can be asked of runs by the page. Default: all; `[]`: it only reads. */
  readonly actions?: readonly ViewerAction[];
  /** Where it listens. 0: any port that is free; null: nowhere, for a server of your own. Default: the first free one from 4983 on. */
  readonly port?: number | null;
  /** The address at which it listens. Another one than this machine's own needs `authorize`. Default 127.0.0.1. */
  readonly host?: string;
  /**
   * Decides of each request to the API in place of the token: true lets it in. Go by what the request proves of its sender, not by the
   * address that it comes from. With it, requests to any host name are taken.
   */
  readonly authorize?: (request: IncomingMessage) => boolean | Promise<boolean>;
  /** How the command is called here, as people can paste it: the page names commands. Default `npx espalier`, which is that of the project. */
  readonly command?: string;
  /** The name on record for what is asked of runs. Default `viewer`. */
  readonly by?: string;
  /** Where a Jaeger has the traces of the runs: the address of its pages. */
  readonly jaegerUrl?: string;
  /** A file that keeps the token, so that open pages outlive the server; made if it is not there, for its user alone. Default: none. */
  readonly tokenFile?: string;
  /** Where the files of the page are. Default: as they come with the package. */
  readonly pageFolder?: string;
  /** Default: the clock of the machine. */
  readonly clock?: Clock;
}

export const ACTIONS: readonly ViewerAction[] = ["answer", "cancel", "pause", "resume"];
const GREATEST_PORT = 65_535;

/** Throws `invalid_option`, or `invalid_definition` for a text that is empty. */
export function checkViewerOptions(options: ViewerOptions): void {
  const field = "viewer options";
  checkFields(field, options, {
    store: (name, store) => checkMethods(name, store, ["find", "list", "read", "post", "posts"]),
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
  checkMethods(field, content, ["redact"]);
}

function checkActions(field: string, actions: unknown): void {
  const isKnown = (action: unknown): boolean => ACTIONS.some((one) => one === action);
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
