// Goal: a command handles output that cannot be written because its reader is gone or the device is
// full.
// Method: the command spawned, with pipes that close and a device that is full.

import { spawnSync } from "node:child_process";
import { closeSync, existsSync, openSync } from "node:fs";
import { resolve } from "node:path";

import { expect, test } from "vitest";

import { temporaryFolder, type TemporaryFolder } from "../../support/temporary-folder.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { calls, OpenAiServer, says } from "../../support/openai-server.ts";
import { startCommand } from "../../support/cli/process-program.ts";

function newFolder(files: Readonly<Record<string, string>> = {}): TemporaryFolder {
  const folder = temporaryFolder(files);
  afterwards(() => folder[Symbol.dispose]());
  return folder;
}

proves(
  ["V111"],
  "pauses a stored run whose events nobody reads any more, which can be resumed, and cancels any other",
  async () => {
    const folder = newFolder({
      "lead.md": "---\nmodel: some-model\ntools: [folder_list]\n---\nWork.\n",
    });
    for (const [isKept, expected] of [
      [true, 4],
      [false, 130],
    ] as const) {
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      await using server = await OpenAiServer.start(async (_request, count) => {
        if (count > 1) return says("Gone on.");
        await released;
        return calls(["folder_list", {}]);
      });
      const at = { cwd: folder.path, env: { OPENAI_BASE_URL: server.baseUrl } };
      const args = ["run", "lead.md", "Go.", "--events", ...(isKept ? [] : ["--no-store"])];
      const { child, ended, seen } = startCommand(args, at);
      child.stdout?.once("data", () => child.stdout?.destroy());
      child.stdout?.once("close", release);
      await seen("The reader of its events has gone");
      expect((await ended).code).toBe(expected);
      if (!isKept) continue;
      expect(server.requests).toHaveLength(1);
      const resumed = await startCommand(["resume", "@last"], at).ended;
      expect([resumed.code, resumed.stdout]).toEqual([0, "Gone on.\n"]);
      expect(resumed.stderr).not.toContain("Interrupted");
    }
  },
);

test.skipIf(!existsSync("/dev/full"))(
  "fails if the result cannot be written (there is a full device)",
  () => {
    const folder = newFolder();
    const at = { cwd: folder.path, env: {}, encoding: "utf8" } as const;
    const full = openSync("/dev/full", "w");
    for (const args of [["demo"], ["completion", "bash"]]) {
      const all = ["--conditions=@espalier/source", resolve("src/cli/main.ts"), ...args];
      const { status, stderr } = spawnSync(process.execPath, all, {
        ...at,
        stdio: ["ignore", full, "pipe"],
      });
      expect(status, args[0]).toBe(1);
      expect(stderr.split("The output could not be written: ENOSPC")).toHaveLength(2);
    }
    closeSync(full);
  },
);

test("ends silently if the reader of its output closes", async () => {
  const folder = newFolder();
  const { child, ended } = startCommand(["completion", "bash"], { cwd: folder.path });
  child.stdout?.destroy();
  expect((await ended).stderr).toBe("");
});
