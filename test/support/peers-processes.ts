// Runs that are paused in one process and continued with in another, by way of files.

import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { expect, onTestFinished } from "vitest";

import { isRecord } from "../../src/kernel/json.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import type { Answer } from "../../src/protocol/question.ts";
import type { Thrown } from "./thrown.ts";

/** The outcome of a paused run in another process. */
interface Outcome {
  readonly pid: number;
  readonly result?: RunResult;
  readonly refused?: Thrown;
  readonly events: readonly EspalierEvent[];
}

/** A folder for one test, with the log of the tools. */
export interface Station {
  readonly logFile: string;
  /** The lines of the log, in order. */
  log(): readonly string[];
  /** Writes run and answers to files, and lets a fresh process continue them. */
  goOnAfresh(paused: RunResult, answers: readonly Answer[]): Promise<Outcome>;
}

const PROGRAM = fileURLToPath(new URL("./fresh-process.ts", import.meta.url));

export function station(): Station {
  const folder = mkdtempSync(join(tmpdir(), "approvals-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const logFile = join(folder, "log.txt");
  return {
    logFile,
    log: () => (existsSync(logFile) ? readFileSync(logFile, "utf8").trim().split("\n") : []),
    goOnAfresh: async (paused, answers) => {
      writeFileSync(join(folder, "paused.json"), JSON.stringify(paused.pausedRun));
      writeFileSync(join(folder, "answers.json"), JSON.stringify(answers));
      await promisify(execFile)(process.execPath, [
        "--conditions=@espalier/source",
        PROGRAM,
        folder,
      ]);
      const outcome: unknown = JSON.parse(readFileSync(join(folder, "outcome.json"), "utf8"));
      if (!isOutcome(outcome)) expect.fail("no outcome");
      expect(outcome.pid).not.toBe(process.pid);
      return outcome;
    },
  };
}

function isOutcome(value: unknown): value is Outcome {
  return isRecord(value) && Array.isArray(value["events"]);
}
