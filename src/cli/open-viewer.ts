// Opens the viewer for a command: its token beside the runs of the project, and the browser. Also
// finds the address of a running viewer.

import { spawn } from "node:child_process";
import { createHmac, randomUUID } from "node:crypto";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { mkdtemp, rm, writeFile, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { EspalierError } from "espalier";
import type { Store } from "espalier/extend";
import { startViewer, type Viewer, type ViewerOptions } from "espalier/viewer";

import { type CommandCall, readPortOption } from "./command-call.ts";
import { type Project, DEFAULT_FOLDER, createOwnFolder } from "./project.ts";
import { isWatched, printNotice, readAuthor, readSetting, type Shell } from "./shell.ts";
import { UsageError } from "./exit-codes.ts";

/** Input for a viewer. */
interface Viewed {
  /** Project whose folder stores the token. `undefined` to store none. */
  readonly project: Project | undefined;
  /** `undefined` for a store of the viewer. */
  readonly store: Store | undefined;
  /** Name of the store. */
  readonly storeName: string;
}

/** An open viewer. */
export interface Viewing extends AsyncDisposable {
  readonly viewer: Viewer;
  /** Address for the browser. */
  readonly address: string;
  /** Prints the address, and opens it. */
  show(runId?: string): Promise<void>;
}

const TOKEN_FILE = "viewer-token";

/**
 * Opens a viewer with the options of its command: `--port`, `--no-content`, `--read-only`,
 * `--new-token`, `--no-open`. Throws UsageError.
 */
export async function openViewer(
  call: CommandCall,
  { project, store, storeName }: Viewed,
): Promise<Viewing> {
  const { shell, has, isOff } = call;
  const port = readPortOption(call);
  const jaegerUrl = readSetting(shell.env, "ESPALIER_JAEGER_URL");
  const options: ViewerOptions = {
    storeName,
    command: call.command,
    ...readAuthor(shell),
    content: !isOff("content"),
    ...(store === undefined ? {} : { store }),
    ...(port === undefined ? {} : { port }),
    ...(has("readOnly") ? { actions: [] } : {}),
    ...(jaegerUrl === undefined ? {} : { jaegerUrl }),
  };
  const viewer =
    project === undefined
      ? await startViewer(options)
      : await startProjectViewer(project, options, call);
  let forget: (() => Promise<void>) | undefined;
  return {
    viewer,
    address: viewer.url,
    show: async (runId) => {
      const address = runId === undefined ? viewer.url : buildRunPageUrl(viewer.url, runId);
      printNotice(shell, `Viewer: ${address}`);
      if (isOff("open") || !isWatched(shell)) return;
      forget = await openBrowser(shell, address);
    },
    [Symbol.asyncDispose]: async () => {
      await viewer.close();
      await forget?.();
    },
  };
}

/**
 * Starts a viewer whose token is stored beside the runs of the project. If that cannot be written,
 * prints a note and stores none.
 */
async function startProjectViewer(
  project: Project,
  options: ViewerOptions,
  { shell, has }: CommandCall,
): Promise<Viewer> {
  try {
    return await startViewer({ ...options, tokenFile: prepareTokenFile(project, has("newToken")) });
  } catch (cause) {
    if (!isTokenFileError(cause)) throw cause;
    printNotice(
      shell,
      `Open pages will not survive a restart of the viewer, because its token is not stored: ${cause.message}`,
    );
    return await startViewer(options);
  }
}

function prepareTokenFile({ folder }: Project, isNew: boolean): string {
  const ownFolder = join(folder, DEFAULT_FOLDER);
  createOwnFolder(ownFolder);
  const file = join(ownFolder, TOKEN_FILE);
  if (isNew) rmSync(file, { force: true });
  return file;
}

/** Returns true for an error of the token file, from the file system or from the viewer. */
function isTokenFileError(cause: unknown): cause is Error {
  if (EspalierError.is(cause)) return cause.data["field"] === "viewer options.tokenFile";
  return cause instanceof Error && "syscall" in cause;
}

/** Resolves on SIGINT (Ctrl-C), SIGTERM or SIGHUP. */
export function waitForExitSignal(shell: Shell): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      shell.onSignal(signal, () => resolve());
  });
}

/** Returns the page of a run at the address of a viewer. */
export function buildRunPageUrl(url: string, runId: string): string {
  const address = new URL(url);
  address.pathname = `/r/${encodeURIComponent(runId)}`;
  return address.href;
}

/** Commands that open a file in the browser, by platform. */
const OPENERS: ReadonlyMap<string, readonly string[]> = new Map([
  ["darwin", ["open"]],
  ["win32", ["rundll32", "url.dll,FileProtocolHandler"]],
]);
const OTHER_OPENER = ["xdg-open"];

/**
 * Opens an address if there is a person and a browser. The caller also prints the address. Resolves
 * after the attempt; call the result when the address has become invalid. Never rejects.
 */
export async function openBrowser(
  { env }: Shell,
  address: string,
  platform: string = process.platform,
): Promise<() => Promise<void>> {
  let folder: string | undefined;
  const forget = async (): Promise<void> => {
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  };
  try {
    folder = await mkdtemp(join(tmpdir(), "espalier-"));
    const page = join(folder, "open.html");
    await writeFile(page, buildRedirectPage(address), { mode: 0o600 });
    const [command = "", ...args] = OPENERS.get(platform) ?? OTHER_OPENER;
    const opener = spawn(command, [...args, page], { env, stdio: "ignore", detached: true });
    await once(opener, "spawn");
    opener.unref();
  } catch {
    // The address was printed.
  }
  return forget;
}

/**
 * Returns a page that redirects to the address, which is our own and contains no characters to
 * escape.
 */
function buildRedirectPage(address: string): string {
  return `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=${address}"><title>espalier</title>\n`;
}

/** Ports of a viewer without a given port. */
const PORTS = Array.from({ length: 20 }, (_, nth) => 4_983 + nth);
const PATIENCE_MS = 1_000;

/**
 * Returns the address of the viewer of this project and this store. The token is never sent to a
 * server that happens to listen there: the server has to prove that it has the token.
 *
 * @throws UsageError if no such viewer is running.
 */
export async function locateRunningViewer(
  call: CommandCall,
  { folder }: Project,
  storeName: string,
): Promise<string> {
  const file = join(folder, DEFAULT_FOLDER, TOKEN_FILE);
  const token = (await readFile(file, "utf8").catch(() => "")).trim();
  const port = readPortOption(call);
  for (const candidate of port === undefined ? PORTS : [port]) {
    const origin = `http://127.0.0.1:${candidate}`;
    if (token !== "" && (await isViewerOf(origin, token, storeName)))
      return `${origin}/#token=${token}`;
  }
  const place =
    port === undefined
      ? `ports ${PORTS[0]} to ${PORTS.at(-1)}. If it listens at another port, add --port <number>`
      : `port ${port}`;
  throw new UsageError(`No viewer of ${storeName} is running at ${place}. Start it: espalier view`);
}

/** Returns true if the server there proves that it has the token and serves the store. */
async function isViewerOf(origin: string, token: string, storeName: string): Promise<boolean> {
  try {
    const challenge = randomUUID();
    const response = await fetch(`${origin}/api/v1/meta`, {
      signal: AbortSignal.timeout(PATIENCE_MS),
      redirect: "error",
      headers: { "espalier-challenge": challenge },
    });
    const proof = createHmac("sha256", token).update(`${challenge}\n${storeName}`).digest("hex");
    return response.headers.get("espalier-proof") === proof;
  } catch {
    return false;
  }
}
