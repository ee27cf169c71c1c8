// Goal: `espalier run` can ask at the terminal, show the run in the browser, continue a session and
// export spans.
// Method: the command within the test, over streams that stand for a terminal with typed input; a
// real MCP server, real sockets.

import { expect } from "vitest";
import { z } from "zod";

import { performArguments } from "../../../src/cli/perform-arguments.ts";
import { openStore } from "../../../src/cli/project.ts";
import { createOwner } from "../../../src/orchestrator/durability/open-journal.ts";
import { parseId } from "../../../src/protocol/ids.ts";
import { temporaryFolder, type TemporaryFolder } from "../../support/temporary-folder.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { calls, OpenAiServer, says } from "../../support/openai-server.ts";
import { OtlpSink } from "../../support/otlp-sink.ts";
import { act, askApi, placeOf } from "../../support/viewer-server/asking.ts";
import { addressIn, atTerminal, FakeShell, seenIn } from "../../support/cli/fake-shell.ts";
import { performed, withVariable } from "../../support/cli/performed.ts";

const SERVER_FILE = new URL("../../support/cli/echo-server.ts", import.meta.url).pathname;
const DOWN = "\u001b[B";
const ENTER = "\r";
const BACKSPACE = "\u007f";

function newFolder(files: Readonly<Record<string, string>>): TemporaryFolder {
  const folder = temporaryFolder(files);
  afterwards(() => folder[Symbol.dispose]());
  return folder;
}

/** A buyer that makes one call which needs approval, and then reports its outcome. */
async function buyer() {
  const folder = newFolder({
    "buyer.md": "---\nmodel: m\ntools: [work_data]\n---\nWork.\n",
    "mcp.json": JSON.stringify({
      mcpServers: { work: { command: process.execPath, args: [SERVER_FILE] } },
    }),
  });
  const server = await OpenAiServer.start(({ bodyText }) =>
    bodyText.includes('"role":"tool"') ? says("Over.") : calls(["work_data", { eur: 400 }]),
  );
  afterwards(() => server[Symbol.asyncDispose]());
  withVariable("OPENAI_BASE_URL", server.baseUrl);
  return { cwd: folder.path, server };
}

/** Types these keys once the command has asked this, each when the one before it is visible. */
async function type(shell: FakeShell, asks: string, keys: readonly string[]): Promise<void> {
  await seenIn(shell, asks);
  for (const key of keys) {
    const { length } = shell.written.stderr;
    // Waits two turns: a prompt first draws itself, and then reads.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    shell.stdin.write(key);
    while (shell.written.stderr.length === length)
      await new Promise((resolve) => setImmediate(resolve));
  }
}

interface Said {
  readonly asks: string;
  readonly keys: readonly string[];
}

/** Starts a run whose question is answered by these keys. */
async function answered(said: readonly Said[]) {
  const { cwd, server } = await buyer();
  const shell = new FakeShell(cwd);
  atTerminal(shell);
  const ended = performArguments(["run", "buyer.md", "Pay.", "--answer", "ask"], shell);
  for (const { asks, keys } of said) await type(shell, asks, keys);
  const code = await ended;
  return { code, ...shell.written, requests: server.requests.map(({ bodyText }) => bodyText) };
}

const MAY = "May work_data run?";

proves(["V132", "V52"], "runs an approved call as it was shown", async () => {
  const { code, stdout, stderr, requests } = await answered([{ asks: MAY, keys: [DOWN, ENTER] }]);
  expect([code, stdout]).toEqual([0, "Over.\n"]);
  expect(stderr).toContain('"eur": 400');
  expect(requests[1]).toContain('{\\"eur\\":400}');
});

proves(["V132"], "does not run a denied call, and the model reads the reason", async () => {
  const { code, stdout, requests } = await answered([
    { asks: MAY, keys: [DOWN, DOWN, ENTER] },
    { asks: "Reason for the denial", keys: ["T", "o", "o", " ", "m", "u", "c", "h", ENTER] },
  ]);
  expect([code, stdout]).toEqual([0, "Over.\n"]);
  expect(requests[1]).toContain("Too much");
  expect(requests[1]).not.toContain('"content":"{\\"eur\\":400}"');
});

proves(["V132"], "runs an edited call with the arguments that were shown again", async () => {
  const { code, requests } = await answered([
    { asks: MAY, keys: [DOWN, DOWN, DOWN, ENTER] },
    { asks: "Arguments as JSON", keys: [BACKSPACE, BACKSPACE, "}", ENTER] },
    { asks: "Run it with these arguments?", keys: [DOWN, ENTER] },
  ]);
  expect(code).toBe(0);
  expect(requests[1]).toContain('{\\"eur\\":40}');
});

proves(
  ["V132"],
  "pauses if the question is left open, and prints how to answer it later",
  async () => {
    const { code, stdout, stderr, requests } = await answered([{ asks: MAY, keys: [ENTER] }]);
    expect([code, stdout, requests.length]).toEqual([4, "", 1]);
    expect(stderr).toMatch(/Answer: .*espalier approve run_/);
  },
);

proves(["V132"], "suggests commands with npx if it was started by npx", async () => {
  const { cwd } = await buyer();
  const at = { cwd, env: { npm_command: "exec" } };
  const { stderr } = await performed(["run", "buyer.md", "Pay."], at);
  expect(stderr).toMatch(
    /^Answer: npx espalier approve (\S+), or npx espalier deny \1 --reason "…". Then: npx espalier resume \1$/m,
  );
  const { stdout } = await performed(["questions"], at);
  expect(stdout).toMatch(
    /\n {2}npx espalier approve \S+, or npx espalier deny \S+ --reason "…"\n$/,
  );
  expect((await performed(["approve", "@last"], at)).stderr).toContain(
    "Resume the run: npx espalier resume",
  );
  expect((await performed(["approve", "nothing"], at)).stderr).toMatch(
    / with one open question\. List them: npx espalier questions \[usage\]\n$/,
  );
});

proves(
  ["V89"],
  "asks on the page with run --view, continues with the answer, and stays open until Ctrl-C",
  async () => {
    const { cwd } = await buyer();
    const shell = new FakeShell(cwd);
    atTerminal(shell);
    const args = ["run", "buyer.md", "Pay.", "--view", "--port", "0", "--no-open"];
    const ended = performArguments(args, shell);
    const url = await addressIn(shell);
    const place = placeOf({ url });
    const [, runId = ""] = /^\/r\/(.+)$/.exec(new URL(url).pathname) ?? [];
    const InboxSchema = z.object({
      questions: z.array(z.object({ questionId: z.string(), argumentsHash: z.string() })),
    });
    let open = InboxSchema.parse((await askApi(place, "questions")).body).questions;
    while (open.length === 0)
      open = InboxSchema.parse((await askApi(place, "questions")).body).questions;
    const answers = open.map((question) => ({ type: "approved", ...question }));
    expect((await act(place, runId, { key: "1", type: "answer", answers })).status).toBe(202);
    await seenIn(shell, "The viewer stays open at http://127.0.0.1:");
    expect(shell.written.stdout).toBe("Over.\n");
    expect((await askApi(place, "runs")).body).toMatchObject({
      runs: [{ runId, status: "completed" }],
    });
    shell.signal("SIGINT");
    expect(await ended).toBe(0);
  },
);

proves(["V89"], "closes the page of run --view with the run if there is no terminal", async () => {
  const { cwd } = await buyer();
  const args = ["run", "buyer.md", "Pay.", "--answer", "pause", "--view", "--port", "0"];
  const { code, stderr } = await performed(args, { cwd });
  expect(code).toBe(4);
  expect(stderr).toMatch(/^Viewer: http:/m);
  expect(stderr).not.toContain("stays open");
});

proves(
  ["V133"],
  "continues a stored session with its history before the task, and refuses --session without a store",
  async () => {
    const folder = newFolder({ "lead.md": "---\nmodel: m\n---\nWork.\n" });
    await using server = await OpenAiServer.start((_request, count) => says(`Answer ${count}.`));
    withVariable("OPENAI_BASE_URL", server.baseUrl);
    const run = (task: string, ...more: readonly string[]) =>
      performed(["run", "lead.md", task, "--quiet", ...more], { cwd: folder.path });
    expect((await run("First.", "--session", "mine")).stdout).toBe("Answer 1.\n");
    expect((await run("Second.", "--session", "mine")).stdout).toBe("Answer 2.\n");
    await run("Third.", "--session", "other");
    const told = server.requests.map(({ body }) =>
      z
        .array(z.object({ content: z.string() }))
        .parse(body["messages"])
        .slice(1)
        .map(({ content }) => content),
    );
    expect(told).toEqual([["First."], ["First.", "Answer 1.", "Second."], ["Third."]]);
    const nowhere = await run("Fourth.", "--session", "mine", "--no-store");
    expect([nowhere.code, nowhere.stderr]).toEqual([
      2,
      expect.stringContaining("--session needs a store."),
    ]);
    expect(server.requests).toHaveLength(3);
  },
);

for (const mode of ["ok", "refuse"] as const)
  proves(["V134"], `exports spans and reports how many arrived (${mode})`, async () => {
    const folder = newFolder({ "lead.md": "---\nmodel: m\n---\nWork.\n" });
    await using server = await OpenAiServer.start(() => says("Done."));
    await using sink = await OtlpSink.open(mode);
    withVariable("OPENAI_BASE_URL", server.baseUrl);
    withVariable("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint);
    const args = ["run", "lead.md", "Go.", "--otel", "--json"];
    const { code, stdout, stderr } = await performed(args, { cwd: folder.path });
    const { traceId } = z.object({ traceId: z.string() }).parse(JSON.parse(stdout));
    expect(code).toBe(0);
    if (mode === "ok") {
      expect([...sink.traces().keys()]).toEqual([traceId]);
      expect(stderr).toContain(`Trace sent: ${sink.spans.length} spans\n`);
    } else expect(stderr).toMatch(/^Trace incomplete: (\d+) of \1 spans not sent/m);
    await new Promise((resolve) => setImmediate(resolve)); // Warnings arrive in the next turn.
    expect(takeWarnings()).toHaveLength(mode === "ok" ? 0 : 1);
  });

proves(
  ["V157"],
  "does not lock a store that another process has open if the command stores nothing",
  async () => {
    using folder = temporaryFolder({});
    const place = { type: "file", path: folder.at("own.db"), isDefault: false } as const;
    const runId = parseId<"RunId">("run_1");
    const refused = await openStore(place);
    const other = await openStore(place);
    await refused[Symbol.asyncDispose]();
    await other.store.create(runId, "lead: Go.", createOwner());
    await other[Symbol.asyncDispose]();
    await using again = await openStore(place);
    expect((await again.store.list()).map((run) => run.runId)).toEqual([runId]);
  },
);
