// The project of the working folder: its folder, its configuration, and its store.

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import { memoryStore } from "espalier";
import type { EspalierConfig } from "espalier/config";
import type { Store } from "espalier/extend";

import { importFile } from "./import-file.ts";
import { type Shell, readSetting } from "./shell.ts";
import { describeCause, UsageError } from "./exit-codes.ts";
import type { CommandCall } from "./command-call.ts";

export interface Project {
  /** Folder of the configuration, else of package.json or .git, else the working folder. */
  readonly folder: string;
  readonly config: EspalierConfig;
  /** `undefined` without a configuration; `config` is then empty. */
  readonly configFile: string | undefined;
}

const CONFIG_NAMES = ["espalier.config.ts", "espalier.config.js", "espalier.config.mjs"];
/** Entries that mark the root of a project. Its parent folders are not searched. */
const ENDS = ["package.json", ".git"];

/**
 * Finds the project of the working folder, and loads its configuration.
 *
 * @throws UsageError for a configuration that cannot be loaded. Also throws the errors of
 * `defineConfig`.
 */
export async function findProject(shell: Shell): Promise<Project> {
  const { cwd } = shell;
  for (let folder = cwd; ; folder = dirname(folder)) {
    const configFile = findFirstFile(folder, CONFIG_NAMES);
    if (configFile !== undefined) {
      const config = await checkConfigExport(await importFile(configFile, shell), configFile);
      return { folder, config, configFile };
    }
    if (findFirstFile(folder, ENDS) !== undefined) return createBareProject(folder);
    if (dirname(folder) === folder) return createBareProject(cwd);
  }
}

function createBareProject(folder: string): Project {
  return { folder, config: {}, configFile: undefined };
}

/** Returns the export of a file as a configuration. Throws UsageError if it is invalid. */
export async function checkConfigExport(value: unknown, file: string): Promise<EspalierConfig> {
  const { defineConfig } = await import("espalier/config");
  try {
    if (isPossibleConfig(value)) return defineConfig(value);
  } catch (cause) {
    throw new UsageError(`${file}: ${describeCause(cause)}`, {
      cause,
    });
  }
  throw new UsageError(
    `${file}: Expected the default export to be defineConfig({ … }), got something else.`,
  );
}

/** `defineConfig` checks every field. */
function isPossibleConfig(value: unknown): value is EspalierConfig {
  return typeof value === "object" && value !== null;
}

function findFirstFile(folder: string, names: readonly string[]): string | undefined {
  return names.map((name) => join(folder, name)).find((file) => existsSync(file));
}

/** A store with its name. The owner must close it. */
export interface ChosenStore extends AsyncDisposable {
  readonly store: Store;
  /**
   * Name for people: the path relative to the working folder, or the address without a password.
   */
  readonly name: string;
}

/** Location of a store before it is opened. */
export type StorePlace =
  | { readonly type: "file"; readonly path: string; readonly isDefault: boolean }
  | { readonly type: "postgres"; readonly address: string }
  | { readonly type: "given"; readonly store: Store };

/** Folder of a project for files of espalier. */
export const DEFAULT_FOLDER = ".espalier";
const DEFAULT_FILE = "runs.db";
const POSTGRES = /^postgres(ql)?:\/\//;

/** Returns the location of the store of a command. Opens and creates nothing. */
export function chooseStorePlace(
  { shell, text }: CommandCall,
  { folder, config }: Project,
): StorePlace {
  const option = text("store");
  if (option !== undefined) return parseStorePlace(option, shell.cwd);
  const { store } = config;
  if (typeof store === "string") return parseStorePlace(store, folder);
  if (store !== undefined) return { type: "given", store };
  const named = readSetting(shell.env, "ESPALIER_STORE");
  if (named !== undefined) return parseStorePlace(named, shell.cwd);
  return { type: "file", path: join(folder, DEFAULT_FOLDER, DEFAULT_FILE), isDefault: true };
}

function parseStorePlace(text: string, folder: string): StorePlace {
  if (text.trim() === "")
    throw new UsageError("Expected --store to be a path or postgres://…, got nothing.");
  if (POSTGRES.test(text)) return { type: "postgres", address: text };
  return { type: "file", path: resolve(folder, text), isDefault: false };
}

/**
 * Opens the store for a command that writes. Creates the file if necessary, and a `.gitignore` in
 * the default folder. Reports problems of the store at once.
 *
 * @throws EspalierError `store_failed`, `unsupported_version`, or `invalid_argument` with the name
 * of a missing package.
 */
export async function openStore(place: StorePlace): Promise<ChosenStore> {
  if (place.type === "file" && place.isDefault) createOwnFolder(resolve(place.path, ".."));
  return await probeStore(place, await openStorePlace(place, "write"));
}

const WAYS_TO_NAME_STORE =
  "name your store: --store desk.db, ESPALIER_STORE, or `store` in espalier.config.ts";

/** Returns the advice for a store without runs. `command` is the name of the command. */
export function adviseWithoutRuns({ isDefault }: ProjectStore, command: string): string {
  return `Start one: ${command} run …${isDefault ? `, or ${WAYS_TO_NAME_STORE}.` : ""}`;
}

/** Throws UsageError if the file does not exist. */
function checkStoreExists(place: StorePlace): void {
  if (place.type !== "file" || existsSync(place.path)) return;
  const advice = place.isDefault
    ? `Start a run: espalier run …, or ${WAYS_TO_NAME_STORE}.`
    : "Check the path.";
  throw new UsageError(`Cannot open the store ${place.path}: no such file. ${advice}`);
}

/**
 * Use of a store. `list`: an empty store if the project has no runs. `view`: the store is read, and
 * accepts messages to mailboxes.
 */
type StoreUse = "write" | "read" | "list" | "view";

/** The store of a project. `isDefault` is true if no option or setting names a store. */
interface ProjectStore extends ChosenStore {
  readonly project: Project;
  readonly isDefault: boolean;
}

/**
 * Opens the store of the project of the working folder, for a command that works with its runs.
 *
 * @throws the errors of `findProject` and `openStore`, and UsageError if the file does not exist.
 * It is never created.
 */
export async function openProjectStore(call: CommandCall, use: StoreUse): Promise<ProjectStore> {
  const project = await findProject(call.shell);
  const place = chooseStorePlace(call, project);
  const isEmpty = use === "list" && place.type === "file" && !existsSync(place.path);
  const chosenStore =
    isEmpty && call.text("store") === undefined
      ? await probeStore(place, memoryStore())
      : await openExistingStore(place, use);
  return { ...chosenStore, project, isDefault: place.type === "file" && place.isDefault };
}

/**
 * Opens an existing store. With `view`, messages to mailboxes are written through a second
 * connection, which is opened when it is needed.
 *
 * @throws the errors of `openProjectStore`.
 */
export async function openExistingStore(place: StorePlace, use: StoreUse): Promise<ChosenStore> {
  checkStoreExists(place);
  const chosenStore = await probeStore(
    place,
    await openStorePlace(place, use === "write" ? "write" : "read"),
  );
  if (use !== "view" || place.type === "given") return chosenStore;
  let writer: Promise<Store> | undefined;
  const reader = chosenStore.store;
  const store: Store = overrideStoreMethods(reader, {
    sendMail: async (runId, post) => {
      writer ??= openStorePlace(place, "write");
      return await (await writer).sendMail(runId, post);
    },
    close: async () => {
      await reader.close();
      await (await writer)?.close();
    },
  });
  return { store, name: chosenStore.name, [Symbol.asyncDispose]: () => store.close() };
}

/** Returns a proxy of a store that overrides some methods. */
function overrideStoreMethods(store: Store, others: Pick<Store, "sendMail" | "close">): Store {
  return new Proxy(store, {
    get: (_store, name) => {
      const method: unknown = Reflect.get(name in others ? others : store, name);
      const bound: unknown = typeof method === "function" ? method.bind(store) : method;
      return bound;
    },
  });
}

async function probeStore(place: StorePlace, store: Store): Promise<ChosenStore> {
  // Problems of a store appear at the first request.
  try {
    await store.list({ limit: 1 });
  } catch (cause) {
    if (place.type !== "given") await store.close();
    throw cause;
  }
  return { store, name: formatStoreName(place), [Symbol.asyncDispose]: () => store.close() };
}

async function openStorePlace(place: StorePlace, access: "read" | "write"): Promise<Store> {
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

/** Returns the name of a store for people. */
export function formatStoreName(place: StorePlace): string {
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

/**
 * Creates the folder with a `.gitignore`, because its files contain prompts and answers of runs.
 */
export function createOwnFolder(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const ignore = join(folder, ".gitignore");
  if (!existsSync(ignore)) writeFileSync(ignore, "*\n");
}
