// Goal: `espalier run` prints only the result on stdout, has an exit code for each outcome, and
// reports the reason.
// Method: the command within the test, role files in a temporary folder, and the real model client
// against a server that speaks Chat Completions.

import { PassThrough } from "node:stream";

import { expect } from "vitest";
import { z } from "zod";

import { temporaryFolder, type TemporaryFolder } from "../../support/temporary-folder.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import {
  calls,
  OpenAiServer,
  says,
  status,
  type ServerReply,
} from "../../support/openai-server.ts";
import { performed, withVariable, type Performed } from "../../support/cli/performed.ts";

const LEAD = "---\nmodel: some-model\ntools: [folder_*]\n---\nWork.\n";
const SERVER_FILE = new URL("../../support/cli/echo-server.ts", import.meta.url).pathname;

/** Returns an mcp.json with one real server. */
function mcpFile(entry: object = {}): string {
  const server = { command: process.execPath, args: [SERVER_FILE], ...entry };
  return JSON.stringify({ mcpServers: { work: server } });
}

function newFolder(files: Readonly<Record<string, string>>): TemporaryFolder {
  const folder = temporaryFolder(files);
  afterwards(() => folder[Symbol.dispose]());
  return folder;
}

async function serverThat(
  answers: Parameters<typeof OpenAiServer.start>[0],
): Promise<OpenAiServer> {
  const server = await OpenAiServer.start(answers);
  afterwards(() => server[Symbol.asyncDispose]());
  withVariable("OPENAI_BASE_URL", server.baseUrl);
  return server;
}

const RESTS: Readonly<Record<string, readonly [number, ServerReply, string, RegExp]>> = {
  completes: [0, says("The answer."), "The answer.\n", /completed: 1 agent/],
  "fails where the model refuses": [
    1,
    status(401),
    "",
    /✖ lead · step 1: model_unauthorized\n {4}Expected/,
  ],
  "is stopped by a limit": [
    3,
    says("Cut o", { finishReason: "length" }),
    "Cut o\n",
    /stopped \(finish_reason\)/,
  ],
};

for (const [what, [code, reply, stdout, tells]] of Object.entries(RESTS))
  proves(
    ["V40", "V41"],
    `exits with ${code} and a reason on stderr after a run that ${what}`,
    async () => {
      const folder = newFolder({ "lead.md": LEAD });
      await serverThat(() => reply);
      const done = await performed(["run", "lead.md", "Go."], { cwd: folder.path });
      expect([done.code, done.stdout]).toEqual([code, stdout]);
      expect(done.stderr).toMatch(tells);
      expect(done.stderr).toContain(
        "Budget: 120 steps, 10m. Cost is not limited: a price is unknown.\n",
      );
    },
  );

proves(
  ["V40"],
  "exits with 2 and an explanation for each wrong use, without a model call",
  async () => {
    const folder = newFolder({
      "lead.md": LEAD,
      "bad.md": "---\nmodel: m\nbudget: { steps: many }\n---\nWork.\n",
      "none.md": "---\ntools: []\n---\nWork.\n",
      "tool.md": "---\nmodel: m\ntools: [folder_write]\n---\nWork.\n",
      "empty.md": "---\nmodel: m\n---\n",
      "open.md": "---\nmodel: m\nWork.\n",
      "yaml.md": "---\nmodel: [m\n---\nWork.\n",
      "plain.md": "Work.\n",
    });
    const server = await serverThat(() => says("no"));
    const uses: readonly (readonly [args: readonly string[], says: string])[] = [
      [["run", "lead.md"], "Expected a task, got none."],
      [["run", "lead.md", "Go.", "--json", "--events"], "--json and --events exclude each other"],
      [["run", "lead.md", "Go.", "--budget", "cost=x"], "Expected cost in --budget to be dollars"],
      [
        ["run", "lead.md", "Go.", "--budget", "dollars=1"],
        "(cost, steps, tokens, tool-calls, time)",
      ],
      [["run", "lead.md", "Go.", "--answer", "yes"], "Expected --answer to be ask, pause or deny"],
      [["run", "lead.md", "Go.", "--answer", "ask"], "--answer ask needs a terminal."],
      [["run", "lead.md", "Go.", "--allow-read", "nowhere"], 'There is no folder "nowhere"'],
      [["run", "gone.md", "Go."], 'There is no file "gone.md"'],
      [["run", "nobody", "Go."], 'the name of a role, got "nobody"'],
      [["run", "bad.md", "Go."], "bad.md:3: Expected bad.budget.steps to be a whole number"],
      [["run", "none.md", "Go."], "none.md:1: Expected a line model: …"],
      [["run", "empty.md", "Go."], "empty.md:3: Expected text below the front matter, got none."],
      [["run", "open.md", "Go."], "open.md:1: Expected a second line of ---"],
      [["run", "yaml.md", "Go."], "yaml.md:2: Expected valid YAML"],
      [["run", "plain.md", "Go."], "plain.md:1: Expected the first line to be ---"],
      [
        ["run", "tool.md", "Go."],
        "tool.md:3: Expected tool.tools[0] to be the name of a given tool",
      ],
      [["run", "lead.md", "Go.", "--fast"], "Unknown option '--fast'"],
      [["cancel", "run_1"], "no such file. Start a run: espalier run …"],
    ];
    for (const [args, words] of uses) {
      const { code, stdout, stderr } = await performed(args, { cwd: folder.path });
      expect([args, code]).toEqual([args, 2]);
      if (!args.includes("--json")) expect(stdout).toBe("");
      expect(stderr).toContain(words);
      expect(stderr).not.toMatch(/^ +at /m);
    }
    expect(server.requests).toEqual([]);
  },
);

proves(
  ["V40"],
  "exits with 6 if a chosen store is unusable, and runs without the default store otherwise",
  async () => {
    const folder = newFolder({
      "lead.md": LEAD,
      "text.db": "no database ".repeat(100),
      ".espalier": "a file",
    });
    await serverThat(() => says("Done."));
    const chosen = await performed(["run", "lead.md", "Go.", "--store", "text.db"], {
      cwd: folder.path,
    });
    expect([chosen.code, chosen.stdout]).toEqual([6, ""]);
    expect(chosen.stderr).toContain("[store_failed]");
    const usual = await performed(["run", "lead.md", "Go."], { cwd: folder.path });
    expect([usual.code, usual.stdout]).toEqual([0, "Done.\n"]);
    expect(usual.stderr).toContain("The run is not stored, because");
  },
);

const EventSchema = z.looseObject({ type: z.string(), seq: z.number() });
const SummarySchema = z.looseObject({ status: z.string(), text: z.string(), runId: z.string() });

proves(
  ["V41"],
  "prints one object with --json, events with --events, and nothing else with --quiet",
  async () => {
    const folder = newFolder({ "lead.md": LEAD });
    await serverThat(() => says("Done."));
    const run = (...more: readonly string[]): Promise<Performed> =>
      performed(["run", "lead.md", "Go.", ...more], { cwd: folder.path });
    const json = await run("--json");
    expect(SummarySchema.parse(JSON.parse(json.stdout))).toMatchObject({
      status: "completed",
      text: "Done.",
    });
    const lines = (await run("--events")).stdout.trimEnd().split("\n");
    const events = lines.map((line) => EventSchema.parse(JSON.parse(line)));
    expect([events.at(0)?.type, events.at(-1)?.type]).toEqual(["run.started", "run.ended"]);
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, index) => index + 1));
    expect(await run("--quiet")).toEqual({ code: 0, stdout: "Done.\n", stderr: "" });
  },
);

proves(
  ["V41"],
  "removes control sequences from model text, and reads a task from stdin",
  async () => {
    const folder = newFolder({ "lead.md": LEAD });
    const server = await serverThat(() => says("\u001b[31mred\u001b[0m\u202e\nall:\r\n\tmake  "));
    const stdin = new PassThrough();
    stdin.end("From a pipe.");
    const done = await performed(["run", "lead.md", "-", "--quiet"], { cwd: folder.path, stdin });
    expect(done.stdout).toBe("red\nall:\n\tmake  \n");
    expect(server.request(1).bodyText).toContain("From a pipe.");
  },
);

proves(
  ["V42"],
  "selects folder tools by a pattern, which read nothing outside of the permitted folder",
  async () => {
    const folder = newFolder({ "lead.md": LEAD, "docs/a.txt": "inside", "secret.txt": "outside" });
    const server = await serverThat((_request, count) =>
      count === 1
        ? calls(
            ["folder_read", { path: "a.txt" }],
            ["folder_read", { path: "../secret.txt" }],
            ["folder_list", { path: "." }],
          )
        : says("Read."),
    );
    const args = ["run", "lead.md", "Go.", "--allow-read", "docs"];
    expect((await performed(args, { cwd: folder.path })).code).toBe(0);
    const { tools } = z
      .looseObject({ tools: z.array(z.object({ function: z.looseObject({ name: z.string() }) })) })
      .parse(server.request(1).body);
    expect(tools.map((tool) => tool.function.name)).toEqual([
      "folder_list",
      "folder_read",
      "folder_search",
    ]);
    const second = server.request(2).bodyText;
    expect(second).toContain("inside");
    expect(second).toContain("leaves the folder");
    expect(second).not.toContain("outside");
  },
);

proves(
  ["V42"],
  "asks about an MCP tool that is not declared read-only, and continues once with the answer",
  async () => {
    const folder = newFolder({
      "lead.md": "---\nmodel: m\ntools: [work_*]\n---\nWork.\n",
      "mcp.json": mcpFile(),
    });
    const server = await serverThat(({ bodyText }) =>
      bodyText.includes('"role":"tool"') ? says("Paid.") : calls(["work_data", { eur: 400 }]),
    );
    const at = { cwd: folder.path };
    const paused = await performed(["run", "lead.md", "Pay."], at);
    expect([paused.code, paused.stdout]).toEqual([4, ""]);
    expect(paused.stderr).toContain(
      '? lead: work_data {"eur":400}\n    The server work does not mark data as read-only.',
    );
    expect((await performed(["resume", "@last"], at)).code).toBe(4);

    const asked = await performed(["questions", "--json"], at);
    const { questions } = z
      .object({ questions: z.array(z.looseObject({ questionId: z.string(), runId: z.string() })) })
      .parse(JSON.parse(asked.stdout));
    expect(questions).toMatchObject([
      { toolName: "work_data", arguments: { eur: 400 }, agentPath: "lead" },
    ]);
    const { questionId, runId } = questions[0] ?? { questionId: "", runId: "" };
    expect((await performed(["questions"], at)).stdout).toMatch(/espalier approve [\da-f]{6}, or/u);
    expect((await performed(["approve", questionId, "--arguments", "[1]"], at)).code).toBe(2);
    const approved = await performed(
      ["approve", runId.slice(0, 8), "--arguments", '{"eur":40}'],
      at,
    );
    expect(approved).toEqual({
      code: 0,
      stdout: "",
      stderr: [
        'lead asks: work_data {"eur":400}',
        "  The server work does not mark data as read-only.",
        '  with these arguments instead: {"eur":40}',
        "lead: work_data is approved.",
        `Resume the run: espalier resume ${runId}\n`,
      ].join("\n"),
    });
    expect((await performed(["deny", questionId], at)).code).toBe(2);

    const resumed = await performed(["resume", "@last"], at);
    expect([resumed.code, resumed.stdout]).toEqual([0, "Paid.\n"]);
    expect(server.requests).toHaveLength(2);
    expect(server.request(2).bodyText).toContain('{\\"eur\\":40}');
    expect((await performed(["resume", runId], at)).code).toBe(2);
  },
);

proves(
  ["V42"],
  "does not ask about a server without needsApproval, and exits with 2 if a server cannot be reached",
  async () => {
    const lead = "---\nmodel: m\ntools: [work_data]\n---\nWork.\n";
    const folder = newFolder({
      "lead.md": lead,
      "mcp.json": mcpFile({ needsApproval: false, autoApprove: ["x"] }),
    });
    await serverThat(({ bodyText }) =>
      bodyText.includes('"role":"tool"') ? says("Paid.") : calls(["work_data", {}]),
    );
    expect((await performed(["run", "lead.md", "Pay."], { cwd: folder.path })).stdout).toBe(
      "Paid.\n",
    );
    const broken = newFolder({
      "lead.md": lead,
      "mcp.json": mcpFile({ command: "no-such-program" }),
    });
    const { code, stderr } = await performed(["run", "lead.md", "Pay."], { cwd: broken.path });
    expect([code, stderr]).toEqual([2, expect.stringContaining("[mcp_unavailable]")]);
    const missing = newFolder({
      "lead.md": lead,
      "mcp.json": mcpFile({ env: { KEY: "${NO_SUCH_KEY}" } }),
    });
    expect((await performed(["run", "lead.md", "Pay."], { cwd: missing.path })).stderr).toContain(
      "The server work needs the environment variable NO_SUCH_KEY",
    );
  },
);

proves(["V40"], "denies unanswered questions with --answer deny and completes", async () => {
  const folder = newFolder({
    "lead.md": "---\nmodel: m\ntools: [work_data]\n---\nWork.\n",
    "mcp.json": mcpFile(),
  });
  await serverThat(({ bodyText }) =>
    bodyText.includes('"role":"tool"') ? says("Not paid.") : calls(["work_data", {}]),
  );
  const done = await performed(["run", "lead.md", "Pay.", "--answer", "deny", "--no-store"], {
    cwd: folder.path,
  });
  expect([done.code, done.stdout]).toEqual([0, "Not paid.\n"]);
});

proves(
  ["V43"],
  "cancels a paused run by an id prefix, and reports ambiguous and unknown prefixes",
  async () => {
    const folder = newFolder({
      "lead.md": "---\nmodel: m\ntools: [work_data]\n---\nWork.\n",
      "mcp.json": mcpFile(),
    });
    await serverThat(() => calls(["work_data", {}]));
    const at = { cwd: folder.path };
    const ids: string[] = [];
    for (const _one of [1, 2]) {
      const { stdout } = await performed(["run", "lead.md", "Pay.", "--json"], at);
      ids.push(SummarySchema.parse(JSON.parse(stdout)).runId);
    }
    const several = await performed(["cancel", "run_"], at);
    expect([several.code, several.stderr]).toEqual([
      2,
      expect.stringContaining("is ambiguous (2 matches"),
    ]);
    expect((await performed(["cancel", "nope"], at)).stderr).toContain("No run matches");
    const [, second = ""] = ids;
    const cancelled = await performed(["cancel", second.slice(0, 12)], at);
    expect([cancelled.code, cancelled.stderr]).toEqual([0, `Cancelled ${second}.\n`]);
    const again = await performed(["cancel", second], at);
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining("[run_ended]")]);
  },
);

proves(
  ["V42"],
  "finds subagents beside a role file among other files, and applies --model to files without a model",
  async () => {
    const folder = newFolder({
      "lead.md": "---\nsubagents: [helper]\n---\nLead.\n",
      "web.md": "---\nname: helper\ndescription: Helps\nmodel: other\n---\nHelp.\n",
      "README.md": "# No role\n",
      "broken.md": "---\nmodel: [\n---\nNobody names me.\n",
    });
    const server = await serverThat(({ body }) =>
      body["model"] === "other"
        ? says("Helped.")
        : JSON.stringify(body).includes("Helped.")
          ? says("Led.")
          : calls(["SpawnSubagent", { role: "helper", task: "Help." }]),
    );
    const done = await performed(["run", "lead.md", "Go.", "--model", "mine"], {
      cwd: folder.path,
    });
    expect([done.code, done.stdout]).toEqual([0, "Led.\n"]);
    expect(server.requests.map(({ body }) => body["model"])).toEqual(["mine", "other", "mine"]);
  },
);
