// Goal: the result of a run that has paused or ended is read from the store alone, and equals that
// of the process (D1).
// Method: cases beyond the comparisons of play.ts and crash-play.ts, which cover every recording of
// this folder.

import { expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { foldJournal } from "../../../src/orchestrator/durability/fold-journal.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { playThrough, type Play } from "../../support/journal/crash-play.ts";
import { world } from "../../support/journal/crash-world.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

function role(isAsking = false): AgentRole {
  const calls = new Map<string, number>();
  const tools = [
    countedTool(calls, "look"),
    countedTool(calls, "pay", undefined, { needsApproval: isAsking }),
  ];
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: thinker("small", ({ results }) =>
      results.length === 0 ? { calls: [["pay", { thing: "bill" }]] } : { text: "Paid." },
    ),
    tools,
  });
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("large", ({ results }) =>
      results.length === 0
        ? { calls: [["look", { thing: "map" }], spawnCall("worker", "a")] }
        : { text: results.join(" ") },
    ),
    tools,
    subagents: [worker],
    contextPolicy: { deniedTools: ["look"] },
  });
}

function smallWorld(): Play {
  return world({ leads: 1, workers: 2 });
}

async function codeOf(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
    return "fine";
  } catch (cause) {
    if (!EspalierError.is(cause)) throw cause;
    return cause.code;
  }
}

function reader(store: Store): Orchestrator {
  return new Orchestrator({ store });
}

test("reads the result of an ended run from its store, without its roles", async () => {
  const store = memoryStore();
  const fixture = newFixture({ store });
  const run = fixture.start(role(), "Go.", { metadata: { place: "here" } });
  const result = await fixture.outcome(run);
  const kept = await reader(store).getResult(run.runId);
  expect(kept).toEqual(result);
  expect(kept.agents.map(({ removedTools }) => removedTools.length)).toEqual([0, 1]);
  expect(JSON.parse(JSON.stringify(kept))).toEqual(JSON.parse(JSON.stringify(result)));
  expect(await codeOf(reader(store).resume(run.runId, { role: role() }))).toBe("run_ended");
});

test("reads the result of a paused run with its open questions and a resumable state", async () => {
  const store = memoryStore();
  const fixture = newFixture({ store });
  const run = fixture.start(role(true));
  const result = await fixture.outcome(run);
  const kept = await reader(store).getResult(run.runId);
  expect(kept).toEqual(result);
  expect(kept.questions.map(({ toolName }) => toolName)).toEqual(["pay"]);
  expect(JSON.stringify(kept.pausedRun).length).toBe(JSON.stringify(result.pausedRun).length);
});

test("reads the result of a run whose process died after its last append", async () => {
  const plain = await playThrough(smallWorld);
  const story = await playThrough(smallWorld, [{ at: plain.appends, how: "after" }]);
  expect(story.result).toBeUndefined();
  expect([story.kept.status, story.kept.text, story.kept.usage]).toEqual([
    "completed",
    plain.result?.text,
    plain.result?.usage,
  ]);
});

test("rejects for an active run, an unknown run, an invalid id, and without a store", async () => {
  const store = memoryStore();
  const held = latch();
  const waiting = defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length === 0 ? { calls: [["wait", { thing: "it" }]] } : { text: "Done." },
    ),
    tools: [
      countedTool(new Map(), "wait", async () => {
        await held.opened;
        return "waited";
      }),
    ],
  });
  const fixture = newFixture({ store });
  const run = fixture.start(waiting);
  for (let turn = 0; turn < 10; turn += 1) await flushEventLoop();
  expect(await codeOf(reader(store).getResult(run.runId))).toBe("invalid_state");
  held.open();
  const result = await fixture.outcome(run);
  expect(await reader(store).getResult(run.runId)).toEqual(result);
  expect(await codeOf(reader(store).getResult("nobody"))).toBe("unknown_run");
  expect(await codeOf(reader(store).getResult(""))).toBe("invalid_argument");
  expect(await codeOf(new Orchestrator().getResult(run.runId))).toBe("invalid_argument");
});

test("reads the status of the session of a run: saved, open or conflict", async () => {
  const store = memoryStore();
  const orchestrator = new Orchestrator({ store });
  const [mine, other] = [
    await orchestrator.openSession("talk"),
    await orchestrator.openSession("talk"),
  ];
  const statuses: unknown[] = [];
  for (const [session, isAsking] of [
    [mine, false],
    [other, false],
    [await orchestrator.openSession("more"), true],
  ] as const) {
    const run = orchestrator.start(role(isAsking), "Go.", { session });
    const result = await run.result;
    expect(await reader(store).getResult(run.runId)).toEqual(result);
    statuses.push(result.session?.status);
  }
  expect(statuses).toEqual(["saved", "conflict", "open"]);
});

test("reports errors that a store throws while a run is found or read as store_failed", async () => {
  const store = memoryStore();
  const run = new Orchestrator({ store }).start(role(), "Go.");
  expect(Object.isFrozen(await run.result)).toBe(true);
  const broken: readonly Partial<Store>[] = [
    { find: () => Promise.reject(new Error("disk")) },
    {
      read: async function* () {
        yield* [];
        await Promise.reject(new Error("disk"));
      },
    },
  ];
  for (const fault of broken) {
    const failing = reader(forwarding(store, { ...fault }));
    expect(await codeOf(failing.getResult(run.runId))).toBe("store_failed");
    if (fault.find !== undefined)
      expect(await codeOf(failing.resume(run.runId))).toBe("store_failed");
  }
});

function answered(...questionIds: readonly string[]): string {
  const answers = questionIds.map((questionId) => ({
    type: "approved",
    questionId,
    argumentsHash: "h",
  }));
  return JSON.stringify({ type: "answers", answers });
}

test("lists answers in the order of their arrival, and yields to other work while it reads a long journal", async () => {
  const store = memoryStore();
  const run = new Orchestrator({ store }).start(role(), "Go.");
  await run.result;
  const lines: string[] = [];
  for await (const line of store.read(run.runId)) lines.push(line);
  const more = Array.from({ length: 1_000 }, () => answered("b"));
  const seen: string[] = [];
  const folding = foldJournal(run.runId, [
    ...lines,
    answered("a", "b", "c"),
    answered("b"),
    ...more,
  ]);
  const noted = folding.then(() => seen.push("folded"));
  for (let turn = 0; turn < 3; turn += 1) await flushEventLoop();
  expect(seen).toEqual([]);
  await noted;
  expect((await folding).run.answered).toEqual(["a", "c", "b"]);
});
