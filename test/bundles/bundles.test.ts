// Goal: a program that uses the package can be bundled to one file, which runs without the package.
// Method: each bundler builds a file of the same program outside of this project; Node runs it
// against a server that speaks Chat Completions.

import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";

import { build as esbuild } from "esbuild";
import { expect } from "vitest";
import { build as vite } from "vite";

import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { calls, OpenAiServer, says } from "../support/openai-server.ts";

const PROGRAM = new URL("program.ts", import.meta.url).pathname;
const SOURCE = "@espalier/source";

type Format = "esm" | "cjs";

async function byEsbuild(format: Format, file: string): Promise<void> {
  const { warnings } = await esbuild({
    entryPoints: [PROGRAM],
    bundle: true,
    platform: "node",
    format,
    conditions: [SOURCE],
    outfile: file,
    logLevel: "silent",
  });
  expect(warnings).toEqual([]);
}

async function byVite(format: Format, file: string): Promise<void> {
  await vite({
    configFile: false,
    logLevel: "silent",
    ssr: { noExternal: true, resolve: { conditions: [SOURCE, "node", "import", "default"] } },
    build: {
      ssr: PROGRAM,
      outDir: dirname(file),
      rolldownOptions: {
        output: { format, entryFileNames: basename(file), codeSplitting: false },
      },
    },
  });
}

async function emptyFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "bundle-"));
  afterwards(() => rm(folder, { recursive: true }));
  return folder;
}

for (const [bundler, bundle] of [
  ["esbuild", byEsbuild],
  ["Vite", byVite],
] as const) {
  for (const format of ["esm", "cjs"] as const) {
    proves(["M29"], `runs a program that ${bundler} bundled to one file (${format})`, async () => {
      const folder = await emptyFolder();
      const file = join(folder, format === "esm" ? "program.mjs" : "program.cjs");
      await bundle(format, file);
      expect(await readdir(folder)).toEqual([basename(file)]);
      await using server = await OpenAiServer.start((_request, count) =>
        count === 1 ? calls(["weather", { city: "Lyon" }]) : says("It is 21 degrees."),
      );
      const run = promisify(execFile)(process.execPath, [file, server.baseUrl], { cwd: folder });
      const { stdout, stderr } = await run;
      expect([JSON.parse(stdout), stderr]).toEqual([
        { status: "completed", text: "It is 21 degrees.", toolsUsed: { weather: 1 } },
        "",
      ]);
    });
  }
}
