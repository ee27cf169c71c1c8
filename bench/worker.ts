// One measurement in a fresh process: `worker.ts <contender> <workload> <address>`. Prints CPU, wall time and peak memory as JSON; of W4
// what each waiting agent weighs and the longest block of the event loop, for which it needs `--expose-gc`.

import { performance } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";

import { bareLoop } from "./bare-loop.ts";
import type { Contender } from "./contender.ts";
import { espalierAgent, type BenchTracing } from "./espalier-agent.ts";
import { longestBlock, memoryInUse } from "./event-loop.ts";

const [name, workload, address] = process.argv.slice(2);

const TRACINGS: readonly BenchTracing[] = ["no SDK", "traced", "content"];

function contender(baseUrl: string): Contender {
  if (name === "openai-loop") return bareLoop(baseUrl);
  const traced = TRACINGS.find((kind) => name === `espalier, ${kind}`);
  return espalierAgent(baseUrl, traced ?? "none");
}

if (address === undefined) throw new Error("Expected: worker.ts <contender> <workload> <address>");
const candidate = contender(address);
const figures =
  workload === "W4"
    ? await waitingFigures(candidate, address)
    : await workFigures(candidate, workload);
await candidate.close();
process.stdout.write(JSON.stringify(figures));

async function workFigures(of: Contender, what: string | undefined): Promise<object> {
  const run = (): Promise<void> => (what === "W1" ? of.steps(50) : of.children(100));
  for (let warmUp = 0; warmUp < Number(process.env["WARM_UPS"] ?? 10); warmUp += 1) await run();
  const before = process.cpuUsage();
  const startedAt = performance.now();
  const repeats = Number(process.env["REPEATS"] ?? 10);
  for (let repeat = 0; repeat < repeats; repeat += 1) await run();
  const wallMs = (performance.now() - startedAt) / repeats;
  const cpu = process.cpuUsage(before);
  const cpuMs = (cpu.user + cpu.system) / 1_000 / repeats;
  return { cpuMs, wallMs, peakMb: process.resourceUsage().maxRSS / 1_024 };
}

async function waitingFigures(of: Contender, server: string): Promise<object> {
  const agents = Number(process.env["WAITING"] ?? 1_000);
  for (let warmUp = 0; warmUp < Number(process.env["WARM_UPS"] ?? 5); warmUp += 1)
    await of.children(100);
  const before = await memoryInUse();
  const blockMs = await longestBlock();
  const run = of.waiting(agents);
  while ((await ask(server, "/waiting")) < agents) await pause(20);
  const during = await memoryInUse();
  await ask(server, "/release");
  await run;
  const longestBlockMs = await blockMs();
  const perAgent = (from: number, to: number): number => (to - from) / 1_024 / agents;
  return {
    heapKb: perAgent(before.heapUsed, during.heapUsed),
    rssKb: perAgent(before.rss, during.rss),
    longestBlockMs,
  };
}

/** A request of the measurement itself. */
async function ask(server: string, path: string): Promise<number> {
  const response = await fetch(`${server}${path}`);
  return Number(await response.text());
}
