// Goal: the demo tells a complete story wherever it is started, and its suggested commands work.
// Method: the real program in a project of the test, also on a pseudo-terminal.

import { join, resolve } from "node:path";

import { expect, test } from "vitest";

import { detectOwnCommand } from "../../src/cli/shell.ts";
import { temporaryFolder, type TemporaryFolder } from "../support/temporary-folder.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { OtlpSink } from "../support/otlp-sink.ts";
import { FakeShell } from "../support/cli/fake-shell.ts";
import { linkPackage, startCommand } from "../support/cli/process-program.ts";
import { startAtTerminal } from "../support/cli/terminal-program.ts";

const NPX = { npm_command: "exec" };
const FILES = Object.fromEntries(
  ["a", "b", "c", "d", "e", "f"].flatMap((folder) =>
    ["1", "2", "3"].map((name) => [`src/${folder}/${name}.ts`, `// About ${folder}.\n`]),
  ),
);

function projectWith(files: Readonly<Record<string, string>>): TemporaryFolder {
  const folder = temporaryFolder({ "package.json": '{"type":"module"}', ...files });
  afterwards(() => folder[Symbol.dispose]());
  linkPackage(folder.path);
  return folder;
}

/** Returns the commands that the demo prints below `Next:`. */
function nextCommands(stderr: string): readonly string[] {
  const lines = stderr.slice(stderr.indexOf(" Next:\n")).trim().split("\n").slice(1);
  return lines.map((line) => line.replace(/^ {2}\S.*? {2,}/, ""));
}

proves(["D751"], "prints commands at its end that work as typed", async () => {
  const { path: cwd } = projectWith(FILES);
  const { code, stderr } = await startCommand(["demo"], { cwd, env: NPX }).ended;
  const [show = "", errors = "", view = "", runs = "", trace = ""] = nextCommands(stderr);
  const type = (typed: string, env = {}) =>
    startCommand(typed.replace(/^.*npx espalier /, "").split(" "), {
      cwd,
      env: { ...NPX, ...env },
    });

  expect(code).toBe(0);
  expect(stderr).toContain(`The run is stored in ${join(cwd, ".espalier", "runs.db")}. Next:`);
  expect(show).toMatch(/^npx espalier show run_\S+$/);
  const shown = await Promise.all([show, errors, runs].map((typed) => type(typed).ended));
  expect(shown[0]?.stdout).toContain("skimmer#1");
  expect(shown[1]?.stdout).toContain("breadth_limit");
  expect(shown[2]?.stdout).toContain("✔ completed");
  const viewer = type(view);
  await viewer.seen("Ctrl-C ends the viewer.");
  viewer.child.kill("SIGINT");
  expect((await viewer.ended).code).toBe(0);
  await using sink = await OtlpSink.open();
  expect(trace).toBe("OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 npx espalier demo");
  const traced = type(trace, { OTEL_EXPORTER_OTLP_ENDPOINT: sink.endpoint });
  expect((await traced.ended).stderr).toContain(`Trace sent: ${sink.spans.length} spans`);
});

proves(["D751"], "names its command as a script in a clone, and as npx in a project", () => {
  const commands = [
    {},
    { npm_command: "exec", npm_package_name: "espalier" },
    { npm_command: "run-script", npm_package_name: "shop" },
    { npm_command: "run-script", npm_package_name: "espalier" },
  ].map((env) => detectOwnCommand(new FakeShell(".", env)));
  expect(commands).toEqual(["espalier", "npx espalier", "npx espalier", "npm run espalier --"]);
});

proves(["D752"], "shows tokens and costs above zero and marks them as simulated", async () => {
  const { path: cwd } = projectWith(FILES);
  const { stderr } = await startCommand(["demo", "--no-store"], { cwd }).ended;

  expect(stderr).toContain(
    "Its tokens, prices and delays are simulated, also in later views of the run.",
  );
  expect(stderr.match(/^(?:Tree|Budget|Usage).*$/gm)).toEqual([
    "Tree (simulated)",
    "Budget of the run (simulated)",
    "Usage by role (simulated)",
    "Usage by model (simulated)",
  ]);
  expect(stderr).toMatch(/^cost +\$1\.00 +\$0\.\d{4} +\$0\.\d{4}$/m);
  expect(stderr).not.toContain("Next:");
});

proves(["D753"], "explains a named folder without files and exits with code 2", async () => {
  const { path: cwd } = projectWith({ "none/": "" });
  const { code, stderr } = await startCommand(["demo", "none"], { cwd, env: NPX }).ended;

  expect(code).toBe(2);
  expect(stderr).toContain('The folder "none" has no files. The demo reads the files of a folder');
  expect(stderr).toContain("for example: npx espalier demo ");
});

proves(["D753"], "reads the documents of the package in a folder with few files", async () => {
  const { path: cwd } = projectWith({});
  const { code, stderr } = await startCommand(["demo"], { cwd, env: NPX }).ended;

  expect(code).toBe(0);
  expect(stderr).toContain(
    "There is little to read here, so the demo reads the documents of espalier.",
  );
  expect(stderr).toContain("To read another folder, type: npx espalier demo <folder>");
  expect(stderr).toContain(`Folder: ${resolve("docs")}\n`);
});

proves(
  ["D749", "D754"],
  "accepts an answer by one key at the terminal while the tree stays visible",
  async () => {
    const { path: cwd } = projectWith(FILES);
    const command = startAtTerminal(["demo"], { cwd });
    await command.seen("Press y to approve or n to deny.");
    command.type("y");
    await command.seen("folder_read_whole was approved by the approver");
    expect(await command.ended).toBe(0);
    const [, seconds = "0"] = /completed in ([\d.]+)s/.exec(command.screen()) ?? [];
    expect(Number(seconds)).toBeGreaterThan(4);
  },
);

proves(["D749"], "answers the question at its deadline without a key", async () => {
  const { path: cwd } = projectWith(FILES);
  const command = startAtTerminal(["demo"], { cwd });
  await command.seen("was denied by its deadline after 6.0s: Nobody answered in time.");
  expect(await command.ended).toBe(0);
});

proves(["D754"], "waits for nothing with --fast, even at a terminal", async () => {
  const { path: cwd } = projectWith(FILES);
  const command = startAtTerminal(["demo", "--fast"], { cwd });
  await command.seen("was denied by the approver");
  expect(await command.ended).toBe(0);
  expect(command.screen()).not.toContain("Press y");
});

test("cancels the run on Ctrl-C during the question", async () => {
  const { path: cwd } = projectWith(FILES);
  const command = startAtTerminal(["demo"], { cwd });
  await command.seen("Press y to approve or n to deny.");
  command.type("\u0003");
  await command.seen("⊘ cancelled in");
  expect(await command.ended).toBe(130);
});
