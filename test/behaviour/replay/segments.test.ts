// Goal: a replay continues over pauses and deaths, as the run did, and reports its segments.
// Method: runs that pause for answers, die at appends, continue with a grant, or are forked; their
// records are replayed. The crash stories of the other files are replayed, too: see crash-play.ts.

import { expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent, type AgentDefinition } from "../../../src/agent/define-agent.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { approve } from "../../../src/protocol/question.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { RecordingSink } from "../../../src/testing/recording-sink.ts";
import { loadRecording, type Recording } from "../../../src/testing/replay/recording.ts";
import { replay, type ReplayResult } from "../../../src/testing/replay/replay.ts";
import { proves } from "../../harness/proves.ts";
import {
  playThrough,
  turns,
  type Play,
  type PlannedDeath,
} from "../../support/journal/crash-play.ts";
import { world } from "../../support/journal/crash-world.ts";
import { worker } from "../../support/journal/measuring-worker.ts";
import { replaysToTheSame } from "../../support/journal/replay-story.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

type More = Partial<AgentDefinition>;

/** Returns a lead with one subagent that asks, and two that work meanwhile. */
function askingRole(more: More = {}): AgentRole {
  const calls = new Map<string, number>();
  const asker = defineAgent({
    name: "asker",
    description: "Asks",
    instructions: "You ask.",
    model: thinker("asker", ({ results }) =>
      results.length < 2
        ? { calls: [["pay", { thing: `bill ${results.length}` }]] }
        : { text: results.join(" ") },
    ),
    tools: [countedTool(calls, "pay", undefined, { needsApproval: true })],
  });
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length === 0
        ? { calls: [spawnCall("asker", "a"), spawnCall("worker", "b"), spawnCall("worker", "c")] }
        : { text: results.join(" | ") },
    ),
    subagents: [asker, worker(calls)],
    ...more,
  });
}

function asking(goesOnBy: "recover" | "resume"): () => Play {
  return () => ({ role: askingRole(), answer: (question) => approve(question), goesOnBy });
}

function smallWorld(): Play {
  return world({ leads: 1, workers: 3 });
}

function segmentsOf({ segments: played }: ReplayResult): readonly string[] {
  return played.map(({ begin, end }) => `${begin}, ${end}`);
}

for (const goesOnBy of ["recover", "resume"] as const)
  proves(["R175", "X25"], `continues a replay over pauses that end by ${goesOnBy}`, async () => {
    const play = asking(goesOnBy);
    const again = await replaysToTheSame(play(), await playThrough(play));
    const second = goesOnBy === "resume" ? "resumed" : "recovered";
    expect(segmentsOf(again)).toEqual(["started, paused", `${second}, paused`, `${second}, ended`]);
    expect(again.text).toContain("pay of bill 0 pay of bill 1");
  });

proves(
  ["R175", "X25"],
  "continues a replay over deaths, with the calls that were lost in them",
  async () => {
    const deaths: readonly PlannedDeath[] = [
      { at: 5, how: "before" },
      { at: 4, how: "after" },
      { at: 6, how: "before" },
    ];
    const again = await replaysToTheSame(smallWorld(), await playThrough(smallWorld, deaths));
    expect(segmentsOf(again)).toEqual([
      "started, broken",
      "recovered, broken",
      "recovered, broken",
      "recovered, ended",
    ]);
  },
);

test("replays deaths before, during and after a pause", async () => {
  const play = asking("recover");
  const plain = await playThrough(play);
  const seen = new Set<string>();
  for (let at = 2; at <= plain.appends; at += 1)
    for (const how of ["before", "after"] as const) {
      const story = await playThrough(play, [
        { at, how },
        { at: 2, how: "after" },
      ]);
      seen.add(segmentsOf(await replaysToTheSame(play(), story)).join("; "));
    }
  expect(seen.size, "deaths at different places").toBeGreaterThan(3);
});

test("emits the events of a replay once, without end events of agents that continue", async () => {
  const play = asking("resume");
  const { recording } = await playThrough(play, [{ at: 5, how: "before" }]);
  const sink = new RecordingSink();
  await replay(recording, { role: askingRole(), sinks: [sink] });
  const ends = sink
    .ofType("agent.ended")
    .map(({ agentPath, reason }) => `${agentPath} ${reason.code}`);
  expect(new Set(ends)).toEqual(
    new Set([
      "lead completed",
      "lead/asker#1 completed",
      "lead/worker#1 completed",
      "lead/worker#2 completed",
    ]),
  );
  expect(ends.length).toBe(4);
  expect(sink.ofType("run.ended").length).toBe(1);
});

async function divergence(recording: Recording, role: AgentRole): Promise<unknown> {
  try {
    return (await replay(recording, { role })).status;
  } catch (cause) {
    if (!EspalierError.is(cause)) throw cause;
    const { segment, agentPath, stepNumber, field } = cause.data;
    return [cause.code, segment, agentPath, stepNumber, field, cause.message.slice(0, 70)];
  }
}

proves(["R175"], "names the segment of a divergence after a pause", async () => {
  const play = asking("recover");
  const { recording } = await playThrough(play);
  const impatient = askingRole({
    stopWhen: [
      ({ steps }) =>
        steps.length === 0 ? undefined : { code: "enough", message: "One step.", data: {} },
    ],
  });
  expect(await divergence(recording, askingRole())).toBe("completed");
  expect(await divergence(recording, impatient)).toEqual([
    "replay_diverged",
    3,
    "lead",
    1,
    "record",
    "The replay of lead diverged in step 1 of segment 3: expected the recor",
  ]);
});

proves(
  ["R175"],
  "refuses a recording without the records of its recoveries as diverged",
  async () => {
    const { recording } = await playThrough(asking("recover"));
    const unmarked = recording.replaceAll('{"type":"recovered"}\n', "");
    expect(unmarked).not.toBe(recording);
    await expect(replay(unmarked, { role: askingRole() })).rejects.toMatchObject({
      code: "replay_diverged",
      data: { segment: 1 },
    });
  },
);

test("replays a recording that is truncated anywhere, also in a later segment, up to there", async () => {
  const play = asking("resume");
  const { recording } = await playThrough(play, [{ at: 6, how: "before" }]);
  const lines = recording.trimEnd().split("\n");
  const found = new Set<string>();
  for (let count = 12; count < lines.length; count += 9) {
    const again = await replay(`${lines.slice(0, count).join("\n")}\n`, { role: askingRole() });
    found.add(`${again.segments.length} ${again.segments.at(-1)?.end} ${again.status}`);
  }
  expect([...found].filter((one) => !/^\d (?:broken|paused) /u.test(one))).toEqual([]);
  expect(new Set([...found].map((one) => one[0]))).toEqual(new Set(["1", "2", "3", "4"]));
});

function lookingRole(): AgentRole {
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results, heard }) =>
      results.length < 3 && heard.length === 0
        ? { calls: [["look", { thing: `${results.length}` }]] }
        : { text: [...results, ...heard].join(" ") },
    ),
    tools: [
      countedTool(new Map(), "look", async () => {
        await turns(1);
        return "seen";
      }),
    ],
  });
}

function limited(): Play {
  return {
    role: lookingRole(),
    start: { budget: { steps: 2 } },
    onward: (orchestrator, run) =>
      orchestrator.resume(run.snapshot(), { grants: [{ budget: { steps: 5 }, by: "test" }] }),
  };
}

function forking(): Play {
  return {
    role: lookingRole(),
    onward: (orchestrator, run) =>
      orchestrator.fork(run.snapshot(), { atStep: 2, message: "Stop here." }),
  };
}

test("replays a run that continued with a grant, and a fork", async () => {
  const raised = await replaysToTheSame(limited(), await playThrough(limited));
  expect(segmentsOf(raised)).toEqual(["started, ended", "resumed, ended"]);
  const forked = await replaysToTheSame(forking(), await playThrough(forking));
  expect([segmentsOf(forked), forked.text]).toEqual([["forked, ended"], "seen seen Stop here."]);
});

test("replays a run on a session that is paused and resumed", async () => {
  const store = memoryStore();
  const role = askingRole();
  const orchestrator = new Orchestrator({ store, roles: [role] });
  const played: number[] = [];
  for (let turn = 0; turn < 2; turn += 1) {
    const session = await orchestrator.openSession("talk");
    const run = orchestrator.start(role, "Go.", { session });
    let result = await run.result;
    while (result.status === "paused") {
      const answers = result.questions.map((question) => approve(question));
      result = await orchestrator.resume(result.pausedRun ?? "", { answers }).result;
    }
    const recording = await loadRecording(store, run.runId);
    const again = await replaysToTheSame({ role: askingRole() }, { recording, result });
    expect(again.messages.map(({ text }) => text)).toEqual(result.messages.map(({ text }) => text));
    played.push(again.segments.length);
  }
  expect(played, "the second time it knows what it was told").toEqual([3, 1]);
});
