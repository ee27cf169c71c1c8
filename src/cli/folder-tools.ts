// The built-in tools, which only read one folder: list, read, search. Every path from a model is
// resolved before anything is opened, and refused if it leads outside or to a hidden name. Each
// read is verified, because another process may replace folders with links in the meantime:
//
// 1. On Linux an open handle shows where it leads, and `/proc/self/fd` has a path to it that no
//    replacement affects. Everything is read through that path.
// 2. Elsewhere a replacement shows in the folders on the way: a folder has another identity or
//    change time. A result counts only if all folders are unchanged. A file system may give two
//    changes the same time, so a read waits until the next change would have a different time.

import { constants, realpathSync, type Dirent, existsSync } from "node:fs";
import { lstat, open, readdir, realpath, stat, type FileHandle, readlink } from "node:fs/promises";
import { isAbsolute, join, relative, sep, win32 } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { defineTool, type FunctionTool } from "espalier";
import { z } from "zod";

import { findErrorCode } from "./exit-codes.ts";
import { getTimeMs } from "./machine-time.ts";

const MAX_ENTRIES = 200;
const MAX_SHOWN_BYTES = 8_000;
const MAX_WHOLE_BYTES = 100_000;
const MAX_MATCHES = 40;
const MAX_SEARCHED_FILES = 2_000;
const MAX_SEARCHED_BYTES = 512 * 1_024;
const MAX_LINE_LENGTH = 160;

/**
 * Returns `folder_list`, `folder_read` and `folder_search` for the folder `rootFolder`, which must
 * exist.
 */
export function createFolderTools(rootFolder: string): readonly FunctionTool[] {
  const folder = new ConfinedFolder(rootFolder);
  return [createListTool(folder), createReadTool(folder), createSearchTool(folder)];
}

/** Returns `folderTools` and `folder_read_whole`, which needs an approval. */
export function createSurveyTools(rootFolder: string): readonly FunctionTool[] {
  const folder = new ConfinedFolder(rootFolder);
  const wholeFile = defineTool({
    name: "folder_read_whole",
    description: `Reads a text file whole, up to ${MAX_WHOLE_BYTES} bytes. The user is asked first.`,
    inputSchema: z.object({ path }),
    needsApproval: (input) => `Reading ${input.path} whole costs more than its beginning.`,
    execute: async (input) => await showFile(folder, input.path, MAX_WHOLE_BYTES),
  });
  return [...createFolderTools(rootFolder), wholeFile];
}

const path = z.string().max(1_000).meta({
  description:
    'Path relative to the readable folder, for example "docs/guide.md"; "." is the folder itself.',
});

function createListTool(folder: ConfinedFolder): FunctionTool {
  return defineTool({
    name: "folder_list",
    description:
      "Lists the folders and files directly in a folder, sorted by name, files with " +
      "their size. Symbolic links are listed, not followed.",
    inputSchema: z.object({ path }),
    execute: async (input, { signal }) => {
      signal.throwIfAborted();
      const place = await folder.resolve(input.path);
      return await readFolderListing(folder, place);
    },
  });
}

async function readFolderListing(folder: ConfinedFolder, place: FolderPlace) {
  const listing = await folder.list(place);
  const folders = listing.folders.slice(0, MAX_ENTRIES);
  const files = listing.files.slice(0, MAX_ENTRIES - folders.length);
  const sized = files.length === 0 ? [] : await folder.measureSizes(place, files);
  const links = listing.links.slice(0, MAX_ENTRIES - folders.length - files.length);
  const { hidden } = listing;
  const all = listing.folders.length + listing.files.length + listing.links.length;
  const notShown = all - folders.length - files.length - links.length;
  return {
    folder: place.path,
    folders: [...folders],
    files: sized.map(({ name, bytes }) => ({ name, bytes })),
    ...(links.length === 0 ? {} : { links: [...links] }),
    ...(hidden === 0 ? {} : { hidden }),
    ...(notShown === 0 ? {} : { notShown }),
  };
}

function createReadTool(folder: ConfinedFolder): FunctionTool {
  return defineTool({
    name: "folder_read",
    description:
      `Reads the first ${MAX_SHOWN_BYTES} bytes of a text file. The first line of the result ` +
      "names the file and its size. Of a binary file there is nothing else.",
    inputSchema: z.object({ path }),
    execute: async (input, { signal }) => {
      signal.throwIfAborted();
      return await showFile(folder, input.path, MAX_SHOWN_BYTES);
    },
  });
}

/**
 * Returns the beginning of a text file below a line with its name and size. For a binary file,
 * returns only that line, because an error would count against the agent.
 */
async function showFile(folder: ConfinedFolder, path: string, maxBytes: number): Promise<string> {
  const place = await folder.resolve(path);
  const { bytes, size } = await folder.read(place, maxBytes);
  const text = decodeText(bytes, size > bytes.length);
  if (text === undefined) return `${place.path} (${size} bytes, not text, not shown)`;
  const shown = size > bytes.length ? `, the first ${bytes.length} are shown` : "";
  return `${place.path} (${size} bytes${shown})\n${text}`;
}

function createSearchTool(folder: ConfinedFolder): FunctionTool {
  return defineTool({
    name: "folder_search",
    description:
      "Finds a text, ignoring case, in the files of a folder and its subfolders, or in one " +
      `file. Returns the first ${MAX_MATCHES} lines.`,
    inputSchema: z.object({ text: z.string().min(1).max(200), path: path.default(".") }),
    execute: async (input, { signal }) => await searchFiles(folder, input, signal),
  });
}

async function searchFiles(
  folder: ConfinedFolder,
  input: { readonly text: string; readonly path: string },
  signal: AbortSignal,
) {
  const needle = input.text.toLowerCase();
  const matches: Awaited<ReturnType<typeof searchFile>>["matches"] = [];
  let filesSearched = 0;
  let isComplete = true;
  const start = await folder.resolve(input.path);
  for await (const path of walkFiles(folder, start.path, signal)) {
    if (filesSearched >= MAX_SEARCHED_FILES || matches.length >= MAX_MATCHES) {
      isComplete = false;
      break;
    }
    filesSearched += 1;
    const inFile = await searchFile(folder, path, needle);
    matches.push(...inFile.matches);
    isComplete &&= inFile.isComplete;
  }
  const shown = matches.slice(0, MAX_MATCHES);
  return {
    text: input.text,
    matches: shown.map((match) => ({ ...match })),
    filesSearched,
    isComplete: isComplete && shown.length === matches.length,
  };
}

/**
 * Yields the paths of all files of a folder in order, folder by folder. Links are not followed, so
 * cycles are impossible. A file, or a folder that cannot be listed, yields its own path.
 */
async function* walkFiles(
  folder: ConfinedFolder,
  path: string,
  signal: AbortSignal,
): AsyncGenerator<string> {
  signal.throwIfAborted();
  let listing: FolderListing;
  try {
    listing = await folder.list(await folder.resolve(path));
  } catch {
    yield path;
    return;
  }
  const inside = path === "." ? "" : `${path}/`;
  for (const name of listing.files) {
    signal.throwIfAborted();
    yield inside + name;
  }
  for (const name of listing.folders) yield* walkFiles(folder, inside + name, signal);
}

/**
 * Returns the matches in one file. `isComplete` is false if a part of the file was not searched. An
 * unreadable file does not end the search.
 */
async function searchFile(folder: ConfinedFolder, path: string, needle: string) {
  let excerpt: Excerpt;
  try {
    excerpt = await folder.read(await folder.resolve(path), MAX_SEARCHED_BYTES);
  } catch {
    return { matches: [], isComplete: false };
  }
  const isCut = excerpt.size > excerpt.bytes.length;
  const lines = (decodeText(excerpt.bytes, isCut) ?? "").split("\n");
  const matches = lines.flatMap((line, index) => {
    if (!line.toLowerCase().includes(needle)) return [];
    return [{ path, line: index + 1, text: line.trim().slice(0, MAX_LINE_LENGTH) }];
  });
  return { matches, isComplete: !isCut };
}

/**
 * Decodes bytes as text. `undefined` for binary data. A character that the end cuts in two is left
 * out.
 */
function decodeText(bytes: Uint8Array, isCut: boolean): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isCut });
  } catch {
    return undefined;
  }
}

/** A file or folder within the root. */
interface FolderPlace {
  /** Path as models write it: relative to the root, with `/`. `.` is the root itself. */
  readonly path: string;
  /** Resolved path. */
  readonly realPath: string;
}

interface FolderListing {
  readonly folders: readonly string[];
  readonly files: readonly string[];
  /** Symbolic links. They are listed, but never followed. */
  readonly links: readonly string[];
  /** Number of hidden entries. */
  readonly hidden: number;
}

interface SizedFile {
  readonly name: string;
  readonly bytes: number;
}

/** The first bytes of a file, and its length. */
interface Excerpt {
  readonly bytes: Uint8Array;
  readonly size: number;
}

/** A folder. Access to hidden names and to outside paths is refused. */
export class ConfinedFolder {
  readonly #root: string;
  readonly #hasHandles: boolean | undefined;

  /** `hasHandles` is the argument of `readVerified`. Throws if the folder does not exist. */
  constructor(rootFolder: string, hasHandles?: boolean) {
    this.#root = realpathSync(rootFolder);
    this.#hasHandles = hasHandles;
  }

  /** Resolves a path. Throws if it is not allowed, or does not exist. */
  resolve(path: string): Promise<FolderPlace> {
    return resolvePlace(this.#root, path);
  }

  /** Returns the entries of a folder, sorted by name. Throws if the place is not a folder. */
  list(place: FolderPlace): Promise<FolderListing> {
    return this.#read(place, "listed", readListing);
  }

  /** Returns the sizes of some files in a folder, which may have too many to measure all. */
  measureSizes(place: FolderPlace, names: readonly string[]): Promise<readonly SizedFile[]> {
    return this.#read(place, "listed", async (folder) => {
      const sizes = await Promise.all(names.map((name) => measureFile(folder, name)));
      return sizes.flat();
    });
  }

  /** Returns the beginning of a file. Throws if the place is not a regular file. */
  read(place: FolderPlace, maxBytes: number): Promise<Excerpt> {
    return this.#read(place, "read", (path) => readExcerpt(path, maxBytes));
  }

  /** Calls `read` with a verified path to a place. */
  async #read<Result>(
    { path, realPath }: FolderPlace,
    verb: "listed" | "read",
    read: (path: string) => Promise<Result>,
  ): Promise<Result> {
    const root = this.#root;
    const isAllowed = (real: string): boolean => isVisibleIn(root, real);
    try {
      return await readVerified({ root, realPath, isAllowed }, read, this.#hasHandles);
    } catch (cause) {
      throw createFolderError(path, verb, cause);
    }
  }
}

const OFF_LIMITS = "node_modules";

async function resolvePlace(root: string, path: string): Promise<FolderPlace> {
  const wanted = path.trim() === "" ? "." : path;
  if (isAbsolute(wanted) || win32.isAbsolute(wanted)) {
    throw new Error(`${quotePath(path)} is an absolute path. ${PATHS_ARE}`);
  }
  const segments = splitPath(wanted);
  if (segments.includes(".."))
    throw new Error(`${quotePath(path)} leaves the folder with "..". ${PATHS_ARE}`);
  checkVisible(segments, path);
  const realPath = await follow(join(root, wanted), path);
  const inside = relative(root, realPath);
  const realSegments = splitPath(inside);
  if (realSegments[0] === ".." || isAbsolute(inside)) {
    throw new Error(
      `${quotePath(path)} is, or is reached by, a link to a place outside the folder. ${NOT_ALLOWED}`,
    );
  }
  checkVisible(realSegments, path);
  return { path: segments.length === 0 ? "." : segments.join("/"), realPath };
}

const PATHS_ARE =
  'Use a path relative to the folder, for example "docs/guide.md"; "." is the folder itself.';
const NOT_ALLOWED = "Continue without it.";

function checkVisible(segments: readonly string[], path: string): void {
  if (!segments.some(isHidden)) return;
  throw new Error(
    `${quotePath(path)} is not readable: hidden names and ${OFF_LIMITS} are excluded. ${NOT_ALLOWED}`,
  );
}

/** Returns true for a hidden name. Ignores case, as some file systems do. */
function isHidden(name: string): boolean {
  return name.startsWith(".") || name.toLowerCase() === OFF_LIMITS;
}

function isVisibleIn(root: string, realPath: string): boolean {
  const inside = relative(root, realPath);
  return !isAbsolute(inside) && !splitPath(inside).some(isHidden);
}

function splitPath(path: string): readonly string[] {
  return path
    .split(sep)
    .flatMap((part) => part.split("/"))
    .filter((segment) => segment !== "" && segment !== ".");
}

async function follow(absolutePath: string, path: string): Promise<string> {
  try {
    return await realpath(absolutePath);
  } catch (cause) {
    throw new Error(
      `There is no ${quotePath(path)} (${findErrorCode(cause) ?? "unknown error"}). List its folder to see what there is.`,
      { cause },
    );
  }
}

async function readListing(folder: string): Promise<FolderListing> {
  const entries = await readdir(folder, { withFileTypes: true });
  const visible = entries.filter((entry) => !isHidden(entry.name));
  const listNames = (isWanted: (entry: Dirent) => boolean): readonly string[] =>
    visible.flatMap((entry) => (isWanted(entry) ? [entry.name] : [])).toSorted();
  return {
    folders: listNames((entry) => entry.isDirectory()),
    files: listNames((entry) => entry.isFile()),
    links: listNames((entry) => entry.isSymbolicLink()),
    hidden: entries.length - visible.length,
  };
}

/** Returns an empty list for a file that has just disappeared. */
async function measureFile(folder: string, name: string): Promise<readonly SizedFile[]> {
  try {
    return [{ name, bytes: (await lstat(join(folder, name))).size }];
  } catch {
    return [];
  }
}

function createFolderError(path: string, verb: "listed" | "read", cause: unknown): Error {
  if (cause instanceof WrongKind)
    return new Error(`${quotePath(path)} ${cause.message}`, { cause });
  if (verb === "listed" && findErrorCode(cause) === "ENOTDIR")
    return new Error(`${quotePath(path)} is a file, not a folder. Read it.`, { cause });
  const why =
    cause instanceof MovedError
      ? ": another process moved it meanwhile. Try again, or continue without it."
      : ` (${findErrorCode(cause) ?? "unknown error"}).`;
  return new Error(`${quotePath(path)} cannot be ${verb}${why}`, { cause });
}

/** The place is not a regular file. The message follows its path. */
class WrongKind extends Error {}

async function readExcerpt(path: string, maxBytes: number): Promise<Excerpt> {
  const kind = await stat(path);
  if (kind.isDirectory()) throw new WrongKind("is a folder, not a file. List it.");
  if (!kind.isFile()) throw new WrongKind(`is not a regular file. ${NOT_ALLOWED}`);
  // Without blocking: except on Linux, the file may just have been replaced by a pipe.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const { size } = await file.stat();
    return { bytes: await readFirstBytes(file, Math.min(maxBytes, size)), size };
  } finally {
    await file.close();
  }
}

async function readFirstBytes(file: FileHandle, count: number): Promise<Uint8Array> {
  const buffer = new Uint8Array(count);
  let filled = 0;
  while (filled < count) {
    const { bytesRead } = await file.read(buffer, filled, count - filled, filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

function quotePath(path: string): string {
  return JSON.stringify(path);
}

/** A place below a root by its resolved path, and the check of resolved paths. */
interface VerifiedPlace {
  readonly root: string;
  readonly realPath: string;
  readonly isAllowed: (realPath: string) => boolean;
}

/** Another file or folder is now at the place. */
class MovedError extends Error {}

/** Opens only a handle, without effects on a pipe or device. Node has no constant for it. */
const O_PATH = 0o10000000;
const HANDLES = "/proc/self/fd";
const HAS_HANDLES = process.platform === "linux" && existsSync(HANDLES);
const MAX_ATTEMPTS = 5;

/**
 * Returns the result of `read` for a place. `read` gets a path to it, and may be called again.
 *
 * @throws MovedError if the place leads elsewhere by now, or changes with each attempt.
 */
export async function readVerified<Result>(
  place: VerifiedPlace,
  read: (path: string) => Promise<Result>,
  hasHandles = HAS_HANDLES,
): Promise<Result> {
  if (hasHandles) return await readByHandle(place, read);
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const before = await readPathIdentity(place);
    await sleepUntilSettled(before.changedNs);
    const [outcome] = await Promise.allSettled([read(place.realPath)]);
    if ((await readPathIdentity(place)).identity !== before.identity) continue;
    if (outcome.status === "fulfilled") return outcome.value;
    throw outcome.reason;
  }
  throw new MovedError("The folders on the way change.");
}

async function readByHandle<Result>(
  { realPath, isAllowed }: VerifiedPlace,
  read: (path: string) => Promise<Result>,
): Promise<Result> {
  const handle = await open(realPath, O_PATH | constants.O_NOFOLLOW);
  try {
    const path = `${HANDLES}/${handle.fd}`;
    const isLink = (await handle.stat()).isSymbolicLink();
    if (isLink || !isAllowed(await readlink(path))) throw new MovedError("It leads elsewhere.");
    return await read(path);
  } finally {
    await handle.close();
  }
}

const NS_PER_MS = 1_000_000n;
const NS_PER_SECOND = 1_000_000_000n;
/** Resolution of change times: the timer tick of the system, at most 16 ms. */
const TICK_MS = 20;
/** Resolution on file systems that store whole seconds, or every second one. */
const WHOLE_SECONDS_MS = 2_100;

/** Waits until a change would have a different time than this one. */
async function sleepUntilSettled(changedNs: bigint): Promise<void> {
  const granularityMs = changedNs % NS_PER_SECOND === 0n ? WHOLE_SECONDS_MS : TICK_MS;
  const ageMs = getTimeMs() - Number(changedNs / NS_PER_MS);
  // The clock of a file server may be ahead.
  if (ageMs <= granularityMs) await sleep(granularityMs);
}

/**
 * Returns the identities of the folders from the root to a place, with the times of their last
 * change, and the identity of the place itself. `identity` is the same if nothing on the way has
 * changed; `changedNs` is the time of the last change of a folder.
 *
 * @throws MovedError if a folder on the way is a link.
 */
async function readPathIdentity({ root, realPath }: VerifiedPlace) {
  const names = relative(root, realPath).split(sep).filter(Boolean);
  const seen: string[] = [];
  let changedNs = 0n;
  let path = root;
  // From the root down: replacing a folder after its check changes its parent, which was checked
  // before.
  for (const name of [undefined, ...names]) {
    if (name !== undefined) path = join(path, name);
    const stats = await lstat(path, { bigint: true });
    const { dev, ino, mtimeNs, ctimeNs } = stats;
    if (stats.isSymbolicLink()) throw new MovedError("A link leads elsewhere.");
    seen.push(stats.isDirectory() ? `${dev} ${ino} ${mtimeNs} ${ctimeNs}` : `${dev} ${ino}`);
    if (!stats.isDirectory()) continue;
    // FAT has no change time, only the modification time of the entries.
    const ownNs = ctimeNs > 0n ? ctimeNs : mtimeNs;
    if (ownNs > changedNs) changedNs = ownNs;
  }
  return { identity: seen.join("\n"), changedNs };
}
