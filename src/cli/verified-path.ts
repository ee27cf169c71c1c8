// Reads files and folders below a root while another process may swap folders for links.
//
// 1. On Linux an open handle tells where it leads, and `/proc/self/fd` has a path to it that no swap
//    changes. Everything is read through that path.
// 2. Elsewhere a swap shows in the folders on the way: one is another folder, or its time of change
//    differs. A result counts only if all of them are as they were before. A file system may give two
//    changes the same time: a read waits until the next change must have another time than the last.

import { constants, existsSync } from "node:fs";
import { lstat, open, readlink } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { wallTimeMs } from "./machine-time.ts";

/** Something below a root, by its real path, and which real paths may be read. */
export interface VerifiedPlace {
  readonly root: string;
  readonly realPath: string;
  readonly isAllowed: (realPath: string) => boolean;
}

/** Another file or folder stands where the place was. */
export class MovedError extends Error {}

/** Opens nothing yet: neither a pipe nor a device notices. Node has no name for it. */
const O_PATH = 0o10000000;
const HANDLES = "/proc/self/fd";
const HAS_HANDLES = process.platform === "linux" && existsSync(HANDLES);
const MOST_ATTEMPTS = 5;

/**
 * Returns what `read` returns of a place. `read` gets a path to it and may be called again.
 *
 * @throws MovedError if the place leads elsewhere by now, or changes with each attempt.
 */
export async function readVerified<Result>(
  place: VerifiedPlace,
  read: (path: string) => Promise<Result>,
  hasHandles = HAS_HANDLES,
): Promise<Result> {
  if (hasHandles) return await readByHandle(place, read);
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt += 1) {
    const before = await wayTo(place);
    await sleepUntilSettled(before.changedNs);
    const [outcome] = await Promise.allSettled([read(place.realPath)]);
    if ((await wayTo(place)).identity !== before.identity) continue;
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
/** Times of change are as fine as the timer tick of the system: at most 16 ms. */
const TICK_MS = 20;
/** Some file systems keep whole seconds, or every other one. */
const WHOLE_SECONDS_MS = 2_100;

/** Waits until a change would have another time than this last one. */
async function sleepUntilSettled(changedNs: bigint): Promise<void> {
  const granularityMs = changedNs % NS_PER_SECOND === 0n ? WHOLE_SECONDS_MS : TICK_MS;
  const ageMs = wallTimeMs() - Number(changedNs / NS_PER_MS);
  // The clock of a file server may be ahead.
  if (ageMs <= granularityMs) await sleep(granularityMs);
}

/**
 * Returns the identities of the folders from the root to a place, with the times of their last
 * change, and the identity of the place itself. `identity` is the same if nothing on the way has
 * changed; `changedNs` is the time of the last change of a folder.
 *
 * @throws MovedError if one of them is a link.
 */
async function wayTo({ root, realPath }: VerifiedPlace) {
  const names = relative(root, realPath).split(sep).filter(Boolean);
  const seen: string[] = [];
  let changedNs = 0n;
  let path = root;
  // From the root on: a swap after one was seen changes the folder that was seen before it.
  for (const name of [undefined, ...names]) {
    if (name !== undefined) path = join(path, name);
    const stats = await lstat(path, { bigint: true });
    const { dev, ino, mtimeNs, ctimeNs } = stats;
    if (stats.isSymbolicLink()) throw new MovedError("A link leads elsewhere.");
    seen.push(stats.isDirectory() ? `${dev} ${ino} ${mtimeNs} ${ctimeNs}` : `${dev} ${ino}`);
    if (!stats.isDirectory()) continue;
    // FAT has no time of change but that of its entries.
    const ownNs = ctimeNs > 0n ? ctimeNs : mtimeNs;
    if (ownNs > changedNs) changedNs = ownNs;
  }
  return { identity: seen.join("\n"), changedNs };
}
