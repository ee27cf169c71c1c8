// Goal: the workloads of many agents measure what they say, on both sides.
// Method: each contender does each once, small, in a process of its own; figures are looked at for being there, never for size.

import { execFile, fork } from "node:child_process";
import { promisify } from "node:util";

import { test } from "vitest";
import { z } from "zod";

const TIMEOUT_MS = 120_000;
const FLAGS = [
  "--conditions=@espalier/source",
  "--disable-warning=ExperimentalWarning",
  "--expose-gc",
];
const WaitingSchema = z.strictObject({
  heapKb: z.number(),
  rssKb: z.number(),
  longestBlockMs: z.number().positive(),
});
const SpawnSchema = z.strictObject({
  cpuUs: z.number().positive(),
  wallUs: z.number().positive(),
  heapKb: z.number(),
  longestBlockMs: z.number().positive(),
});

async function figures(
  run: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<unknown> {
  const env = { ...process.env, WARM_UPS: "0", ...environment };
  const { stdout } = await promisify(execFile)(process.execPath, [...FLAGS, ...run], { env });
  return JSON.parse(stdout);
}

test(
  "every contender waits with all its agents at once, and lets them go",
  async () => {
    const server = fork("bench/server.ts", {
      execArgv: FLAGS,
      stdio: ["ignore", "pipe", "inherit", "ipc"],
    });
    try {
      const address = await new Promise<string>((resolve) =>
        server.stdout?.once("data", (data) => resolve(String(data).trim())),
      );
      const environment = { WAITING: "20", OTEL_EXPORTER_OTLP_ENDPOINT: address };
      for (const contender of ["openai-loop", "espalier", "espalier, traced"]) {
        const run = ["bench/worker.ts", contender, "W4", address];
        WaitingSchema.parse(await figures(run, environment));
      }
    } finally {
      server.disconnect();
    }
  },
  TIMEOUT_MS,
);

test(
  "subagents are spawned in every shape",
  async () => {
    for (const shape of ["at once", "by hundreds", "by tens"]) {
      const run = ["bench/spawn-worker.ts", "espalier", shape, "100"];
      SpawnSchema.parse(await figures(run, { SPAWNS: "100" }));
    }
  },
  TIMEOUT_MS,
);
