// Goal: the benchmark measures what it says, on both sides, and its baseline is on record.
// Method: each contender does each workload once, in a process of its own; figures are looked at for being there, never for size.

import { execFile, fork, type ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";

import { afterAll, beforeAll, expect } from "vitest";
import { z } from "zod";

import { proves } from "./harness/proves.ts";

const FLAGS = ["--conditions=@espalier/source", "--disable-warning=ExperimentalWarning"];
const FigureSchema = z.object({
  cpuMs: z.number().positive(),
  wallMs: z.number().positive(),
  peakMb: z.number().positive(),
});

let server: ChildProcess;
let address: string;

beforeAll(async () => {
  server = fork("bench/server.ts", {
    execArgv: FLAGS,
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  address = await new Promise<string>((resolve) =>
    server.stdout?.once("data", (data) => resolve(String(data).trim())),
  );
});
afterAll(() => server.disconnect());

for (const contender of ["openai-loop", "espalier", "espalier, traced"])
  for (const workload of ["W1", "W2"])
    proves(["R186"], `${contender} does ${workload}, and its baseline is recorded`, async () => {
      const env = {
        ...process.env,
        WARM_UPS: "0",
        REPEATS: "1",
        OTEL_EXPORTER_OTLP_ENDPOINT: address,
      };
      const run = [...FLAGS, "bench/worker.ts", contender, workload, address];
      const { stdout } = await promisify(execFile)(process.execPath, run, { env });
      FigureSchema.parse(JSON.parse(stdout));
      expect(readFileSync("docs/BENCHMARKS.md", "utf8")).toMatch(
        new RegExp(`\\| ${contender} +\\|`),
      );
    });
