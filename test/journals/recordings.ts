// The recordings that are kept, line by line as a store has them, and how they are made: by counting ids and a clock that stands still, so that they are always the same.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { countedTracing } from "../support/local-tracing.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import type { Recording } from "../../src/testing/replay/recording.ts";
import { sequentialIds } from "../../src/testing/sequential-ids.ts";
import { Fakes, listener } from "./fakes.ts";
import { stories } from "./roles.ts";

/** Returns the file of a recording. */
export function pathOf(name: string): string {
  return fileURLToPath(new URL(`recorded/${name}.jsonl`, import.meta.url));
}

export function keptRecording(name: string): Recording {
  return readFileSync(pathOf(name), "utf8");
}

/** A recording of a story, made now. */
export async function recordingFor(name: string): Promise<Recording> {
  const fakes = new Fakes({ isAlive: true });
  const { clock } = fakes;
  const play = stories[name]?.build(fakes);
  if (play === undefined) throw new Error(`There is no story ${name}.`);
  const { role, means = {}, options = {}, start = {} } = play;
  const store = memoryStore({ clock: new ManualClock() });
  let run: Run | undefined;
  const tracing = countedTracing();
  const sinks = [listener(play, () => run, clock)];
  const ids = sequentialIds();
  run = new Orchestrator({ ...means, ...options, clock, ids, tracing, sinks, store }).start(
    role,
    "Go.",
    start,
  );
  await run.settled;
  const lines: string[] = [];
  for await (const line of store.read(run.runId)) lines.push(`${line}\n`);
  return lines.join("");
}
