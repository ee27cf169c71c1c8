// The viewer: builds its parts from the options, and passes each request to the part that answers
// it.

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";

import type { Approver } from "../agent/approver.ts";
import { addAbortHandler } from "../kernel/cancel-signal.ts";
import { checkFunction, checkKeys, mismatch } from "../kernel/argument-checks.ts";
import { systemClock } from "../kernel/clock.ts";
import { getErrorMessage } from "../kernel/error.ts";
import { omitUndefined } from "../kernel/json.ts";
import { OWN_PACKAGE } from "../kernel/own-package.ts";
import { warnOnce } from "../kernel/warn-once.ts";
import type { Orchestrator } from "../orchestrator/orchestrator.ts";
import type { EventSink } from "../protocol/event.ts";
import type { RunId } from "../protocol/ids.ts";
import { createEvictingStore } from "../store/memory-store.ts";
import type { Store } from "../store/store.ts";
import type { ViewerError, ViewerMeta } from "../read-model/viewer-data.ts";
import { Api } from "./api.ts";
import { AttachedOrchestrators, RunActions } from "./run-actions.ts";
import {
  RequestAuth,
  type RequestAuthOptions,
  loadOrCreateToken,
  generateToken,
  computeTokenProof,
} from "./request-auth.ts";
import { RunFoldCache } from "./run-fold-cache.ts";
import { Listener } from "./listener.ts";
import { isLoopback } from "../kernel/loopback.ts";
import { Page } from "./page-files.ts";
import { RefusedRequest, sendJson } from "./http-reply.ts";
import { RunList } from "./run-list.ts";
import { ShownContent } from "./shown-content.ts";
import { ACTIONS, checkViewerOptions, type ViewerOptions } from "./viewer-options.ts";

/**
 * Running viewer of the runs in one store.
 *
 * @example
 * ```ts
 * await using viewer = await startViewer();
 * const orchestrator = new Orchestrator({
 *   store: viewer.store,
 *   sinks: [viewer.sink],
 *   approver: viewer.approver,
 * });
 * viewer.attach(orchestrator);
 * console.log(viewer.url);
 * ```
 */
export interface Viewer {
  /** URL to open in a browser, with the token after `#`. Empty if `port` is `null`. */
  readonly url: string;
  /**
   * Token that API requests need. With a server of your own, add it to the address of the page.
   *
   * @example
   * ```ts
   * const view = await startViewer({ store, port: null });
   * console.log(`http://localhost:8080/espalier#token=${view.token}`);
   * ```
   */
  readonly token: string;
  /** Store of the viewed runs. Pass this store to the orchestrators. */
  readonly store: Store;
  /**
   * Event sink that updates the page at once. Without the sink, updates take up to 100 ms.
   *
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({ store: view.store, sinks: [view.sink] });
   * ```
   */
  readonly sink: EventSink;
  /**
   * Approver that lets a run wait while its question is on the page. The run must be in `store`.
   *
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({ store: view.store, approver: view.approver });
   * ```
   */
  readonly approver: Approver;
  /**
   * Performs actions of the page through an orchestrator in this process. The orchestrator must use
   * `store`; call `attach` once for each orchestrator.
   *
   * Active runs of the orchestrator are answered, paused and cancelled at once. Runs without a
   * process continue with the roles of the orchestrator. Without `attach`, an action waits in the
   * mailbox of the run for the process that owns it.
   *
   * @throws EspalierError `invalid_argument` if `options` has an unknown field or `context` is not
   * a function.
   * @example
   * ```ts
   * const orchestrator = new Orchestrator({ roles, store: view.store });
   * view.attach(orchestrator, { context: () => ({ tenant: "acme" }) });
   * ```
   */
  attach(
    orchestrator: Pick<
      Orchestrator,
      "findActiveRun" | "answer" | "cancel" | "sendCommand" | "resume"
    >,
    options?: {
      /**
       * Returns the run context for a run that continues here. Required if the roles need a
       * context.
       */
      readonly context?: (runId: RunId) => unknown;
    },
  ): void;
  /**
   * Returns a request listener for a server of your own, with the page and the API below `prefix`.
   *
   * Without `authorize`, API requests need `token`, and a loopback address as their host name.
   *
   * @throws EspalierError `invalid_argument` if `prefix` is not a path such as `/espalier`.
   * @example
   * ```ts
   * import { createServer } from "node:http";
   *
   * const viewer = await startViewer({
   *   store,
   *   port: null,
   *   authorize: ({ headers }) => headers["x-signed-in-user"] !== undefined, // set by the proxy
   * });
   * createServer(viewer.handler("/espalier")).listen(8080, "127.0.0.1");
   * ```
   */
  handler(prefix?: string): RequestListener;
  /** Closes open feeds and the port. Runs, store and orchestrators continue. */
  close(): Promise<void>;
  /** Same as `close`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Starts a viewer: a local web page that shows the runs of a store, live, and answers their
 * questions.
 *
 * @throws EspalierError `invalid_argument` if an option is invalid, the port is taken, or
 * `tokenFile` cannot be used.
 * @throws EspalierError `invalid_argument` if a text is empty.
 * @example
 * ```ts
 * const view = await startViewer();
 * const orchestrator = new Orchestrator({ store: view.store, sinks: [view.sink] });
 * console.log(view.url); // open in a browser
 *
 * await orchestrator.start(researcher, "Compare pears and plums.").result;
 * await view.close();
 * ```
 */
export async function startViewer(options: ViewerOptions = {}): Promise<Viewer> {
  checkViewerOptions(options);
  const { tokenFile, port } = options;
  const token = tokenFile === undefined ? generateToken() : await loadOrCreateToken(tokenFile);
  const viewer = new RunViewer(options, token);
  if (port !== null) await viewer.listen(port);
  return viewer;
}

/** Folder of the page, both from the sources and from the build. */
const PAGE = new URL("../../dist/viewer-page/", import.meta.url);
const API = ["api", "v1"];
/** Limit of the viewer's own in-memory store. */
const MAX_OWN_STORE_BYTES = 256_000_000;

class RunViewer implements Viewer {
  readonly store: Store;
  readonly sink: EventSink;
  readonly approver: Approver;
  readonly #options: ViewerOptions;
  readonly token: string;
  readonly #attached = new AttachedOrchestrators();
  readonly #cache: RunFoldCache;
  readonly #list: RunList;
  readonly #api: Api;
  readonly #page: Page;
  #listener: Listener | undefined;

  constructor(options: ViewerOptions, token: string) {
    const { clock = systemClock, content = true, by, actions = ACTIONS } = options;
    this.#options = options;
    this.token = token;
    let forgotten = 0;
    const onForgotten = (): void => {
      forgotten += 1;
    };
    this.store =
      options.store ?? createEvictingStore({ clock, mostBytes: MAX_OWN_STORE_BYTES, onForgotten });
    const dependencies = { store: this.store, clock, content: new ShownContent(content) };
    this.#cache = new RunFoldCache(dependencies);
    this.#list = new RunList(dependencies, this.#cache, () => forgotten);
    this.sink = { emit: ({ runId }) => this.#cache.find(runId)?.wake() };
    this.approver = (_question, { signal }) => waitForWithdrawal(signal);
    const attached = this.#attached;
    this.#api = new Api({
      ...dependencies,
      runs: this.#cache,
      list: this.#list,
      actions: new RunActions({ ...dependencies, attached, allowed: actions, by }),
      meta: () => this.#buildMeta(),
    });
    this.#page = new Page(options.pageFolder ?? fileURLToPath(PAGE), getViewerCommand(options));
  }

  get url(): string {
    return this.#listener === undefined ? "" : `${this.#listener.origin}/#token=${this.token}`;
  }

  async listen(port: number | undefined): Promise<void> {
    const gate = this.#createGate((host) => listener.isOurs(host));
    const listener = new Listener(this.#createListener(gate, ""), this.#options.host);
    await listener.listen(port);
    this.#listener = listener;
  }

  attach(...[orchestrator, options = {}]: Parameters<Viewer["attach"]>): void {
    checkKeys("attach options", options, ["context"]);
    if (options.context !== undefined) checkFunction("attach options.context", options.context);
    this.#attached.add(orchestrator, options.context);
  }

  handler(prefix = ""): RequestListener {
    checkPrefix(prefix);
    return this.#createListener(this.#createGate(isThisMachine), prefix);
  }

  async close(): Promise<void> {
    this.#list.close();
    this.#api.close();
    await this.#listener?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #createGate(isOurs: RequestAuthOptions["isOurs"]): RequestAuth {
    const { authorize } = this.#options;
    return new RequestAuth({
      token: this.token,
      authorize,
      isOurs,
      command: this.#options.command,
    });
  }

  #createListener(gate: RequestAuth, prefix: string): RequestListener {
    return (request, response) => {
      this.#answer({ gate, prefix }, request, response).catch((cause: unknown) => {
        const failed = "Internal error of the viewer. See the warnings of its process.";
        if (!(cause instanceof RefusedRequest))
          warnOnce(this, `The viewer failed to answer a request (${getErrorMessage(cause)}).`);
        if (response.headersSent) return void response.destroy();
        const { status, code, message } =
          cause instanceof RefusedRequest ? cause : new RefusedRequest("internal_error", failed);
        const error: ViewerError = { code, message };
        sendJson(request, response, status, error).catch(() => response.destroy());
      });
    };
  }

  async #answer(
    { gate, prefix }: { readonly gate: RequestAuth; readonly prefix: string },
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    gate.checkHost(request);
    const { path, query } = splitUrl(request.url ?? "", prefix);
    const isApi = API.every((part, index) => path[index] === part);
    if (!isApi) return await this.#page.send(request, response, { path, prefix });
    const challenge = request.headers["espalier-challenge"];
    if (typeof challenge === "string")
      response.setHeader(
        "espalier-proof",
        computeTokenProof(this.token, challenge, this.#storeName),
      );
    await this.#api.answer(path.slice(API.length), { gate, request, response, query });
  }

  get #storeName(): string {
    const { store, storeName = store === undefined ? "memory" : "store" } = this.#options;
    return storeName;
  }

  #buildMeta(): ViewerMeta {
    const { content = true, actions = ACTIONS, jaegerUrl, clock = systemClock } = this.#options;
    return {
      version: OWN_PACKAGE.version,
      content: typeof content === "object" ? "redacted" : content,
      actions: actions.filter((action) => action !== "resume" || !this.#attached.isEmpty),
      store: this.#storeName,
      ...omitUndefined({ jaegerUrl }),
      nowMs: clock.nowMs(),
    };
  }
}

function getViewerCommand({ command = "npx espalier" }: ViewerOptions): string {
  return command;
}

/**
 * Resolves without an answer once the question is withdrawn. Answers arrive through the mailbox of
 * the run.
 */
async function waitForWithdrawal(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return undefined;
  return await new Promise((resolve) => void addAbortHandler(signal, () => resolve(undefined)));
}

/**
 * Returns the decoded path segments below a prefix, and the query. Throws 400 for an invalid path,
 * and 404 for a path outside the prefix.
 */
function splitUrl(
  url: string,
  prefix: string,
): { readonly path: readonly string[]; readonly query: URLSearchParams } {
  const [requestedPath = "", ...query] = url.split("?");
  const path = requestedPath === prefix ? `${prefix}/` : requestedPath;
  if (!path.startsWith(`${prefix}/`))
    throw new RefusedRequest("not_found", "The viewer has no such page. Check the address.");
  try {
    const parts = path
      .slice(prefix.length + 1)
      .split("/")
      .map((part) => decodeURIComponent(part));
    return { path: parts, query: new URLSearchParams(query.join("?")) };
  } catch {
    throw new RefusedRequest(
      "invalid_request",
      "Invalid percent-encoding in the URL path. Correct the path.",
    );
  }
}

function isThisMachine(host: string): boolean {
  return isLoopback(host.replace(/:\d+$/, "").replace(/^\[(.*)\]$/, "$1"));
}

/** Throws `invalid_argument` for an invalid path prefix. */
function checkPrefix(prefix: unknown): void {
  if (typeof prefix === "string" && /^(?:\/(?!\.+(?:\/|$))[A-Za-z0-9._~-]+)*$/.test(prefix)) return;
  throw mismatch(
    "prefix",
    "a path such as /espalier, without a trailing slash",
    prefix,
    "Leave it out for none.",
  );
}
