// Goal: the demo works as documented: without a key, with a server, and with and without a trace
// endpoint.
// Method: the real program as a separate process, whose environment contains only what the test
// sets.

import { readFileSync, writeFileSync } from "node:fs";

import { expect, test } from "vitest";

import { EXIT_CODES } from "../../../src/cli/exit-codes.ts";
import { proves } from "../../harness/proves.ts";

import { OtlpSink } from "../../support/otlp-sink.ts";
import { demo } from "../../support/cli/demo-program.ts";
import { plannerOverResponses, plannerServer } from "../../support/cli/planner-server.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

const FILES = {
  "readme.md": "# The project\n",
  "core/engine.ts": "// Engine: turns the wheels.\n",
  "core/parts/wheel.ts": "/** A wheel that turns. */\n",
};
const OFFLINE =
  "This is the offline planner, which follows fixed rules and is not a language model.";

test("announces the simulated model without a key and surveys the source of espalier", async () => {
  const { code, lines, stdout, stderr } = await demo();

  expect(code).toBe(0);
  expect(lines[0]).toBe(OFFLINE);
  expect(stdout).toContain("`engines.ts`: Entry `espalier/engines`: ");
  expect(stderr).toMatch(/^Trace id [0-9a-f]{32}$/m);
  expect(stdout + stderr).not.toContain("\u001b");
});

proves(["S7.36"], "prints the table of the first guide, except for times and tokens", async () => {
  const { stderr } = await demo();
  const [, picture = ""] =
    /\nTree \(simulated\)\n([\s\S]+?)\n\nUsage by role \(simulated\)\n/.exec(stderr) ?? [];
  if (process.env["UPDATE_GOLDEN"] === "1" && (process.env["CI"] ?? "") === "") repaint(picture);
  const [, , pictured = ""] = PICTURE.exec(readFileSync(GUIDE, "utf8")) ?? [];
  expect(
    inOutline(picture),
    `the table in ${GUIDE}; if the change is meant, run with UPDATE_GOLDEN=1 on a quiet machine`,
  ).toEqual(inOutline(pictured));
  expect(stderr).toMatch(/^8 agents, .*, 1 spawn refused \(breadth_limit 1\)$/m);
});

const GUIDE = "docs/guides/first-tree.md";
const PICTURE = /(<!-- picture: npm run demo -->\n+```text\n)([\s\S]*?)(\n```)/;

function repaint(picture: string): void {
  const guide = readFileSync(GUIDE, "utf8");
  const paint = (_shown: string, before: string, _old: string, after: string): string =>
    before + picture + after;
  writeFileSync(GUIDE, guide.replace(PICTURE, paint));
}

/** Returns the cells of each line without varying figures; tasks are cut to the narrowest width. */
function inOutline(picture: string): readonly (readonly string[])[] {
  return picture.split("\n").map((line) => {
    const cells = line.split(/ {2,}/).filter((cell) => cell !== "");
    return cells.map((cell) => cell.replace(/^[\d.,]+(k|M|m?s|m \d+s)?$/, "#").slice(0, 25));
  });
}

test("ignores an API key that the shell has for other programs", async () => {
  using folder = temporaryFolder(FILES);
  const { code, lines } = await demo({ args: [folder.path], env: { OPENAI_API_KEY: "k" } });
  expect([code, lines[0]]).toEqual([0, OFFLINE]);
});

test("prints only the report on stdout; events, tree, budget and trace id go to stderr", async () => {
  using folder = temporaryFolder(FILES);
  const { code, stdout, stderr } = await demo({ args: [folder.path, "Where is the wheel?"] });

  expect(code).toBe(0);
  expect(stdout).toMatch(/^# Survey\n/);
  expect(stdout).toContain("- core/engine.ts: reading it whole was denied");
  const order = [
    OFFLINE,
    "lead started: ",
    "lead/surveyor#1/surveyor#1 completed: ",
    "\nTree (simulated)\nagent ",
    "\n│  └─ surveyor#1  ✔ completed ",
    "\nBudget of the run (simulated)\naxis ",
    "\nUsage by role (simulated)\n",
    "\nTrace id ",
  ];
  const places = order.map((text) => stderr.indexOf(text));
  expect(places).not.toContain(-1);
  expect(places).toEqual(places.toSorted((left, right) => left - right));
});

proves(["M37", "M43"], "prints the same with any server that speaks Chat Completions", async () => {
  using folder = temporaryFolder(FILES);
  await using server = await plannerServer();
  const args = [folder.path];
  const offline = await demo({ args });
  const env = { OPENAI_BASE_URL: server.baseUrl, ESPALIER_MODEL: "org/some-model:8b" };
  const online = await demo({ args, env });

  expect(online.code).toBe(0);
  expect(online.lines[0]).toBe("Model: org/some-model:8b");
  expect(server.request(1).body).toMatchObject({ model: "org/some-model:8b" });
  expect(online.stdout).toBe(offline.stdout);
  expect(online.stderr).toContain("unknown");
});

proves(["M43", "M16"], "prints the same with a server that speaks Responses", async () => {
  using folder = temporaryFolder(FILES);
  await using server = await plannerOverResponses();
  const args = [folder.path];
  const offline = await demo({ args });
  const env = {
    OPENAI_BASE_URL: server.baseUrl,
    ESPALIER_OPENAI_API: "responses",
    ESPALIER_MODEL: "gpt-5.6",
  };
  const online = await demo({ args, env });

  expect(online.code).toBe(0);
  expect(new Set(server.requests.map(({ path }) => path))).toEqual(new Set(["/v1/responses"]));
  expect(online.stdout).toBe(offline.stdout);
});

proves(["S7.36"], "maps every final or paused status to its own exit code", () => {
  expect(EXIT_CODES).toEqual({ completed: 0, failed: 1, stopped: 3, paused: 4, cancelled: 130 });
});

test("exports all spans of the run to an endpoint, in the trace whose id is shown", async () => {
  using folder = temporaryFolder(FILES);
  await using sink = await OtlpSink.open();
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: sink.endpoint };
  const { code, stderr } = await demo({ args: [folder.path], env });

  const [, traceId = ""] = /^Trace id ([0-9a-f]{32})$/m.exec(stderr) ?? [];
  expect(code).toBe(0);
  expect([...sink.traces().keys()]).toEqual([traceId]);
  expect(stderr).toContain(`Trace sent: ${sink.spans.length} spans`);
  const agents = sink.spans.filter(({ name }) => name.startsWith("invoke_agent"));
  const spawns = sink.spans.filter(({ name }) => name.startsWith("spawn "));
  const parents = agents.map(({ parentSpanId }) => parentSpanId);
  expect(parents).toEqual(expect.arrayContaining(spawns.map(({ spanId }) => spanId)));
  expect([agents.length, spawns.length]).toEqual([4, 3]);
  expect(stderr).toContain(`Trace    http://localhost:16686/trace/${traceId}`);
});

test("links the trace to the Jaeger that the environment names", async () => {
  using folder = temporaryFolder(FILES);
  await using sink = await OtlpSink.open();
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: sink.endpoint,
    ESPALIER_JAEGER_URL: "https://tools.example.org/jaeger/",
  };
  const { code, stderr } = await demo({ args: [folder.path], env });
  expect(code).toBe(0);
  expect(stderr).toMatch(
    /^Trace id ([0-9a-f]{32})\nTrace {4}https:\/\/tools\.example\.org\/jaeger\/trace\/\1$/m,
  );
});

test("prints its usage with --help", async () => {
  const { code, stdout } = await demo({ args: ["--help"] });

  expect(code).toBe(0);
  expect(stdout).toContain("Usage: espalier demo [options] [folder] [task]");
  expect(stdout).toContain("ESPALIER_MODEL");
});
