// One folder, and no way out of it: every path that a model writes goes through here before
// anything is opened. What a path names is decided after all links in it are followed; whatever
// leads outside is refused, and so are hidden names (`.env`, `.git`, …) and `node_modules`. The
// same is decided of what was opened, since another process may swap folders for links meanwhile
// (`verified-path.ts`). A hard link is a file of the folder. The messages are written for the model.

import { constants, realpathSync, type Dirent } from "node:fs";
import { lstat, open, readdir, realpath, stat, type FileHandle } from "node:fs/promises";
import { isAbsolute, join, relative, sep, win32 } from "node:path";

import { codeOf } from "./usage-error.ts";
import { MovedError, readVerified } from "./verified-path.ts";

/** Something in the folder. */
export interface FolderPlace {
  /** As a model writes it: relative to the folder, with `/`; `.` is the folder itself. */
  readonly path: string;
  /** Where it really is. */
  readonly realPath: string;
}

export interface Listing {
  readonly folders: readonly string[];
  readonly files: readonly string[];
  /** Symbolic links. They are named, never followed. */
  readonly links: readonly string[];
  /** Entries that are hidden. */
  readonly hidden: number;
}

export interface SizedFile {
  readonly name: string;
  readonly bytes: number;
}

/** The first bytes of a file, and its length. */
export interface Excerpt {
  readonly bytes: Uint8Array;
  readonly size: number;
}

/** One folder. What lies outside of it, or is hidden, is refused. */
export class ConfinedFolder {
  readonly #root: string;
  readonly #hasHandles: boolean | undefined;

  /** `hasHandles`: see `readVerified`. Throws if the folder cannot be found. */
  constructor(rootFolder: string, hasHandles?: boolean) {
    this.#root = realpathSync(rootFolder);
    this.#hasHandles = hasHandles;
  }

  /** Finds what a path names. Throws if it is not allowed, or not there. */
  place(path: string): Promise<FolderPlace> {
    return placeIn(this.#root, path);
  }

  /** Returns what lies directly in a folder, sorted by name. Throws if it is no folder. */
  list(place: FolderPlace): Promise<Listing> {
    return this.#read(place, "listed", listed);
  }

  /** Returns the sizes of files in a folder: a folder may have too many to measure all. */
  sizes(place: FolderPlace, names: readonly string[]): Promise<readonly SizedFile[]> {
    return this.#read(place, "listed", async (folder) => {
      const sizes = await Promise.all(names.map((name) => sizeOf(folder, name)));
      return sizes.flat();
    });
  }

  /** Returns the beginning of a file. Throws if it is no regular file. */
  read(place: FolderPlace, maxBytes: number): Promise<Excerpt> {
    return this.#read(place, "read", (path) => excerptOf(path, maxBytes));
  }

  /** Gives `read` a path to a place. See `readVerified`. */
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
      throw failure(path, verb, cause);
    }
  }
}

const OFF_LIMITS = "node_modules";

async function placeIn(root: string, path: string): Promise<FolderPlace> {
  const wanted = path.trim() === "" ? "." : path;
  if (isAbsolute(wanted) || win32.isAbsolute(wanted)) {
    throw new Error(`${quoted(path)} is an absolute path. ${PATHS_ARE}`);
  }
  const segments = segmentsOf(wanted);
  if (segments.includes(".."))
    throw new Error(`${quoted(path)} goes upwards with "..". ${PATHS_ARE}`);
  checkVisible(segments, path);
  const realPath = await follow(join(root, wanted), path);
  const inside = relative(root, realPath);
  const realSegments = segmentsOf(inside);
  if (realSegments[0] === ".." || isAbsolute(inside)) {
    throw new Error(
      `${quoted(path)} is or lies behind a link that leads out of the folder. ${NOT_ALLOWED}`,
    );
  }
  checkVisible(realSegments, path);
  return { path: segments.length === 0 ? "." : segments.join("/"), realPath };
}

const PATHS_ARE =
  'Paths are relative to the folder, as in "docs/guide.md"; "." is the folder itself.';
const NOT_ALLOWED = "Leave it out.";

function checkVisible(segments: readonly string[], path: string): void {
  if (!segments.some(isHidden)) return;
  throw new Error(
    `${quoted(path)} is off limits: hidden names and ${OFF_LIMITS} are left out. ${NOT_ALLOWED}`,
  );
}

/** The case of names may not count. */
function isHidden(name: string): boolean {
  return name.startsWith(".") || name.toLowerCase() === OFF_LIMITS;
}

function isVisibleIn(root: string, realPath: string): boolean {
  const inside = relative(root, realPath);
  return !isAbsolute(inside) && !segmentsOf(inside).some(isHidden);
}

function segmentsOf(path: string): readonly string[] {
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
      `There is no ${quoted(path)} (${codeOf(cause) ?? "unknown error"}). List its folder to see what there is.`,
      { cause },
    );
  }
}

async function listed(folder: string): Promise<Listing> {
  const entries = await readdir(folder, { withFileTypes: true });
  const visible = entries.filter((entry) => !isHidden(entry.name));
  const namesOf = (isWanted: (entry: Dirent) => boolean): readonly string[] =>
    visible.flatMap((entry) => (isWanted(entry) ? [entry.name] : [])).toSorted();
  return {
    folders: namesOf((entry) => entry.isDirectory()),
    files: namesOf((entry) => entry.isFile()),
    links: namesOf((entry) => entry.isSymbolicLink()),
    hidden: entries.length - visible.length,
  };
}

/** Empty for a file that was there a moment ago. */
async function sizeOf(folder: string, name: string): Promise<readonly SizedFile[]> {
  try {
    return [{ name, bytes: (await lstat(join(folder, name))).size }];
  } catch {
    return [];
  }
}

function failure(path: string, verb: "listed" | "read", cause: unknown): Error {
  if (cause instanceof WrongKind) return new Error(`${quoted(path)} ${cause.message}`, { cause });
  if (verb === "listed" && codeOf(cause) === "ENOTDIR")
    return new Error(`${quoted(path)} is a file, not a folder. Read it.`, { cause });
  const why =
    cause instanceof MovedError
      ? ": another process moved it meanwhile. Try again, or leave it out."
      : ` (${codeOf(cause) ?? "unknown error"}).`;
  return new Error(`${quoted(path)} cannot be ${verb}${why}`, { cause });
}

/** The place is not a regular file. The message follows its path. */
class WrongKind extends Error {}

async function excerptOf(path: string, maxBytes: number): Promise<Excerpt> {
  const kind = await stat(path);
  if (kind.isDirectory()) throw new WrongKind("is a folder, not a file. List it.");
  if (!kind.isFile()) throw new WrongKind(`is no regular file. ${NOT_ALLOWED}`);
  // Without waiting: elsewhere than on Linux a pipe may have been put there a moment ago.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const { size } = await file.stat();
    return { bytes: await firstBytes(file, Math.min(maxBytes, size)), size };
  } finally {
    await file.close();
  }
}

async function firstBytes(file: FileHandle, count: number): Promise<Uint8Array> {
  const buffer = new Uint8Array(count);
  let filled = 0;
  while (filled < count) {
    const { bytesRead } = await file.read(buffer, filled, count - filled, filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return buffer.subarray(0, filled);
}

function quoted(path: string): string {
  return JSON.stringify(path);
}
