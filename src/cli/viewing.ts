// What commands that open the viewer have in common: a viewer of a store, its token beside the runs of the project, and a browser.

import { rmSync } from "node:fs";
import { join } from "node:path";

import { EspalierError } from "espalier";
import type { Store } from "espalier/extend";
import { viewer, type Viewer, type ViewerOptions } from "espalier/viewer";

import type { CommandCall } from "./command-call.ts";
import { openBrowser } from "./open-browser.ts";
import { portOf } from "./port-option.ts";
import type { Project } from "./project.ts";
import { isWatched, note, ownCommand, readSetting, type Shell } from "./shell.ts";
import { DEFAULT_FOLDER, makeOwnFolder } from "./store-choice.ts";

/** What is shown. */
export interface Viewed {
  /** Where the token is kept; undefined: nowhere. */
  readonly project: Project | undefined;
  /** Undefined: a store of the viewer's own. */
  readonly store: Store | undefined;
  /** What it is called. */
  readonly storeName: string;
  /** The run to begin with, if it is one. */
  readonly runId?: string | undefined;
}

/** A viewer that is open, until it is closed. */
export interface Viewing extends AsyncDisposable {
  readonly viewer: Viewer;
  /** Where a person sees it. */
  readonly address: string;
  /** Says where it is, and opens it. */
  show(runId?: string): Promise<void>;
}

export const TOKEN_FILE = "viewer-token";

/** Opens a viewer with what the options of its command say: `--port`, `--no-content`, `--read-only`, `--new-token`, `--no-open`. Throws UsageError. */
export async function openViewing(
  call: CommandCall,
  { project, store, storeName }: Viewed,
): Promise<Viewing> {
  const { shell, has, isOff } = call;
  const port = portOf(call);
  const jaegerUrl = readSetting(shell.env, "ESPALIER_JAEGER_URL");
  const options: ViewerOptions = {
    storeName,
    command: ownCommand(shell),
    content: !isOff("content"),
    ...(store === undefined ? {} : { store }),
    ...(port === undefined ? {} : { port }),
    ...(has("readOnly") ? { actions: [] } : {}),
    ...(jaegerUrl === undefined ? {} : { jaegerUrl }),
  };
  const made =
    project === undefined ? await viewer(options) : await viewerOf(project, options, call);
  let forget: (() => Promise<void>) | undefined;
  return {
    viewer: made,
    address: made.url,
    show: async (runId) => {
      const address = runId === undefined ? made.url : pageAddress(made.url, runId);
      note(shell, `Viewer: ${address}`);
      if (isOff("open") || !isWatched(shell)) return;
      forget = await openBrowser(shell, address);
    },
    [Symbol.asyncDispose]: async () => {
      await made.close();
      await forget?.();
    },
  };
}

/** A viewer whose token is kept beside the runs of the project, or nowhere, and said why, where nothing can be written there. */
async function viewerOf(
  project: Project,
  options: ViewerOptions,
  { shell, has }: CommandCall,
): Promise<Viewer> {
  try {
    return await viewer({ ...options, tokenFile: tokenFileIn(project, has("newToken")) });
  } catch (cause) {
    if (!isOfTokenFile(cause)) throw cause;
    note(
      shell,
      `Open pages do not outlive the viewer, since its token is kept nowhere: ${cause.message}`,
    );
    return await viewer(options);
  }
}

function tokenFileIn({ folder }: Project, isNew: boolean): string {
  const own = join(folder, DEFAULT_FOLDER);
  makeOwnFolder(own);
  const file = join(own, TOKEN_FILE);
  if (isNew) rmSync(file, { force: true });
  return file;
}

/** Of the file system, or what the viewer says of it. */
function isOfTokenFile(cause: unknown): cause is Error {
  if (EspalierError.is(cause)) return cause.data["field"] === "viewer options.tokenFile";
  return cause instanceof Error && "syscall" in cause;
}

/** Resolves on SIGINT (Ctrl-C), SIGTERM or SIGHUP. */
export function untilLeft(shell: Shell): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
      shell.onSignal(signal, () => resolve());
  });
}

/** The page of a run at the address of a viewer. */
export function pageAddress(url: string, runId: string): string {
  const address = new URL(url);
  address.pathname = `/r/${encodeURIComponent(runId)}`;
  return address.href;
}
