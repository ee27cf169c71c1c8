// The project in which a command is run: its folder, its configuration, and its store.

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
  /** That of the configuration; without one that of package.json or .git; without these the working folder. */
  readonly folder: string;
  readonly config: EspalierConfig;
  /** Undefined: there is none, and `config` is empty. */
  readonly configFile: string | undefined;
}

const CONFIG_NAMES = ["espalier.config.ts", "espalier.config.js", "espalier.config.mjs"];
/** Where a project ends: nothing above is looked at. */
const ENDS = ["package.json", ".git"];

/**
 * Finds the project of the working folder, and loads its configuration.
 *
 * @throws UsageError for a configuration that cannot be loaded; what `defineConfig` throws.
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

/** What a file has exported, if it is a configuration. Throws UsageError. */
export async function checkConfigExport(given: unknown, file: string): Promise<EspalierConfig> {
  const { defineConfig } = await import("espalier/config");
  try {
    if (isPossibleConfig(given)) return defineConfig(given);
  } catch (cause) {
    throw new UsageError(`${file}: ${describeCause(cause)}`, {
      cause,
    });
  }
  throw new UsageError(
    `${file}: Expected the default export to be defineConfig({ … }), got something else.`,
  );
}

/** \`defineConfig\` checks every field. */
function isPossibleConfig(given: unknown): given is EspalierConfig {
  return typeof given === "object" && given !== null;
}

function findFirstFile(folder: string, names: readonly string[]): string | undefined {
  return names.map((name) => join(folder, name)).find((file) => existsSync(file));
}

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
export function chooseStorePlace(
  { shell, text }: CommandCall,
  { folder, config }: Project,
): StorePlace {
  const said = text("store");
  if (said !== undefined) return parseStorePlace(said, shell.cwd);
  const { store } = config;
  if (typeof store === "string") return parseStorePlace(store, folder);
  if (store !== undefined) return { type: "given", store };
  const named = readSetting(shell.env, "ESPALIER_STORE");
  if (named !== undefined) return parseStorePlace(named, shell.cwd);
  return { type: "file", path: join(folder, DEFAULT_FOLDER, DEFAULT_FILE), isDefault: true };
}

function parseStorePlace(said: string, folder: string): StorePlace {
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
  if (place.type === "file" && place.isDefault) createOwnFolder(resolve(place.path, ".."));
  return await probeStore(place, await openStorePlace(place, "write"));
}

const WAYS_TO_NAME_STORE =
  "name your store: --store desk.db, ESPALIER_STORE, or `store` in espalier.config.ts";

/** Returns what to do in a store without runs. `command`: how this command is called. */
export function adviseWithoutRuns({ isDefault }: ProjectStore, command: string): string {
  return `Start one: ${command} run …${isDefault ? `, or ${WAYS_TO_NAME_STORE}.` : ""}`;
}

/** Throws UsageError if there is no such file. */
function checkStoreExists(place: StorePlace): void {
  if (place.type !== "file" || existsSync(place.path)) return;
  const advice = place.isDefault
    ? `Start a run: espalier run …, or ${WAYS_TO_NAME_STORE}.`
    : "Check the path.";
  throw new UsageError(`Cannot open the store ${place.path}: no such file. ${advice}`);
}

/** `list`: an empty store if the project has no runs. `view`: the store is read, and takes posts. */
type StoreUse = "write" | "read" | "list" | "view";

/** The store of a project. `isDefault`: nothing names a store. */
interface ProjectStore extends ChosenStore {
  readonly project: Project;
  readonly isDefault: boolean;
}

/**
 * Opens the store of the project of the working folder, for a command that works with its runs.
 *
 * @throws as `findProject` and `openStore`; UsageError if there is no such file: none is made.
 */
export async function openProjectStore(call: CommandCall, use: StoreUse): Promise<ProjectStore> {
  const project = await findProject(call.shell);
  const place = chooseStorePlace(call, project);
  const isEmpty = use === "list" && place.type === "file" && !existsSync(place.path);
  const kept =
    isEmpty && call.text("store") === undefined
      ? await probeStore(place, memoryStore())
      : await openExistingStore(place, use);
  return { ...kept, project, isDefault: place.type === "file" && place.isDefault };
}

/**
 * Opens a store that is there. To `view`, a request to a run is put into its mailbox, for which the
 * store is opened a second time when it is needed.
 *
 * @throws as `openProjectStore`.
 */
export async function openExistingStore(place: StorePlace, use: StoreUse): Promise<ChosenStore> {
  checkStoreExists(place);
  const kept = await probeStore(
    place,
    await openStorePlace(place, use === "write" ? "write" : "read"),
  );
  if (use !== "view" || place.type === "given") return kept;
  let writer: Promise<Store> | undefined;
  const reader = kept.store;
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
  return { store, name: kept.name, [Symbol.asyncDispose]: () => store.close() };
}

/** A store with some methods of another. */
function overrideStoreMethods(store: Store, others: Pick<Store, "sendMail" | "close">): Store {
  return new Proxy(store, {
    get: (_store, name) => {
      const method: unknown = Reflect.get(name in others ? others : store, name);
      const own: unknown = typeof method === "function" ? method.bind(store) : method;
      return own;
    },
  });
}

async function probeStore(place: StorePlace, store: Store): Promise<ChosenStore> {
  // What is wrong with a store shows when it is asked for something.
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

/** What a store is called where people read it. */
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

/** Nothing in it belongs into a repository: runs hold what was asked and answered. */
export function createOwnFolder(folder: string): void {
  mkdirSync(folder, { recursive: true });
  const ignore = join(folder, ".gitignore");
  if (!existsSync(ignore)) writeFileSync(ignore, "*\n");
}
