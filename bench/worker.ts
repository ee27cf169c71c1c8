// One measurement in a fresh process: `worker.ts <contender> <workload> <address>`. Prints CPU, wall time and peak memory as JSON.

import { performance } from "node:perf_hooks";

import { bareLoop } from "./bare-loop.ts";
import type { Contender } from "./contender.ts";
import { espalierAgent } from "./espalier-agent.ts";

const [name, workload, address] = process.argv.slice(2);

function contender(baseUrl: string): Contender {
  if (name === "openai-loop") return bareLoop(baseUrl);
  return espalierAgent(baseUrl, name === "espalier, traced");
}

if (address === undefined) throw new Error("Expected: worker.ts <contender> <workload> <address>");
const candidate = contender(address);
const run = (): Promise<void> =>
  workload === "W1" ? candidate.steps(50) : candidate.children(100);
for (let warmUp = 0; warmUp < Number(process.env["WARM_UPS"] ?? 10); warmUp += 1) await run();
const before = process.cpuUsage();
const startedAt = performance.now();
const REPEATS = Number(process.env["REPEATS"] ?? 10);
for (let repeat = 0; repeat < REPEATS; repeat += 1) await run();
const wallMs = (performance.now() - startedAt) / REPEATS;
const cpu = process.cpuUsage(before);
await candidate.close();
const cpuMs = (cpu.user + cpu.system) / 1_000 / REPEATS;
process.stdout.write(
  JSON.stringify({ cpuMs, wallMs, peakMb: process.resourceUsage().maxRSS / 1_024 }),
);
