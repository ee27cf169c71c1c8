// The built-in tools, which only read: list, read, search. Confined to one folder, bounded in what they give back, and the same for the same
// folder every time.

import { defineTool, type FunctionTool } from "espalier";
import { z } from "zod";

import { ConfinedFolder, type Excerpt, type FolderPlace, type Listing } from "./confined-folder.ts";

const MAX_ENTRIES = 200;
const MAX_SHOWN_BYTES = 8_000;
const MAX_MATCHES = 40;
const MAX_SEARCHED_FILES = 2_000;
const MAX_SEARCHED_BYTES = 512 * 1_024;
const MAX_LINE_LENGTH = 160;

/** `folder_list`, `folder_read` and `folder_search` for the folder `rootFolder`, which must exist. */
export function folderTools(rootFolder: string): readonly FunctionTool[] {
  const folder = new ConfinedFolder(rootFolder);
  return [listTool(folder), readTool(folder), searchTool(folder)];
}

const path = z.string().max(1_000).meta({
  description:
    'Path relative to the folder that may be read, as in "docs/guide.md"; "." is the folder itself.',
});

function listTool(folder: ConfinedFolder): FunctionTool {
  return defineTool({
    name: "folder_list",
    description:
      "Lists the folders and files that lie directly in a folder, sorted by name, files with " +
      "their size. Symbolic links are named, not followed.",
    input: z.object({ path }),
    execute: async (input, { signal }) => {
      signal.throwIfAborted();
      const place = await folder.place(input.path);
      return await bounded(folder, place);
    },
  });
}

async function bounded(folder: ConfinedFolder, place: FolderPlace) {
  const listing = await folder.list(place);
  const folders = listing.folders.slice(0, MAX_ENTRIES);
  const files = listing.files.slice(0, MAX_ENTRIES - folders.length);
  const sized = files.length === 0 ? [] : await folder.sizes(place, files);
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

function readTool(folder: ConfinedFolder): FunctionTool {
  return defineTool({
    name: "folder_read",
    description:
      `Reads the first ${MAX_SHOWN_BYTES} bytes of a text file. The first line of the result ` +
      "names the file and its size.",
    input: z.object({ path }),
    execute: async (input, { signal }) => {
      signal.throwIfAborted();
      const place = await folder.place(input.path);
      const { bytes, size } = await folder.read(place, MAX_SHOWN_BYTES);
      const text = textOf(bytes, size > bytes.length);
      if (text === undefined)
        throw new Error(`${JSON.stringify(place.path)} is not text (${size} bytes).`);
      const shown = size > bytes.length ? `, the first ${bytes.length} are shown` : "";
      return `${place.path} (${size} bytes${shown})\n${text}`;
    },
  });
}

function searchTool(folder: ConfinedFolder): FunctionTool {
  return defineTool({
    name: "folder_search",
    description:
      "Finds a text, upper or lower case, in the files of a folder and all below it, or in one " +
      `file. Gives the first ${MAX_MATCHES} lines.`,
    input: z.object({ text: z.string().min(1).max(200), path: path.default(".") }),
    execute: async (input, { signal }) => await search(folder, input, signal),
  });
}

async function search(
  folder: ConfinedFolder,
  input: { readonly text: string; readonly path: string },
  signal: AbortSignal,
) {
  const needle = input.text.toLowerCase();
  const matches: Awaited<ReturnType<typeof matchesIn>>["matches"] = [];
  let filesSearched = 0;
  let isComplete = true;
  const start = await folder.place(input.path);
  for await (const path of filesBelow(folder, start.path, signal)) {
    if (filesSearched >= MAX_SEARCHED_FILES || matches.length >= MAX_MATCHES) {
      isComplete = false;
      break;
    }
    filesSearched += 1;
    const found = await matchesIn(folder, path, needle);
    matches.push(...found.matches);
    isComplete &&= found.isComplete;
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
 * Yields the paths of all files of a folder, in their order, folder by folder. Links are not
 * followed, so it never runs in circles. Yields the path itself of a file, or of a folder that
 * cannot be listed.
 */
async function* filesBelow(
  folder: ConfinedFolder,
  path: string,
  signal: AbortSignal,
): AsyncGenerator<string> {
  signal.throwIfAborted();
  let listing: Listing;
  try {
    listing = await folder.list(await folder.place(path));
  } catch {
    yield path;
    return;
  }
  const inside = path === "." ? "" : `${path}/`;
  for (const name of listing.files) {
    signal.throwIfAborted();
    yield inside + name;
  }
  for (const name of listing.folders) yield* filesBelow(folder, inside + name, signal);
}

/**
 * Returns the matches in one file. `isComplete`: false if a part of the file was not searched. A file
 * that cannot be read is no reason to give up the others.
 */
async function matchesIn(folder: ConfinedFolder, path: string, needle: string) {
  let excerpt: Excerpt;
  try {
    excerpt = await folder.read(await folder.place(path), MAX_SEARCHED_BYTES);
  } catch {
    return { matches: [], isComplete: false };
  }
  const isCut = excerpt.size > excerpt.bytes.length;
  const lines = (textOf(excerpt.bytes, isCut) ?? "").split("\n");
  const matches = lines.flatMap((line, index) => {
    if (!line.toLowerCase().includes(needle)) return [];
    return [{ path, line: index + 1, text: line.trim().slice(0, MAX_LINE_LENGTH) }];
  });
  return { matches, isComplete: !isCut };
}

/**
 * The bytes as text; undefined if they are none. A character that the end cuts in two is left out.
 */
function textOf(bytes: Uint8Array, isCut: boolean): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: isCut });
  } catch {
    return undefined;
  }
}
