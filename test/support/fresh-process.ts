// A program that resumes a paused run in a separate process. It reads the run and the answers from
// the given folder, and writes the outcome there. Started by a test.

import { readPausedRun } from "../../src/orchestrator/durability/paused-run.ts";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { z } from "zod";

import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { AnswerSchema } from "../../src/protocol/question.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../src/testing/recording-sink.ts";
import { askingTree } from "./peers-approvals.ts";
import { rejectionOf } from "./thrown.ts";

const [, , folder = ""] = process.argv;
const read = (name: string): string => readFileSync(join(folder, name), "utf8");

const sink = new RecordingSink();
const role = askingTree({ logFile: join(folder, "log.txt"), mayWork: Promise.resolve() });
const orchestrator = new Orchestrator({ clock: new ManualClock(), sinks: [sink], roles: [role] });
const answers = z.array(AnswerSchema()).parse(JSON.parse(read("answers.json")));
const paused = read("paused.json");

async function goOn(): Promise<object> {
  const run = Promise.resolve().then(() => orchestrator.resume(readPausedRun(paused), { answers }));
  try {
    return { result: await (await run).result };
  } catch {
    return { refused: await rejectionOf(run) };
  }
}

const outcome = { ...(await goOn()), pid: process.pid, events: sink.events };
writeFileSync(join(folder, "outcome.json"), JSON.stringify(outcome));
