// Goal: the bench measures each workload on both sides as documented, and reports no figure whose
// spans were lost.
// Method: run the command itself with little work in one round; check that figures are present,
// never their size.

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";

import { afterAll, expect, test, vi } from "vitest";

import { proves } from "../harness/proves.ts";

/** Only catches a hang: some forty processes run one after the other. */
const HANGS_MS = 600_000;

vi.setConfig({ testTimeout: HANGS_MS });
afterAll(() => vi.resetConfig());

async function bench(
  workloads: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<string> {
  const command = ["--conditions=@espalier/source", "bench/run.ts", "--small", "--rounds", "1"];
  const env = { ...process.env, ...environment };
  const options = { env, timeout: HANGS_MS };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [...command, ...workloads],
    options,
  );
  return stdout;
}

/** Returns the cells of the rows of all tables, without their headings and rules. */
function rowsOf(text: string): readonly (readonly string[])[] {
  const lines = text.split("\n");
  const rows = lines.filter(
    (line, at) => line.startsWith("|") && lines[at + 1]?.startsWith("| -") !== true,
  );
  return rows
    .filter((line) => !line.startsWith("| -"))
    .map((line) =>
      line
        .slice(2, -2)
        .split(" | ")
        .map((cell) => cell.trim()),
    );
}

const AMOUNT = /^-?\d+(\.\d+)?( (ms|µs|KB|MB|×))?$/;
const RATIO = /^-?\d+\.\d\d$/;
/** The required figures of each workload, and the required limits of the next fixtures. */
const FIGURES = [
  ["**W1**: one agent, 50 tool steps", "CPU per step, three warm-up runs", "≤ 0.8"],
  ["", "CPU per step, sixty warm-up runs", "≤ 0.6"],
  ["", "wall per step, three warm-up runs", ""],
  ["", "added by tracing: CPU per step, three warm-up runs", "≤ 0.15"],
  ["", "added by tracing: CPU per step, sixty warm-up runs", "≤ 0.15"],
  ["", "added by tracing without an SDK: CPU per step, sixty warm-up runs", ""],
  ["", "added by content in spans: CPU per step, sixty warm-up runs", ""],
  ["", "added by SQLite, kept for the process: CPU per step, sixty warm-up runs", ""],
  ["", "added by SQLite, every commit flushed: CPU per step, three warm-up runs", "≤ 0.5"],
  ["", "added by SQLite, every commit flushed: CPU per step, sixty warm-up runs", "≤ 0.5"],
  ["", "journal per step", "≤ 6 KB"],
  ["**W2**: 100 children × 3 steps at once", "CPU", "≤ 0.85"],
  ["**W2**: the same, replies after 20 ms", "wall less latency", "≤ 0.7"],
  ["", "CPU", ""],
  ["", "most requests in flight", "100"],
  ["**W3**: chain of five agents", "CPU", "≤ 0.85"],
  ["**W4**: 1,000 runs of one agent that wait", "heap per agent", "≤ 0.9"],
  ["", "longest block", "≤ 0.4"],
  ["**W5**: streaming", "CPU per 1,000 deltas in a burst", "≤ 0.45"],
  ["", "time to the first delta", "≤ 0.65"],
  ["**W6**: import", "CPU of `espalier` and `zod` less that of `zod`, to `openai`", "≤ 0.4"],
  ["**W7**: 400 steps with a growing history", "CPU", "≤ 0.6"],
  ["", "cost of step 400 to step 10", "≤ 1"],
  [
    "**responses**: Responses, a history of 40 steps with reasoning",
    "CPU per streamed call",
    "≤ 0.5",
  ],
  [
    "**spawn**: 10,000 subagents: one root, replies of 100 delegations",
    "CPU per spawn, untraced; ratio to trees of 100",
    "≤ 60 µs",
  ],
  ["", "CPU per spawn, traced; ratio to trees of 100", "≤ 120 µs"],
  ["", "longest block", "≤ 60 ms"],
  ["", "heap afterwards, beyond that before", ""],
  [
    "**spawn**: 10,000 subagents: one root, all in one reply",
    "CPU per spawn, traced; ratio to trees of 100",
    "",
  ],
  ["", "longest block", ""],
  ["", "heap afterwards, beyond that before", ""],
  [
    "**spawn**: 10,000 subagents: ten below every agent",
    "CPU per spawn, traced; ratio to trees of 100",
    "",
  ],
  ["", "longest block", ""],
  ["", "heap afterwards, beyond that before", ""],
  [
    "**waiters**: 10,000 subagents that wait for budget: one limit at the root",
    "CPU per subagent; ratio to one that has room",
    "",
  ],
  [
    "**waiters**: 10,000 subagents that wait for budget: a hundred limits, one over each hundred",
    "CPU per subagent; ratio to one that has room",
    "",
  ],
  [
    "**flat**: 1,000 runs at once, an agent of 2,000 steps",
    "CPU per run, 1,000 at once; ratio to ten at once",
    "ratio ≤ 1.15",
  ],
  ["", "CPU per step, of 2,000; ratio to agents of 100", "ratio ≤ 1.15"],
  ["", "longest block", "≤ 60 ms"],
  ["", "heap afterwards, beyond that before", ""],
  ["**endless**: replies that never end, of eight kinds", "longest block", "≤ 50 ms"],
  ["", "memory of the process", "≤ 64 MB"],
];

proves(
  ["R186"],
  "measures every workload in one command and describes each beside the recorded figures",
  async () => {
    const text = await bench([]);
    const rows = rowsOf(text);
    const figures = rows.filter((row) => row.length === 7);
    expect(figures.map(([workload, figure, , , , , limit]) => [workload, figure, limit])).toEqual(
      FIGURES,
    );
    expect(figures.filter(([, , , own = ""]) => !AMOUNT.test(own))).toEqual([]);
    const sided = figures.filter(([, , base]) => base !== "");
    expect(sided).toHaveLength(22);
    expect(
      sided.filter(([, , base = "", , ratio = ""]) => !AMOUNT.test(base) || !RATIO.test(ratio)),
    ).toEqual([]);
    const bursts = rows.filter((row) => row.length === 9);
    expect(
      bursts.map(([endpoint, way, received, lost]) => [endpoint, way, received, lost]),
    ).toEqual(BURSTS);
    const document = readFileSync("docs/BENCHMARKS.md", "utf8");
    const ids = [...text.matchAll(/\*\*(\w+)\*\*:/g)].map(([, id]) => id);
    expect(ids.filter((id) => !document.includes(`| **${id}**`))).toEqual([]);
    expect(document).toMatch(/<!-- figures -->\n[^]*\| [^]*<!-- end of figures -->/);
  },
);

/**
 * By endpoint and exporter: spans that arrive or are lost. A small burst fits into the queue of the
 * SDK as well.
 */
const BURSTS = [
  ["takes them", "SDK as it comes", "202", "0"],
  ["takes them", "`setUpNodeTracing`", "202", "0"],
  ["answers in 200 ms", "SDK as it comes", "202", "0"],
  ["answers in 200 ms", "`setUpNodeTracing`", "202", "0"],
  ["never answers", "SDK as it comes", "0", "202"],
  ["never answers", "`setUpNodeTracing`", "0", "202"],
  ["refuses connections", "SDK as it comes", "0", "202"],
  ["refuses connections", "`setUpNodeTracing`", "0", "202"],
  ["answers 503", "SDK as it comes", "0", "202"],
  ["answers 503", "`setUpNodeTracing`", "0", "202"],
];

const LOSSES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "nothing is traced": { OTEL_TRACES_SAMPLER: "always_off" },
  "there is no SDK": { OTEL_SDK_DISABLED: "true" },
  "spans go elsewhere": { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://127.0.0.1:1/v1/traces" },
};

test.each(Object.entries(LOSSES))("fails if %s", async (_what, environment) => {
  await expect(bench(["W3"], environment)).rejects.toThrow(
    /W3, espalier: Expected spans of .* to arrive, got .* A cost without its spans says nothing\./,
  );
});
