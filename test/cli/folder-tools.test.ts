// Goal: a model can read everything in the folder and nothing else, in bounded parts and in a
// stable order.
// Method: call the tools with arguments that a model would write, on temporary folders.

import { createHook } from "node:async_hooks";
import { execFileSync } from "node:child_process";
import { symlinkSync } from "node:fs";

import { expect, test } from "vitest";
import { z } from "zod";

import { createFolderTools } from "../../src/cli/folder-tools.ts";
import type { JsonValue } from "../../src/kernel/json.ts";
import { proves } from "../harness/proves.ts";
import { CallFixture } from "../support/tool-calls.ts";
import { temporaryFolder, type TemporaryFolder } from "../support/temporary-folder.ts";

const MAKE_PIPE = "mkfifo";
const SECRET = "the secret outside";

test("sorts a listing, shows sizes and links, and counts hidden entries", async () => {
  using folder = temporaryFolder({
    "b.ts": "12345",
    "a.ts": "1",
    "Z/deep/file.ts": "",
    "m/": "",
    ".env": "KEY=1",
    ".git/config": "",
    "node_modules/x/index.js": "",
  });
  symlinkSync("a.ts", folder.at("link"));

  expect(JSON.parse(await use(folder, "folder_list", { path: "." }))).toEqual({
    folder: ".",
    folders: ["Z", "m"],
    files: [
      { name: "a.ts", bytes: 1 },
      { name: "b.ts", bytes: 5 },
    ],
    links: ["link"],
    hidden: 3,
  });
  expect(JSON.parse(await use(folder, "folder_list", { path: "Z/" }))).toEqual({
    folder: "Z",
    folders: ["deep"],
    files: [],
  });
});

test("ends a listing at 200 entries with the number of missing ones", async () => {
  const names = Array.from({ length: 230 }, (_, index) => `f${String(index).padStart(3, "0")}.txt`);
  using folder = temporaryFolder({
    "a/": "",
    ...Object.fromEntries(names.map((name) => [name, ""])),
  });

  const listing = listingSchema.parse(JSON.parse(await use(folder, "folder_list", { path: "." })));
  expect([listing.folders.length, listing.files.length, listing.notShown]).toEqual([1, 199, 31]);
  expect(listing.files.at(-1)?.name).toBe("f198.txt");
});

proves(["D510"], "measures only the files that a listing shows", async () => {
  const names = Array.from({ length: 2_000 }, (_none, index) => `f${index}.txt`);
  using folder = temporaryFolder(Object.fromEntries(names.map((name) => [name, ""])));
  let requests = 0;
  const counting = createHook({
    init: (_id, type) => {
      if (type === "FSREQPROMISE") requests += 1;
    },
  }).enable();
  await use(folder, "folder_list", { path: "." });
  counting.disable();
  expect([requests >= 200, requests < 300]).toEqual([true, true]);
});

test("reads up to 8,000 bytes from the beginning of a file without splitting a character", async () => {
  using folder = temporaryFolder({
    "short.md": "# Title\n",
    "long.txt": `x${"é".repeat(5_000)}`,
    "empty.txt": "",
  });

  expect(await use(folder, "folder_read", { path: "./short.md" })).toBe(
    "short.md (8 bytes)\n# Title\n",
  );
  expect(await use(folder, "folder_read", { path: "empty.txt" })).toBe("empty.txt (0 bytes)\n");
  const long = await use(folder, "folder_read", { path: "long.txt" });
  expect(long).toBe(`long.txt (10001 bytes, the first 8000 are shown)\nx${"é".repeat(3_999)}`);
});

test("names a binary file without its content and refuses a non-file", async () => {
  using folder = temporaryFolder({
    "zero.bin": new Uint8Array([65, 0, 66]),
    "latin1.txt": new Uint8Array([0x63, 0x61, 0x66, 0xe9, 0x20]),
    "docs/": "",
  });
  execFileSync(MAKE_PIPE, [folder.at("pipe")]);

  const shown = ["zero.bin", "latin1.txt"].map((path) => use(folder, "folder_read", { path }));
  expect(await Promise.all(shown)).toEqual([
    "zero.bin (3 bytes, not text, not shown)",
    "latin1.txt (5 bytes, not text, not shown)",
  ]);
  expect(await refusal(folder, "folder_read", "docs")).toBe(
    '"docs" is a folder, not a file. List it.',
  );
  expect(await refusal(folder, "folder_read", "pipe")).toContain("is not a regular file");
  expect(await refusal(folder, "folder_list", "zero.bin")).toBe(
    '"zero.bin" is a file, not a folder. Read it.',
  );
  expect(await refusal(folder, "folder_read", "nothing.md")).toBe(
    'There is no "nothing.md" (ENOENT). List its folder to see what there is.',
  );
});

test.each([
  ["a path upwards", "../outside/secret.txt", 'leaves the folder with ".."'],
  ["a path that comes back up", "docs/../../outside/secret.txt", 'leaves the folder with ".."'],
  ["an absolute path", "/etc/passwd", "is an absolute path"],
  ["an absolute path of Windows", "C:\\Windows\\win.ini", "is an absolute path"],
  ["a link to a file outside", "file-link", "link to a place outside the folder"],
  ["a link to a folder outside", "folder-link", "link to a place outside the folder"],
  ["a link in the middle", "folder-link/secret.txt", "link to a place outside the folder"],
  ["a link over a link", "second-link/secret.txt", "link to a place outside the folder"],
  [
    "a folder whose name begins like the root",
    "sibling-link",
    "link to a place outside the folder",
  ],
  ["a hidden file", ".env", "is not readable: hidden names"],
  ["a file in a hidden folder", ".git/config", "is not readable: hidden names"],
  ["a link to a hidden folder", "git-link/config", "is not readable: hidden names"],
  ["a dependency", "node_modules/x/index.js", "is not readable: hidden names"],
  ["a link in a circle", "circle", "ELOOP"],
  ["a link to nothing", "nowhere", "ENOENT"],
  ["a name with a zero byte", "a\u0000b", "There is no"],
])("refuses %s in every tool", async (_name, path, message) => {
  using parent = temporaryFolder({
    "root/docs/guide.md": "guide",
    "root/.env": SECRET,
    "root/.git/config": SECRET,
    "root/node_modules/x/index.js": SECRET,
    "outside/secret.txt": SECRET,
    "root-sibling/secret.txt": SECRET,
  });
  symlinkSync("../outside/secret.txt", parent.at("root/file-link"));
  symlinkSync(parent.at("outside"), parent.at("root/folder-link"));
  symlinkSync("folder-link", parent.at("root/second-link"));
  symlinkSync("../root-sibling", parent.at("root/sibling-link"));
  symlinkSync(".git", parent.at("root/git-link"));
  symlinkSync("circle", parent.at("root/circle"));
  symlinkSync("gone", parent.at("root/nowhere"));
  const root = { ...parent, path: parent.at("root") };

  for (const tool of ["folder_list", "folder_read", "folder_search"]) {
    const said = await refusal(root, tool, path);
    expect(said).toContain(message);
    expect(said).not.toContain(SECRET);
  }
});

test("reads links that stay inside, and reaches the folder itself by a link", async () => {
  using parent = temporaryFolder({ "root/docs/guide.md": "guide" });
  symlinkSync("docs/guide.md", parent.at("root/link.md"));
  symlinkSync("root", parent.at("entrance"));
  const root = { ...parent, path: parent.at("entrance") };

  expect(await use(root, "folder_read", { path: "link.md" })).toBe("link.md (5 bytes)\nguide");
  expect(await use(root, "folder_read", { path: "docs/guide.md" })).toContain("guide");
});

test("finds lines in the order of their paths, without following links or reading binary files", async () => {
  using folder = temporaryFolder({
    "b.ts": "nothing\n  const BUDGET = 1;\n",
    "a/deep/c.ts": "the budget\nBudget again\n",
    "a/z.bin": new Uint8Array([0, 98, 117, 100, 103, 101, 116]),
    ".env": "budget",
    "node_modules/x.js": "budget",
  });
  symlinkSync("..", folder.at("a/up"));

  expect(JSON.parse(await use(folder, "folder_search", { text: "budget" }))).toEqual({
    text: "budget",
    matches: [
      { path: "b.ts", line: 2, text: "const BUDGET = 1;" },
      { path: "a/deep/c.ts", line: 1, text: "the budget" },
      { path: "a/deep/c.ts", line: 2, text: "Budget again" },
    ],
    filesSearched: 3,
    isComplete: true,
  });
  const one = await use(folder, "folder_search", { text: "again", path: "a/deep/c.ts" });
  expect(JSON.parse(one)).toMatchObject({ matches: [{ line: 2 }], filesSearched: 1 });
});

test("stops a search at 40 lines and reports it as incomplete", async () => {
  using folder = temporaryFolder({ "a.txt": "word\n".repeat(50), "b.txt": "word\n" });

  const found = searchSchema.parse(
    JSON.parse(await use(folder, "folder_search", { text: "word" })),
  );
  expect([found.matches.length, found.isComplete]).toEqual([40, false]);
});

test("obeys the signal in every tool", async () => {
  using folder = temporaryFolder({ "a.txt": "word" });
  for (const [name, input] of Object.entries({
    folder_list: { path: "." },
    folder_read: { path: "a.txt" },
    folder_search: { text: "word" },
  })) {
    const reason = new Error("told to end");
    await expect(use(folder, name, input, AbortSignal.abort(reason))).rejects.toBe(reason);
  }
});

const listingSchema = z.looseObject({
  folders: z.array(z.string()),
  files: z.array(z.looseObject({ name: z.string() })),
  notShown: z.number(),
});
const searchSchema = z.looseObject({ matches: z.array(z.unknown()), isComplete: z.boolean() });

/** Calls a tool as an agent does, and returns the text for the model. */
async function use(
  folder: Pick<TemporaryFolder, "path">,
  toolName: string,
  input: JsonValue,
  signal: AbortSignal = new AbortController().signal,
): Promise<string> {
  const tool = createFolderTools(folder.path).find(({ name }) => name === toolName);
  const bound = tool?.bind(input);
  if (bound?.type !== "valid")
    throw new Error(`${toolName} does not take ${JSON.stringify(input)}.`);
  const fixture = new CallFixture();
  const result = await bound.use.run(fixture.context({ signal }), fixture.runtime(toolName));
  return typeof result === "string" ? result : JSON.stringify(result);
}

async function refusal(
  folder: Pick<TemporaryFolder, "path">,
  toolName: string,
  path: string,
): Promise<string> {
  try {
    return `not refused: ${await use(folder, toolName, { path, text: "secret" })}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
