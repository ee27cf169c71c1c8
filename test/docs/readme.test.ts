// Goal: the README and the first guide are correct.
// Method: their programs are files in examples/. Each runs as a process against a server that
// speaks the wire format.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";

import type { ResponseOutputItem } from "openai/resources/responses/responses";
import { expect, test } from "vitest";

import { getHookPoints } from "../../src/hooks/patch-contract.ts";
import { functionCall, message, reasoning } from "../fixtures/streams/response-events.ts";
import { proves } from "../harness/proves.ts";
import { calls, OpenAiServer, says, status } from "../support/openai-server.ts";
import { responds } from "../support/responses-replies.ts";

const FIRST_PROGRAM = "examples/first-program.ts";
const readme = readFileSync("README.md", "utf8");

test("shows the program of examples/ in the README, which has at most 1,200 words", () => {
  expect(readme.split(/\s+/).length).toBeLessThanOrEqual(1_200);
  const snippets = [...readme.matchAll(/<!-- snippet: (.+) -->\n+```ts\n([\s\S]*?)```/g)];
  expect(snippets.map(([, file]) => file)).toEqual(["examples/in-brief.ts"]);
  for (const [, file = "", snippet] of snippets) expect(snippet).toBe(readFileSync(file, "utf8"));
});

/** Returns the cells after the label of a row, which is in the first or second column. */
const cellsOf = (text: string, label: string): readonly string[] => {
  const rows = text.split("\n").map((line) => line.split("|").map((cell) => cell.trim()));
  const row = rows.find((cells) => cells.slice(1, 3).includes(label)) ?? [];
  return row.slice(row.indexOf(label) + 1, -1);
};

test("compares espalier in the README by the figures of the benchmarks", () => {
  const [, peers = ""] = readFileSync("docs/BENCHMARKS.md", "utf8").split("<!-- peers -->");
  const cpu = (row: string) => cellsOf(peers, row).slice(1); // Without the bare loop.
  const ends = ["espalier", "ai-sdk", "openai-agents"].map((row) => cellsOf(peers, row));
  const limit = (column: number) => ends.map((cells) => cells[column]);
  const rows = {
    "CPU per step, after 3 warm-up runs": cpu("CPU per step, three warm-up runs"),
    "CPU per step, after 60 warm-up runs": cpu("CPU per step, sixty warm-up runs"),
    "tokens spent (goal: 10,000)": limit(0),
    "depth reached (goal: 2)": limit(1),
    "model calls": limit(2),
  };
  const shown = Object.keys(rows).map((row) => [row, cellsOf(readme, row)]);
  expect(Object.fromEntries(shown)).toEqual(rows);
  const [, date = ""] = /, (\d{4}-\d\d-\d\d), Node/.exec(peers) ?? [];
  const [, agents = "", ai = ""] = /`@openai\/agents` ([\d.]+), `ai` ([\d.]+)/.exec(peers) ?? [];
  for (const word of [date, `\`ai\` ${ai}`, `\`@openai/agents\` ${agents}`])
    expect(readme).toContain(word);
});

proves(
  ["M43"],
  "runs the program of the README, which prints the reason if it does not complete",
  async () => {
    await using server = await OpenAiServer.start(({ bodyText }) => {
      if (!bodyText.includes("Ask one reader per part")) return says("It is a tree.");
      if (bodyText.includes('"role":"tool"')) return says("All three are trees.");
      return calls(
        ["SpawnSubagent", { role: "reader", task: "oak" }],
        ["SpawnSubagent", { role: "reader", task: "beech" }],
        ["SpawnSubagent", { role: "reader", task: "lime" }],
      );
    });
    const done = { code: 0, stdout: "All three are trees.\n", stderr: "" };
    expect(await program("examples/in-brief.ts", server)).toEqual(done);
    await using refusing = await OpenAiServer.start(() => status(401));
    const { stdout } = await program("examples/in-brief.ts", refusing);
    expect(stdout).toMatch(/^failed: Expected .+401/);
  },
);

test("documents exactly the existing hook points", () => {
  const [, table = ""] = readFileSync("docs/hooks.md", "utf8").split("## Hook points");
  const points = [...table.matchAll(/^\| `(\w+)`/gm)].map(([, point]) => point);
  expect(new Set(points)).toEqual(new Set(getHookPoints()));
});

/**
 * The output of the first program, in any order: the lines of the guide, and the reply of the lead.
 */
const [, shown = ""] =
  /```text\n(lead: [\s\S]*?)```/.exec(readFileSync("docs/guides/first-tree.md", "utf8")) ?? [];
const PRINTED = `${shown.replace("… tokens", "90 tokens")}\nTwo files, summed up.\n`
  .split("\n")
  .toSorted();

proves(["M43"], "runs the first program with two readers and one summary", async () => {
  await using server = await OpenAiServer.start(({ bodyText }) => {
    const isLead = bodyText.includes("Start one reader per file");
    if (bodyText.includes('"role":"tool"'))
      return says(isLead ? "Two files, summed up." : "It is for npm.");
    if (!isLead) return calls(["read", { path: "package.json" }]);
    return calls(
      ["SpawnSubagent", { role: "reader", task: "package.json" }],
      ["SpawnSubagent", { role: "reader", task: "README.md" }],
    );
  });
  const { code, stdout, stderr } = await firstProgram(server);
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout.split("\n").toSorted()).toEqual(PRINTED);
});

proves(["M43"], "runs the first program over Responses with encrypted reasoning", async () => {
  const call = (id: string, name: string, input: object): ResponseOutputItem =>
    functionCall(id, name, JSON.stringify(input));
  await using server = await OpenAiServer.start(
    (request) => {
      const isLead = request.bodyText.includes("Start one reader per file");
      if (request.bodyText.includes("function_call_output"))
        return request.bodyText.includes('"encrypted_content":"gAAAAB"')
          ? responds(request, [message(isLead ? "Two files, summed up." : "It is for npm.")])
          : status(400);
      const thought = reasoning([], "gAAAAB");
      if (!isLead)
        return responds(request, [thought, call("call_1", "read", { path: "package.json" })]);
      return responds(request, [
        thought,
        call("call_1", "SpawnSubagent", { role: "reader", task: "package.json" }),
        call("call_2", "SpawnSubagent", { role: "reader", task: "README.md" }),
      ]);
    },
    { takesAnyMessages: true },
  );
  const { code, stdout, stderr } = await firstProgram(server, "responses");
  expect([code, stderr]).toEqual([0, ""]);
  expect(stdout.split("\n").toSorted()).toEqual(PRINTED);
});

proves(
  ["S7.36"],
  "prints failed agents with their reasons, and exits with 1 if the run fails",
  async () => {
    await using refusing = await OpenAiServer.start(() => status(401));
    const failed = await firstProgram(refusing);
    expect(failed.code).toBe(1);
    expect(failed.stderr).toMatch(/^lead failed: Expected .+ got .*401.+\n$/);
    expect(failed.stdout).toContain("failed (error), 0 tokens");
    await using halved = await OpenAiServer.start(({ bodyText }) => {
      if (!bodyText.includes("Start one reader per file")) return status(404);
      if (bodyText.includes('"role":"tool"')) return says("Nothing could be read.");
      return calls(["SpawnSubagent", { role: "reader", task: "README.md" }]);
    });
    const partly = await firstProgram(halved);
    expect(partly.code).toBe(0);
    expect(partly.stderr).toMatch(/^lead\/reader#1 failed: Expected .+404.+\n$/);
  },
);

async function firstProgram(server: OpenAiServer, api?: string) {
  return await program(FIRST_PROGRAM, server, api);
}

/** Runs the program as a user would. */
async function program(file: string, server: OpenAiServer, api = "chat_completions") {
  const env = {
    ...process.env,
    OPENAI_API_KEY: "none",
    OPENAI_BASE_URL: server.baseUrl,
    ESPALIER_OPENAI_API: api,
  };
  const args = ["--conditions=@espalier/source", file];
  return await new Promise<{
    readonly code: unknown;
    readonly stdout: string;
    readonly stderr: string;
  }>((resolve) => {
    execFile(process.execPath, args, { env }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}
