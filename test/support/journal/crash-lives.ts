// Lives of crash-process.ts, each in its own process, and the files that they leave.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { isRecord } from "../../../src/kernel/json.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { afterwards } from "../../harness/afterwards.ts";

const PROGRAM = fileURLToPath(new URL("crash-process.ts", import.meta.url));

export interface LifePlan {
  /** The arguments of the program; see there. */
  readonly program: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** The delay after it is up. `undefined` if it may kill itself, or lives to its end. */
  readonly killedAfterMs?: number | undefined;
}

export interface Life {
  readonly end: "ended" | "run_ended" | "killed";
  /** The time from when it was up until its process was gone. */
  readonly lastedMs: number;
}

/** Rejects if its process ended in another way. */
export async function live({ program, env = {}, killedAfterMs }: LifePlan): Promise<Life> {
  const child = spawn(process.execPath, ["--conditions=@espalier/source", PROGRAM, ...program], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  afterwards(() => child.kill("SIGKILL")); // A test that was given up leaves no process behind.
  const closed = once(child, "close");
  const complaint = text(child.stderr);
  let killer: NodeJS.Timeout | undefined;
  let upAtMs = performance.now();
  let said = "";
  for await (const line of createInterface(child.stdout)) {
    said = line;
    if (line !== "up") continue;
    upAtMs = performance.now();
    if (killedAfterMs !== undefined)
      killer = setTimeout(() => child.kill("SIGKILL"), killedAfterMs);
  }
  await closed;
  clearTimeout(killer);
  const lastedMs = performance.now() - upAtMs;
  if (child.signalCode === "SIGKILL") return { end: "killed", lastedMs };
  if (said === "ended" || said === "run_ended") return { end: said, lastedMs };
  throw new Error(`Expected the process to end, or to be killed: ${await complaint}`);
}

/** Returns the lines that processes wrote to a file of their folder. */
export function linesOf(folder: string, name: string): readonly string[] {
  const file = join(folder, name);
  return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
}

/** Returns the result, as written by the process that lived to the end of the run. */
export function resultIn(folder: string): RunResult {
  const result: unknown = JSON.parse(readFileSync(join(folder, "result.json"), "utf8"));
  if (!isResult(result)) throw new Error("no result");
  return result;
}

function isResult(value: unknown): value is RunResult {
  return isRecord(value) && Array.isArray(value["agents"]) && isRecord(value["usage"]);
}

/** Returns the number of model calls whose outcome is unknown. */
export function lostCallsIn(events: readonly EspalierEvent[]): number {
  return events.reduce(
    (sum, event) => sum + (event.type === "run.resumed" ? (event.recovery?.lostCallCount ?? 0) : 0),
    0,
  );
}

/**
 * Returns the facts that runs must share, however often their processes died. Lost model calls are
 * charged besides.
 */
export function gist({ status, text, agents, usage }: RunResult, lostCalls: number): object {
  const { toolCalls, modelCalls, outputTokens } = usage.total;
  return {
    status,
    text,
    agents: Object.fromEntries(
      agents.map((agent) => [agent.agentPath, [agent.status, agent.text]]),
    ),
    toolCalls,
    modelCalls: modelCalls - lostCalls,
    outputTokens,
  };
}
