// Plays a scene, records it, and plays the recording.

import { expect } from "vitest";

import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { EspalierEvent } from "../../src/protocol/event.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { RecordingSink } from "../../src/testing/recording-sink.ts";
import { recordingOf, type Recording } from "../../src/testing/replay/recording.ts";
import { replay, type ReplayOptions, type ReplayResult } from "../../src/testing/replay/replay.ts";
import { scene } from "../harness/run-scripted.ts";
import { Cast, listener, type Build } from "./cast.ts";

export interface Recorded {
  readonly recording: Recording;
  readonly result: RunResult;
  readonly events: readonly EspalierEvent[];
}

/** Plays a scene in earnest. `own`: its clock, by default one that stands still until the scene moves it. */
export async function recorded(build: Build, own?: ManualClock): Promise<Recorded> {
  const cast = new Cast({ isAlive: true, clock: own });
  const { clock } = cast;
  const play = build(cast);
  const { role, task = "Go.", means = {}, options = {}, start = {}, drive } = play;
  const store = memoryStore({ clock: new ManualClock() });
  let run: Run | undefined;
  const hearing = listener(play, () => run, clock);
  const stage = scene({ ...means, ...options, clock, sinks: [hearing], store });
  run = stage.start(role, task, start);
  const done = drive?.(run, clock);
  const result = await stage.outcome(run);
  await done;
  expect(hearing.left.length, "the caller has done everything").toBe(0);
  expect(clock.pendingTimers, "timers left behind").toBe(0);
  const reader = new Orchestrator({ store });
  expect(await reader.resultOf(run.runId), "the result is kept").toEqual(result);
  return { recording: await recordingOf(store, run.runId), result, events: stage.sink.events };
}

/** Plays a recording with a dead cast. */
export async function replayed(
  build: Build,
  recording: Recording,
  more: Pick<ReplayOptions, "order"> = {},
): Promise<{ readonly result: RunResult; readonly events: readonly EspalierEvent[] }> {
  const cast = new Cast({ isAlive: false });
  const { role, means = {} } = build(cast);
  const sink = new RecordingSink();
  try {
    const result = await replay(recording, { role, ...means, ...more, sinks: [sink] });
    return { result, events: sink.events };
  } finally {
    expect(cast.calls, "nothing is called").toEqual([]);
  }
}

/** Records and replays a scene: the same result, the same events of the loop. */
export async function comesToTheSame(build: Build): Promise<Recorded> {
  const first = await recorded(build);
  const again = await replayed(build, first.recording);
  expect(gist(again.result)).toEqual(gist(first.result));
  expect(told(again.events)).toEqual(told(first.events));
  return first;
}

/** Parts of a paused run that are otherwise in a replay. */
const OF_PROCESS: ReadonlySet<string> = new Set(["eventCount", "isSampled"]);

/** What a result says, without times, traces and how many events there were: what others do is not told in a replay. */
export function gist({ runId, pausedRun, ...result }: RunResult): object {
  const { played: _played, unplayed: _unplayed, ...said }: typeof result & Replayed = result;
  if (pausedRun === undefined) return untimed({ runId, ...said });
  const rest = Object.entries(pausedRun).filter(([key]) => !OF_PROCESS.has(key));
  return untimed({ runId, ...said, pausedRun: Object.fromEntries(rest) });
}

/** What only a replay says. */
type Replayed = Partial<Pick<ReplayResult, "played" | "unplayed">>;

const OF_THE_LOOP =
  /^(?:agent|step|subagent|continuation|signal|message|run|history|section|budget\.(?!threshold))/u;

/** The events of the loop, agent by agent, without times. */
function told(events: readonly EspalierEvent[]): object {
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
