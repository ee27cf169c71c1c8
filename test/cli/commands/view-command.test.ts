// Goal: `espalier view` serves the runs of a project until it is closed.
// Method: the command within the test, and requests to its viewer over real sockets.

import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect } from "vitest";

import { openBrowser } from "../../../src/cli/open-viewer.ts";
import { performArguments } from "../../../src/cli/perform-arguments.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Question } from "../../../src/protocol/question.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { act, askApi, placeOf } from "../../support/viewer-server/asking.ts";
import { asker } from "../../support/viewer-server/viewer-world.ts";
import { addressIn, FakeShell } from "../../support/cli/fake-shell.ts";

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "espalier-view-"));
  afterwards(() => rm(made, { recursive: true, force: true }));
  return made;
}

/** Creates a project with a run that asks about a pear. */
async function project(): Promise<{
  readonly cwd: string;
  readonly file: string;
  readonly questions: readonly Question[];
}> {
  const cwd = await folder();
  await writeFile(join(cwd, "package.json"), "{}");
  await mkdir(join(cwd, ".espalier"));
  const file = join(cwd, ".espalier", "runs.db");
  const store = sqliteStore(file);
  const role = asker(["pear"]);
  const { questions } = await new Orchestrator({ store, roles: [role] }).start(role, "Buy.", {
    runId: "buy",
  }).result;
  await store.close();
  return { cwd, file, questions };
}

proves(
  ["V88"],
  "shows the runs of the project, delivers answers by their mailboxes, and ends on Ctrl-C",
  async () => {
    const { cwd, file, questions } = await project();
    const shell = new FakeShell(cwd);
    const ended = performArguments(["view", "buy", "--port", "0"], shell);
    const url = await addressIn(shell);
    expect(new URL(url).pathname).toBe("/r/buy");
    const place = placeOf({ url });
    expect((await askApi(place, "meta")).body).toMatchObject({
      store: file,
      content: true,
      actions: ["answer", "cancel", "pause"],
    });
    expect((await askApi(place, "runs")).body).toMatchObject({
      runs: [{ runId: "buy", status: "input_required" }],
    });
    const [question] = questions;
    const answer = {
      type: "approved",
      questionId: question?.questionId,
      argumentsHash: question?.argumentsHash,
    };
    expect(await act(place, "buy", { key: "1", type: "answer", answers: [answer] })).toMatchObject({
      status: 202,
      body: { hasOwner: false, openQuestions: [] },
    });
    expect((await askApi(place, "runs")).body).toMatchObject({
      runs: [{ runId: "buy", status: "waiting" }],
    });
    shell.signal("SIGINT");
    expect([await ended, shell.written.stdout]).toEqual([0, ""]);
    const store = sqliteStore(file);
    const role = asker(["pear"]);
    const result = await (await new Orchestrator({ store, roles: [role] }).resume("buy")).result;
    expect(result.text).toBe("paid pear");
    await store.close();
    expect((await stat(join(cwd, ".espalier", "viewer-token"))).mode & 0o777).toBe(0o600);
    expect(await readFile(join(cwd, ".espalier", ".gitignore"), "utf8")).toBe("*\n");
  },
);

proves(["V151"], "names the command as it was started to a page without a token", async () => {
  const { cwd } = await project();
  for (const [env, called] of [
    [{ npm_command: "exec" }, "npx espalier"],
    [{}, "espalier"],
  ] as const) {
    const shell = new FakeShell(cwd, env);
    const ended = performArguments(["view", "--port", "0"], shell);
    const { origin } = placeOf({ url: await addressIn(shell) });
    const said = await askApi({ origin, token: "0".repeat(48) }, "meta");
    expect(said.body).toMatchObject({
      message: expect.stringContaining(`\`${called} view --url\``) as unknown,
    });
    shell.signal("SIGINT");
    expect(await ended).toBe(0);
  }
});

proves(
  ["V88"],
  "writes nothing into the store with --read-only, and sends no content with --no-content",
  async () => {
    const { cwd, file } = await project();
    const before = await readFile(file);
    const shell = new FakeShell(cwd);
    const ended = performArguments(["view", "--port", "0", "--read-only", "--no-content"], shell);
    const url = await addressIn(shell);
    const place = placeOf({ url });
    expect((await askApi(place, "meta")).body).toMatchObject({ content: false, actions: [] });
    expect((await askApi(place, "runs/buy")).text).not.toContain("pear");
    expect((await act(place, "buy", { key: "1", type: "cancel" })).status).toBe(403);
    shell.signal("SIGTERM");
    expect(await ended).toBe(0);
    expect((await readFile(file)).equals(before)).toBe(true);
  },
);

proves(
  ["V88"],
  "keeps its token, prints its address with --url, and replaces the token with --new-token",
  async () => {
    const { cwd } = await project();
    const first = new FakeShell(cwd);
    const ended = performArguments(["view", "--port", "0"], first);
    const url = await addressIn(first);
    const { port } = new URL(url);
    const asking = new FakeShell(cwd);
    expect(await performArguments(["view", "--url", "--port", port], asking)).toBe(0);
    expect(asking.written.stdout).toBe(`${url}\n`);
    const ofRun = new FakeShell(cwd);
    expect(await performArguments(["view", "@last", "--url", "--port", port], ofRun)).toBe(0);
    expect(ofRun.written.stdout).toBe(`${url.replace("/#", "/r/buy#")}\n`);
    first.signal("SIGINT");
    await ended;
    const none = new FakeShell(cwd);
    expect(await performArguments(["view", "--url", "--port", port], none)).toBe(2);
    expect(none.written.stderr).toContain("espalier view");
    for (const [args, isSame] of [
      [[], true],
      [["--new-token"], false],
    ] as const) {
      const shell = new FakeShell(cwd);
      const left = performArguments(["view", "--port", "0", ...args], shell);
      const next = await addressIn(shell);
      expect(placeOf({ url: next }).token === placeOf({ url }).token).toBe(isSame);
      shell.signal("SIGINT");
      await left;
    }
  },
);

proves(["V88"], "refuses a missing store, an unknown run and an invalid port", async () => {
  const empty = await folder();
  await writeFile(join(empty, "package.json"), "{}");
  const shell = new FakeShell(empty);
  expect(await performArguments(["view"], shell)).toBe(2);
  expect(shell.written.stderr).toContain("no such file");
  expect(await readdir(empty)).toEqual(["package.json"]);
  const { cwd } = await project();
  for (const args of [["nobody"], ["--port", "x"], ["--port", "65536"], ["--store", "nowhere.db"]])
    expect(await performArguments(["view", ...args], new FakeShell(cwd)), args.join(" ")).toBe(2);
});

proves(["V88"], "shows the runs and a warning if the token cannot be stored", async () => {
  const { cwd, file } = await project();
  const store = join(cwd, "runs.db");
  await rename(file, store);
  const own = join(cwd, ".espalier");
  await rm(own, { recursive: true });
  for (const isFile of [true, false]) {
    // In place of the folder, then of the file in it.
    await (isFile ? writeFile(own, "") : mkdir(join(own, "viewer-token"), { recursive: true }));
    const shell = new FakeShell(cwd);
    const ended = performArguments(["view", "--store", store, "--port", "0"], shell);
    const place = placeOf({ url: await addressIn(shell) });
    expect((await askApi(place, "runs")).body).toMatchObject({ runs: [{ runId: "buy" }] });
    expect(shell.written.stderr).toContain("its token is not stored: ");
    shell.signal("SIGINT");
    expect(await ended).toBe(0);
    await rm(own, { recursive: true });
  }
});

proves(["V89"], "shows the demo in the browser until Ctrl-C and stores its run", async () => {
  const cwd = await folder();
  await writeFile(join(cwd, "notes.md"), "# Notes\n");
  const shell = new FakeShell(cwd);
  Object.assign(shell.stderr, { isTTY: true, columns: 100 });
  const ended = performArguments(
    ["demo", ".", "--fast", "--view", "--port", "0", "--no-open"],
    shell,
  );
  const place = placeOf({ url: await addressIn(shell) });
  while (!shell.written.stderr.includes("The viewer stays open"))
    await new Promise((resolve) => setImmediate(resolve));
  expect((await askApi(place, "runs")).body).toMatchObject({ runs: [{ status: "completed" }] });
  const store = join(cwd, ".espalier", "runs.db");
  expect((await askApi(place, "meta")).body).toMatchObject({ store });
  shell.signal("SIGINT");
  expect(await ended).toBe(0);
  expect(shell.written.stderr).toContain(`The run is stored in ${store}. Next:`);
});

proves(
  ["V88"],
  "opens the browser by a private file, so that no process has the token as an argument",
  async () => {
    const bin = await folder();
    const seen = join(bin, "seen");
    await writeFile(
      join(bin, "xdg-open"),
      `#!/bin/sh\n/bin/cp -p "$1" "${seen}.part"\necho "$@" > "${seen}.args"\n/bin/mv "${seen}.part" "${seen}"\n`,
    );
    await chmod(join(bin, "xdg-open"), 0o755);
    const address = "http://127.0.0.1:4983/r/buy#token=abc";
    const forget = await openBrowser(new FakeShell(bin, { PATH: bin }), address, "linux");
    while ((await stat(seen).catch(() => undefined)) === undefined)
      await new Promise((resolve) => setImmediate(resolve));
    expect(await readFile(seen, "utf8")).toContain(`url=${address}"`);
    expect((await stat(seen)).mode & 0o777).toBe(0o600);
    const args = (await readFile(`${seen}.args`, "utf8")).trim();
    expect(args).not.toContain("token");
    await forget();
    await expect(stat(args)).rejects.toThrow("ENOENT");
    // No browser opens, without a message.
    await (
      await openBrowser(new FakeShell(bin, { PATH: join(bin, "nowhere") }), address, "darwin")
    )();
  },
);

proves(["D528"], "refuses the viewer of another project or store with --url", async () => {
  const [{ cwd }, { cwd: other }] = [await project(), await project()];
  const shell = new FakeShell(other);
  const ended = performArguments(["view", "--port", "0"], shell);
  const { port } = new URL(await addressIn(shell));
  // The own viewer ran before, so there is a token.
  const before = new FakeShell(cwd);
  const left = performArguments(["view", "--port", "0"], before);
  await addressIn(before);
  before.signal("SIGINT");
  await left;
  const asking = new FakeShell(cwd);
  expect(await performArguments(["view", "--url", "--port", port], asking)).toBe(2);
  expect(asking.written).toEqual({
    stdout: "",
    stderr: expect.stringContaining("No viewer of") as unknown,
  });
  const copy = join(other, "copy.db");
  await copyFile(join(other, ".espalier/runs.db"), copy);
  const ofCopy = new FakeShell(other);
  const args = ["view", "--url", "--port", port, "--store", copy];
  expect(await performArguments(args, ofCopy)).toBe(2);
  const own = new FakeShell(other);
  expect(await performArguments(["view", "--url", "--port", port], own)).toBe(0);
  shell.signal("SIGINT");
  await ended;
});

proves(["D528"], "sends no token to the server with --url", async () => {
  const { cwd } = await project();
  const shell = new FakeShell(cwd);
  const ended = performArguments(["view", "--port", "0"], shell);
  const { token } = placeOf({ url: await addressIn(shell) });
  shell.signal("SIGINT");
  await ended;
  const seen: string[] = [];
  const server = createServer((request, response) => {
    seen.push(JSON.stringify([request.url, request.headers]));
    response.writeHead(401, { "espalier-proof": "0" }).end('{"code":"unauthorized"}');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterwards(() => server.close());
  const address = server.address();
  const port = typeof address === "object" ? String(address?.port) : "";
  const asking = new FakeShell(cwd);
  expect(await performArguments(["view", "--url", "--port", port], asking)).toBe(2);
  expect(seen.length).toBe(1);
  expect(seen.join("")).not.toContain(token);
});
