// Goal: no file and no name outside reaches a model, even while another process replaces a folder
// by a link.
// Method: a process that swaps in a tight loop while the test reads, lists and searches, with and
// without paths of open handles.

import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  realpathSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

import { expect } from "vitest";

import { ConfinedFolder, createFolderTools, readVerified } from "../../src/cli/folder-tools.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { proves } from "../harness/proves.ts";
import { CallFixture } from "../support/tool-calls.ts";

const MAKE_PIPE = "mkfifo";
const ATTEMPTS = 3_000;
/** Without handles each attempt waits for up to 0.1 s while folders are swapped. */
const PATIENT_ATTEMPTS = 200;
const MOST_ATTEMPTS = 30_000;
const SECRET = "the secret outside";
const FILES = {
  "root/docs/deep/file.txt": "inside",
  "root/docs/deep/inside.txt": "inside",
  "outside/deep/file.txt": SECRET,
  "outside/deep/stolen.txt": SECRET,
};

for (const hasHandles of [process.platform === "linux", false])
  proves(
    ["D423"],
    `reads and lists nothing outside while folders are swapped (${hasHandles ? "handles" : "times of change"})`,
    async () => {
      using parent = temporaryFolder(FILES);
      const folder = new ConfinedFolder(parent.at("root"), hasHandles);
      const atRest = [await text(folder), await names(folder)];
      await using _swapping = await swapping(parent.path);
      const attempts = hasHandles ? ATTEMPTS : PATIENT_ATTEMPTS;
      const read = await outcomes(() => text(folder), attempts);
      const listed = await outcomes(() => names(folder), attempts);
      expect(atRest).toEqual(["inside", "file.txt 6, inside.txt 6"]);
      // Change times differ at nearly every attempt, so all are refused.
      expect(["inside", "refused"]).toEqual(expect.arrayContaining(read));
      expect(["file.txt 6, inside.txt 6", "refused"]).toEqual(expect.arrayContaining(listed));
      if (hasHandles) expect([read.length, listed.length]).toEqual([2, 2]);
    },
  );

proves(
  ["D509"],
  "reads without handles once a further change would have another time",
  async () => {
    using parent = temporaryFolder(FILES);
    const root = realpathSync(parent.at("root"));
    const realPath = join(root, "docs/deep/file.txt");
    writeFileSync(join(root, "docs/deep/new.txt"), "new");
    const changedMs = statSync(join(root, "docs/deep")).ctimeMs;
    const place = { root, realPath, isAllowed: () => true };
    const readAtMs = await readVerified(place, () => Promise.resolve(Date.now()), false);
    // File systems with fractions of a second have no longer ticks. Date.now() rounds down.
    expect(readAtMs - changedMs).toBeGreaterThan(16);
  },
);

proves(["D423"], "reads neither content nor sizes of a place that has become a link", async () => {
  using parent = temporaryFolder(FILES);
  for (const hasHandles of [process.platform === "linux", false]) {
    const folder = new ConfinedFolder(parent.at("root"), hasHandles);
    const place = await folder.resolve("docs/deep");
    renameSync(parent.at("root/docs/deep"), parent.at("aside"));
    symlinkSync(parent.at("outside/deep"), parent.at("root/docs/deep"));
    await expect(folder.measureSizes(place, ["file.txt"])).rejects.toThrow(
      "another process moved it",
    );
    unlinkSync(parent.at("root/docs/deep"));
    renameSync(parent.at("aside"), parent.at("root/docs/deep"));
  }
});

proves(["D423"], "refuses a pipe without opening it, with and without handles", async () => {
  using parent = temporaryFolder({ "root/docs/": "" });
  execFileSync(MAKE_PIPE, [parent.at("root/docs/pipe")]);
  for (const hasHandles of [process.platform === "linux", false]) {
    const folder = new ConfinedFolder(parent.at("root"), hasHandles);
    const place = await folder.resolve("docs/pipe");
    await expect(folder.read(place, 100)).rejects.toThrow("is not a regular file");
  }
});

proves(["D423"], "finds nothing outside while folders are swapped", async () => {
  using parent = temporaryFolder(FILES);
  const search = createFolderTools(parent.at("root")).find(({ name }) => name === "folder_search");
  const bound = search?.bind({ text: "s", path: "." });
  if (bound?.type !== "valid") throw new Error("The search takes these arguments.");
  const fixture = new CallFixture();
  const signal = new AbortController().signal;
  const found = async (): Promise<string> =>
    JSON.stringify(
      await bound.use.run(fixture.context({ signal }), fixture.runtime("folder_search")),
    );
  expect(await found()).toContain("inside.txt");
  await using _swapping = await swapping(parent.path);
  for (let attempt = 0; attempt < ATTEMPTS / 3; attempt += 1)
    expect(await found()).not.toMatch(/secret|stolen/);
});

async function text(folder: ConfinedFolder): Promise<string> {
  const place = await folder.resolve("docs/deep/file.txt");
  return Buffer.from((await folder.read(place, 100)).bytes).toString();
}

async function names(folder: ConfinedFolder): Promise<string> {
  const place = await folder.resolve("docs/deep");
  const { files } = await folder.list(place);
  const sized = await folder.measureSizes(place, files);
  return sized.map(({ name, bytes }) => `${name} ${bytes}`).join(", ");
}

/**
 * Returns the different results of many attempts. A path that is missing or leads elsewhere by now
 * is refused. On a busy machine it takes further attempts until a swap falls into one of them.
 */
async function outcomes(attempt: () => Promise<string>, attempts: number): Promise<string[]> {
  const seen = new Set<string>();
  const most = attempts === ATTEMPTS ? MOST_ATTEMPTS : attempts;
  for (let done = 0; done < attempts || (seen.size < 2 && done < most); done += 1)
    seen.add(await attempt().catch(() => "refused"));
  return [...seen].toSorted();
}

/**
 * Starts a process that swaps `root/docs` for a link to `outside` and back until it is disposed of.
 */
async function swapping(parent: string): Promise<AsyncDisposable> {
  const child: ChildProcess = spawn(process.execPath, ["-e", SWAP, parent], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exit = once(child, "exit");
  if (child.stdout !== null) await once(child.stdout, "data");
  return {
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await exit;
    },
  };
}

// The process stays in each state for up to 0.4 ms, so that reads meet all of them.
const SWAP = `
  const { renameSync, symlinkSync, unlinkSync } = require("node:fs");
  const rest = () => {
    const untilMs = performance.now() + Math.random() * 0.4;
    while (performance.now() < untilMs);
  };
  process.chdir(process.argv[1]);
  process.stdout.write("ready");
  for (;;) {
    renameSync("root/docs", "aside");
    symlinkSync("../outside", "root/docs");
    rest();
    unlinkSync("root/docs");
    renameSync("aside", "root/docs");
    rest();
  }
`;
