// Plays a story, records it, and plays the recording.

import { expect } from "vitest";

import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../src/testing/recording-sink.ts";
import { loadRecording, type Recording } from "../../src/testing/replay/recording.ts";
import { replay, type ReplayResult } from "../../src/testing/replay/replay.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { Fakes, listener, type Build } from "./fakes.ts";

export interface Recorded {
  readonly recording: Recording;
  readonly result: RunResult;
  readonly events: readonly EspalierEvent[];
}

/** Plays a story with live fakes. `own`: its clock, by default one that stands still until the story moves it. */
export async function recorded(build: Build, own?: ManualClock): Promise<Recorded> {
  const fakes = new Fakes({ isAlive: true, clock: own });
  const { clock } = fakes;
  const play = build(fakes);
  const { role, task = "Go.", means = {}, options = {}, start = {}, drive } = play;
  const store = memoryStore({ clock: new ManualClock() });
  let run: Run | undefined;
  const hearing = listener(play, () => run, clock);
  const fixture = newFixture({ ...means, ...options, clock, sinks: [hearing], store });
  run = fixture.start(role, task, start);
  const done = drive?.(run, clock);
  const result = await fixture.outcome(run);
  await done;
  expect(hearing.left.length, "the caller has done everything").toBe(0);
  expect(clock.pendingTimers, "timers left behind").toBe(0);
  const reader = new Orchestrator({ store });
  expect(await reader.getResult(run.runId), "the result is kept").toEqual(result);
  return { recording: await loadRecording(store, run.runId), result, events: fixture.sink.events };
}

/** Plays a recording with dead fakes. */
export async function replayed(
  build: Build,
  recording: Recording,
): Promise<{ readonly result: RunResult; readonly events: readonly EspalierEvent[] }> {
  const fakes = new Fakes({ isAlive: false });
  const { role, means = {} } = build(fakes);
  const sink = new RecordingSink();
  try {
    const result = await replay(recording, { role, ...means, sinks: [sink] });
    return { result, events: sink.events };
  } finally {
    expect(fakes.calls, "nothing is called").toEqual([]);
  }
}

/** Records and replays a story: the same result, the same events of the loop. */
export async function comesToTheSame(build: Build): Promise<Recorded> {
  const first = await recorded(build);
  const again = await replayed(build, first.recording);
  expect(gist(again.result)).toEqual(gist(first.result));
  expect(comparable(again.events)).toEqual(comparable(first.events));
  return first;
}

/** Parts of a paused run that are otherwise in a replay. */
const OF_PROCESS: ReadonlySet<string> = new Set(["eventCount", "isSampled"]);

/** What a result says, without times, traces and how many events there were: what others do is not reported in a replay. */
export function gist({ runId, pausedRun, ...result }: RunResult): object {
  const { segments: _played, ...said }: typeof result & Replayed = result;
  if (pausedRun === undefined) return untimed({ runId, ...said });
  const rest = Object.entries(pausedRun).filter(([key]) => !OF_PROCESS.has(key));
  return untimed({ runId, ...said, pausedRun: Object.fromEntries(rest) });
}

/** What only a replay says. */
type Replayed = Partial<Pick<ReplayResult, "segments">>;

const OF_THE_LOOP =
  /^(?:agent|step|subagent|continuation|signal|message|run|history|section|budget\.(?!threshold))/u;

/** The events of the loop, agent by agent, without times. */
function comparable(events: readonly EspalierEvent[]): object {
  const own = events.filter(({ type }) => OF_THE_LOOP.test(type));
  return Object.fromEntries(
    [...Map.groupBy(own, ({ agentPath }) => agentPath)].map(([path, list]) => [
      path,
      untimed(list),
    ]),
  );
}

function untimed(value: object): object {
  const text = JSON.stringify(value, (key, part: unknown) =>
    key.endsWith("Ms") || ["seq", "traceId", "spanId"].includes(key) ? undefined : part,
  );
  const parsed: unknown = JSON.parse(text);
  return typeof parsed === "object" && parsed !== null ? parsed : {};
}
