// Which store a command works with: `--store`, the configuration, `ESPALIER_STORE`, else a file in the project that needs no set-up.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { memoryStore } from "espalier";
import type { Store } from "espalier/extend";

import type { CommandCall } from "./command-call.ts";
import type { Project } from "./project.ts";
import { readSetting } from "./shell.ts";
import { UsageError } from "./usage-error.ts";

/** A store, and what it is called. Close it. */
export interface ChosenStore extends AsyncDisposable {
  readonly store: Store;
  /** For people: its path from the working folder, or the address without a password. */
  readonly name: string;
}

/** Where a store is, before it is opened. */
export type StorePlace =
  | { readonly type: "file"; readonly path: string; readonly isDefault: boolean }
  | { readonly type: "postgres"; readonly address: string }
  | { readonly type: "given"; readonly store: Store };

/** Where a project keeps what is its own. */
export const DEFAULT_FOLDER = ".espalier";
const DEFAULT_FILE = "runs.db";
const POSTGRES = /^postgres(ql)?:\/\//;

/** Where the runs of a command are kept. Nothing is opened or made. */
export function storePlace({ shell, text }: CommandCall, { folder, config }: Project): StorePlace {
  const said = text("store");
  if (said !== undefined) return placeOf(said, shell.cwd);
  const { store } = config;
  if (typeof store === "string") return placeOf(store, folder);
  if (store !== undefined) return { type: "given", store };
  const named = readSetting(shell.env, "ESPALIER_STORE");
  if (named !== undefined) return placeOf(named, shell.cwd);
  return { type: "file", path: join(folder, DEFAULT_FOLDER, DEFAULT_FILE), isDefault: true };
}

function placeOf(said: string, folder: string): StorePlace {
  if (said.trim() === "")
    throw new UsageError("Expected --store to be a path or postgres://…, got nothing.");
  if (POSTGRES.test(said)) return { type: "postgres", address: said };
  return { type: "file", path: resolve(folder, said), isDefault: false };
}

/**
 * Opens the store for a command that writes: the file is made if it is not there, and in the project's own folder a `.gitignore` beside it.
 * What is wrong with it is found out here.
 *
 * @throws EspalierError `store_failed`, `unsupported_version`, or `invalid_option` if a package is missing, which it names.
 */
export async function openStore(place: StorePlace): Promise<ChosenStore> {
  if (place.type === "file" && place.isDefault) makeOwnFolder(resolve(place.path, ".."));
  return await opened(place, await made(place, "write"));
}

/**
 * Opens the store for a command that looks at runs that are there.
 *
 * @throws as `openStore`; UsageError if there is no such file: none is made.
 */
export async function openKeptStore(place: StorePlace): Promise<ChosenStore> {
  checkThere(place);
  return await opened(place, await made(place, "write"));
}

/** Throws UsageError if there is no such file. */
function checkThere(place: StorePlace): void {
  if (place.type !== "file" || existsSync(place.path)) return;
  const advice = place.isDefault
    ? "Start one: espalier run …, or say where they are: --store."
    : "Check the path.";
  throw new UsageError(`Expected runs in ${place.path}, but there is no such file. ${advice}`);
}

/**
 * Opens the store for a command that lists runs. In a project without runs it is empty.
 *
 * @throws as `openKeptStore`, if `--store` names a file that is not there.
 */
export async function openStoreToList(call: CommandCall, project: Project): Promise<ChosenStore> {
  const place = storePlace(call, project);
  const isMissing = place.type === "file" && !existsSync(place.path);
  return isMissing && call.text("store") === undefined
    ? await opened(place, memoryStore())
    : await openStoreToView(place, { canPost: false });
}

/**
 * Opens the store for the viewer, which only reads it. `canPost`: a request to a run is put into its
 * mailbox, for which the store is opened a second time when it is needed.
 *
 * @throws as `openKeptStore`.
 */
export async function openStoreToView(
  place: StorePlace,
  { canPost }: { readonly canPost: boolean },
): Promise<ChosenStore> {
  checkThere(place);
  if (place.type === "given") return await opened(place, place.store);
  const kept = await opened(place, await made(place, "read"));
  if (!canPost) return kept;
  let writer: Promise<Store> | undefined;
  const reader = kept.store;
  const store: Store = bound(reader, {
    post: async (runId, post) => {
      writer ??= made(place, "write");
      return await (await writer).post(runId, post);
    },
    close: async () => {
      await reader.close();
      await (await writer)?.close();
    },
  });
  return { store, name: kept.name, [Symbol.asyncDispose]: () => store.close() };
}

/** A store with some methods of another. */
function bound(store: Store, others: Pick<Store, "post" | "close">): Store {
  return new Proxy(store, {
    get: (_store, name) => {
      const method: unknown = Reflect.get(name in others ? others : store, name);
      const own: unknown = typeof method === "function" ? method.bind(store) : method;
      return own;
    },
  });
}

async function opened(place: StorePlace, store: Store): Promise<ChosenStore> {
  // What is wrong with a store shows when it is asked for something.
  try {
    await store.list({ limit: 1 });
  } catch (cause) {
    if (place.type !== "given") await store.close();
    throw cause;
  }
  return { store, name: storeNameOf(place), [Symbol.asyncDispose]: () => store.close() };
}

async function made(place: StorePlace, access: "read" | "write"): Promise<Store> {
  switch (place.type) {
    case "given":
      return place.store;
    case "postgres": {
      const { postgresStore } = await import("espalier/store/postgres");
      return postgresStore({ connectionString: place.address, access });
    }
    case "file": {
      const { sqliteStore } = await import("espalier/store/sqlite");
      return sqliteStore(place.path, { access });
    }
  }
}

/** What a store is called where people read it. */
export function storeNameOf(place: StorePlace): string {
  switch (place.type) {
    case "given":
      return "the store of the configuration";
    case "postgres": {
      const { host, pathname } = new URL(place.address);
      return `postgres://${host}${pathname}`;
    }
    case "file":
      return place.path;
  }
}

/** Nothing in it belongs into a repository: runs hold what was asked and answered. */
export function makeOwnFolder(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const ignore = join(folder, ".gitignore");
  if (!existsSync(ignore)) writeFileSync(ignore, "*\n");
}
