// Goal: the benchmark measures what it says, on both sides, and its baseline is on record.
// Method: each contender does each workload once, in a process of its own; figures are looked at for being there, never for size.

import { execFile, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";

import { expect } from "vitest";
import { z } from "zod";

import { proves } from "./harness/proves.ts";

const FLAGS = ["--conditions=@espalier/source", "--disable-warning=ExperimentalWarning"];
const FigureSchema = z.object({
  cpuMs: z.number().positive(),
  wallMs: z.number().positive(),
  peakMb: z.number().positive(),
});

proves(["R186"], "every contender does every workload, and the baseline is recorded", async () => {
  const server = fork("bench/server.ts", {
    execArgv: FLAGS,
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  try {
    const address = await new Promise<string>((resolve) =>
      server.stdout?.once("data", (data) => resolve(String(data).trim())),
    );
    const env = {
      ...process.env,
      WARM_UPS: "0",
      REPEATS: "1",
      OTEL_EXPORTER_OTLP_ENDPOINT: address,
    };
    for (const contender of ["openai-loop", "espalier", "espalier, traced"]) {
      for (const workload of ["W1", "W2"]) {
        const run = [...FLAGS, "bench/worker.ts", contender, workload, address];
        const { stdout } = await promisify(execFile)(process.execPath, run, { env });
        FigureSchema.parse(JSON.parse(stdout));
      }
      expect(readFileSync("docs/BENCHMARKS.md", "utf8")).toMatch(
        new RegExp(`\\| ${contender} +\\|`),
      );
    }
  } finally {
    server.disconnect();
  }
});
