// A run that its process releases: calls that return in time are persisted, nothing further starts,
// and the next owner continues it.

import { expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Model } from "../../../src/model/model.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { OrchestratorOptions } from "../../../src/orchestrator/tree/orchestrator-settings.ts";
import { approve, type Question } from "../../../src/protocol/question.ts";
import { proves } from "../../harness/proves.ts";
import { aborted } from "../../support/journal/crash-play.ts";
import { spawnCall, thinker } from "../../support/journal/thinkers.ts";
import { allOf } from "../../support/all-of.ts";
import { rejectionOf } from "../../support/thrown.ts";
import {
  counts,
  doings,
  engineWorld,
  latch,
  runId,
  solo,
  turns,
  type Doings,
} from "../../support/engine/engine-world.ts";

const ID = "order-4711";
const ORDER = { runId: ID, role: "solo", task: "Go." };
const TEXT = "Go. worked 0, worked 1.";
const GRACE = { graceMs: 1_000 };
const LEFT = { status: "open", owner: null, heartbeatAtMs: null };

/**
 * Starts the run in one process, which releases it once calls are in flight, then executes the
 * request in another.
 */
async function leftOnce(
  role: (process: "first" | "second") => AgentRole,
  options: OrchestratorOptions,
  meanwhile: () => void,
  graceMs = 1_000,
) {
  const { process, store, clock, pushed } = engineWorld();
  const [first, second] = [role("first"), role("second")];
  const one = process({ ...options, roles: [first] });
  const run = one.start(first, "Go.", { runId: ID });
  await turns(15);
  const leaving = run.release({ graceMs });
  await turns(5);
  meanwhile();
  const isLeft = await pushed(leaving, 100);
  expect([isLeft, one.activeRuns()]).toEqual([true, []]);
  expect(await rejectionOf(run.result)).toMatchObject({
    code: "run_released",
    data: { runId: ID },
  });
  expect(await rejectionOf(one.getResult(ID))).toMatchObject({
    code: "invalid_state",
    message: `Cannot read the result of run ${ID}: it is running, was released, or its process died. Await the run, or resume it.`,
  });
  await turns(5);
  clock.advance(60_000); // Calls that ignore their signal are waited for a while longer.
  await turns(5);
  expect(clock.pendingTimers).toBe(0);
  expect(await store.find(runId(ID))).toMatchObject(LEFT);
  const two = process({ ...options, roles: [second] });
  const order = { ...ORDER, role: second.name };
  return { result: await pushed(two.execute(order)), one, two, store, clock };
}

proves(["E12", "E13"], "persists a tool call that returns within the grace period", async () => {
  const done = doings();
  const gate = latch();
  const role = () => solo(done, { hold: (nth) => (nth === 0 ? gate.opened : undefined) });
  const { result } = await leftOnce(role, {}, () => {
    expect(done.asked).toEqual(["solo 0"]);
    gate.open();
  });
  expect(result).toMatchObject({ status: "completed", text: TEXT });
  expect([counts(done), done.asked]).toEqual([
    [1, 1],
    ["solo 0", "solo 1", "solo 2"],
  ]);
});

proves(["E12"], "repeats a tool call that does not return within the grace period", async () => {
  const done = doings();
  let ends = 0;
  const role = (process: string) =>
    solo(done, {
      hold: async (nth, signal) => {
        if (nth > 0 || process === "second") return;
        await aborted(signal);
        ends += 1;
      },
    });
  const { result } = await leftOnce(role, {}, () => expect(ends).toBe(0));
  expect(result).toMatchObject({ status: "completed", text: TEXT });
  expect([counts(done), ends]).toEqual([[2, 1], 1]);
});

proves(["E12"], "interrupts a tool call that must not be repeated", async () => {
  const done = doings();
  const role = (process: string) =>
    solo(done, {
      hold: (nth, signal) => (nth > 0 || process === "second" ? undefined : aborted(signal)),
      tool: { retryAfterCrash: false },
    });
  const { result } = await leftOnce(role, {}, () => undefined);
  expect(result.status).toBe("completed");
  expect(result.text).toContain("Not repeated");
  expect(counts(done)).toEqual([1, 1]);
});

/** Returns the same agent, whose model replies once the gate opens. */
function slowModel(done: Doings, gate: () => Promise<unknown>): AgentRole {
  const quick = solo(done).model;
  const model: Model = {
    ...quick,
    generate: async (request, options) => {
      const reply = await quick.generate(request, options);
      await gate();
      return reply;
    },
  };
  return solo(done, { more: { model } });
}

proves(
  ["E12", "E13"],
  "persists a model call that returns in time, and starts none of its tool calls",
  async () => {
    const done = doings();
    const gate = latch();
    const { result, one } = await leftOnce(
      () => slowModel(done, () => gate.opened),
      {},
      () => gate.open(),
    );
    expect(one.sink.events.map(({ type }) => type)).not.toContain("tool.started");
    expect(result).toMatchObject({ status: "completed", text: TEXT });
    expect([counts(done), done.asked.length]).toEqual([[1, 1], 3]);
  },
);

proves(["E12"], "aborts and repeats a model call that does not return in time", async () => {
  const done = doings();
  const never = latch();
  const role = (process: string) =>
    slowModel(done, () => (process === "first" ? never.opened : Promise.resolve()));
  const { result } = await leftOnce(role, {}, () => undefined);
  expect(result).toMatchObject({ status: "completed", text: TEXT });
  expect([counts(done), done.asked]).toEqual([
    [1, 1],
    ["solo 0", "solo 0", "solo 1", "solo 2"],
  ]);
});

/** A lead whose subagents work at once. */
function lead(child: AgentRole, count: number): AgentRole {
  return defineAgent({
    name: "lead",
    description: "Leads.",
    instructions: "You lead.",
    model: thinker("lead", ({ results }) =>
      results.length === 0
        ? { calls: Array.from({ length: count }, (_, nth) => spawnCall("solo", `Part ${nth}.`)) }
        : { text: results.map((text) => (text.match(/Part \d\. [^.]*\./) ?? [])[0]).join(" ") },
    ),
    subagents: [child],
  });
}

proves(["E12", "E13"], "persists the calls of several subagents that return in time", async () => {
  const done = doings();
  const gate = latch();
  const role = () => lead(solo(done, { hold: (nth) => (nth === 0 ? gate.opened : undefined) }), 3);
  const { result } = await leftOnce(role, {}, () => {
    expect(done.asked.length).toBe(3);
    gate.open();
  });
  const part = (nth: number): string => `Part ${nth}. worked 0, worked 1.`;
  expect(result).toMatchObject({ status: "completed", text: [0, 1, 2].map(part).join(" ") });
  expect([counts(done), done.asked.length]).toEqual([[1, 1, 1, 1, 1, 1], 9]);
});

proves(
  ["E13"],
  "starts no subagent whose spawn was persisted together with another's start",
  async () => {
    const { process, pushed } = engineWorld();
    const done = doings();
    const role = lead(solo(done), 5);
    const run = process({ roles: [role] }).start(role, "Go.", { runId: ID });
    while (done.asked.length === 0) await turns(1);
    expect(await pushed(run.release(GRACE))).toBe(true);
    expect(done.asked).toEqual(["solo 0"]);
    const two = process({ roles: [role] });
    const result = await pushed(two.execute({ ...ORDER, role: "lead" }));
    expect([result.status, counts(done).length]).toEqual(["completed", 10]);
  },
);

proves(
  ["E13"],
  "starts no tool call that waits for a slot, and makes it in the next process",
  async () => {
    const done = doings();
    const gate = latch();
    const child = () => solo(done, { hold: (nth) => (nth === 0 ? gate.opened : undefined) });
    const options = { concurrency: { toolCalls: 1 } };
    const { result } = await leftOnce(
      () => lead(child(), 3),
      options,
      () => {
        expect(counts(done)).toEqual([1]);
        gate.open();
        done.asked.push("left");
      },
    );
    expect(done.asked.slice(0, 4)).toEqual(["solo 0", "solo 0", "solo 0", "left"]);
    expect(result.status).toBe("completed");
    expect(counts(done)).toEqual([1, 1, 1, 1, 1, 1]);
  },
);

proves(
  ["E13"],
  "does not wait for tool calls that wait for a slot, and starts none of them",
  async () => {
    const { process, pushed, clock } = engineWorld();
    const done = doings();
    const gates = [latch(), latch(), latch()];
    let begun = 0;
    const child = solo(done, { hold: () => gates[begun++]?.opened });
    const role = lead(child, 3);
    const one = process({ roles: [role], concurrency: { toolCalls: 1 } });
    const run = one.start(role, "Go.", { runId: ID });
    await turns(15);
    const leaving = run.release(GRACE);
    gates[0]?.open();
    const beganMs = clock.nowMs();
    expect(await pushed(leaving, 100)).toBe(true);
    expect(clock.nowMs() - beganMs).toBeLessThan(1_000); // Calls that wait for a slot do not delay the release.
    await turns(10);
    expect([begun, done.asked.length]).toEqual([1, 3]);
  },
);

proves(
  ["E13"],
  "starts no model call that waits for a slot, and makes it in the next process",
  async () => {
    const { process, pushed } = engineWorld();
    const done = doings();
    const gate = latch();
    const role = lead(
      slowModel(done, () => gate.opened),
      3,
    );
    const one = process({ roles: [role], concurrency: { modelCalls: 1 } });
    const run = one.start(role, "Go.", { runId: ID });
    await turns(15);
    const leaving = run.release(GRACE);
    gate.open();
    expect(await pushed(leaving, 100)).toBe(true);
    await turns(10);
    expect(done.asked).toEqual(["solo 0"]);
    const two = process({ roles: [role] });
    const result = await pushed(two.execute({ ...ORDER, role: "lead" }));
    expect([result.status, counts(done), done.asked.length]).toEqual([
      "completed",
      [1, 1, 1, 1, 1, 1],
      9,
    ]);
  },
);

proves(
  ["E12", "E13"],
  "aborts the question to an approver, and asks again in the next process",
  async () => {
    const done = doings();
    const asked: string[] = [];
    const approver = async (question: Question, { signal }: { signal: AbortSignal }) => {
      asked.push(question.toolName);
      if (asked.length > 1) return approve(question);
      await aborted(signal);
      asked.push("aborted");
      return undefined;
    };
    const role = () => solo(done, { tool: { needsApproval: true } });
    const { result } = await leftOnce(role, { approver }, () => expect(asked).toEqual(["work"]));
    expect(result).toMatchObject({ status: "completed", text: TEXT });
    expect([asked, counts(done)]).toEqual([
      ["work", "aborted", "work", "work"],
      [1, 1],
    ]);
  },
);

proves(["E13"], "ends the readers of a released run with run_released", async () => {
  const done = doings();
  const gate = latch();
  const role = solo(done, { hold: () => gate.opened });
  const { process, clock, pushed } = engineWorld();
  const run = process({ roles: [role] }).start(role, "Go.", { runId: ID });
  const reading = allOf(run.events()).catch((cause: unknown) => cause);
  const pieces = allOf(run.stream()).catch((cause: unknown) => cause);
  await turns(15);
  const letter = run.steer("Hurry.");
  expect(await pushed(run.release(GRACE), 100)).toBe(true);
  expect(await letter).toEqual({ isDelivered: false, reason: "cancelled" });
  for (const reader of [reading, pieces])
    expect(await reader).toMatchObject({ code: "run_released" });
  gate.open();
  await turns(10);
  expect(clock.pendingTimers).toBe(0);
});

test("refuses to release a run without a store", async () => {
  const role = solo(doings());
  const run = new Orchestrator({ roles: [role] }).start(role, "Go.");
  expect(await rejectionOf(run.release())).toMatchObject({ code: "invalid_state" });
  expect(await run.result).toMatchObject({ text: TEXT });
});

test("refuses an invalid grace period, and continues the run", async () => {
  const role = solo(doings());
  const run = engineWorld()
    .process({ roles: [role] })
    .start(role, "Go.");
  for (const graceMs of [-1, Number.NaN])
    expect(await rejectionOf(run.release({ graceMs }))).toMatchObject({ code: "invalid_argument" });
  expect(await run.result).toMatchObject({ text: TEXT });
});

test("refuses an unknown release option by the name of the method", async () => {
  const role = solo(doings());
  const run = engineWorld()
    .process({ roles: [role] })
    .start(role, "Go.");
  const unknown = { graceMs: 1, force: true };
  expect(await rejectionOf(run.release(unknown))).toMatchObject({
    code: "invalid_argument",
    message: 'Expected release options.force to be one of graceMs, got "force". Correct the name.',
  });
  expect(await run.result).toMatchObject({ text: TEXT });
});
