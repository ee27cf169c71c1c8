// Goal: the events of a run contain every requested subagent: requester, role, depth and outcome,
// without a lookup elsewhere.
// Method: one tree in which subagents complete, are cut off, fail, are cancelled and are refused,
// at two depths; events compared in full.

import { expect, test } from "vitest";

import { ModelError } from "../../../src/model/model-error.ts";
import { assertEvent, type EspalierEvent } from "../../../src/protocol/event.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { calls, part, spawn, until } from "../../harness/scripted-agents.ts";

/** A lead whose children end in every way; the first of them has children of its own. */
async function everyEnd(): Promise<Fixture> {
  const leaf = part("leaf", [says("Leaf.")]);
  const completes = part(
    "completes",
    [calls(spawn("leaf"), spawn("ghost")), calls(spawn("leaf", "Again.")), says("Complete.")],
    { subagents: [leaf.role] },
  );
  const partial = part("partial", [says("Half of", { finishReason: "length" })]);
  const silent = part("silent", () => asks("nothing", {}), { budget: { steps: 1 } });
  const error = new ModelError({ code: "model_unauthorized", message: "No." });
  const fails = part("fails", [{ error }]);
  const waits = part("waits", [{ after: latch().opened }]);
  const children = [completes, partial, silent, fails, waits];
  const lead = part(
    "lead",
    [calls(...children.map(({ role }) => spawn(role.name))), says("Done.")],
    {
      subagents: children.map(({ role }) => role),
    },
  );
  const s = newFixture({ limits: { maxTotalSubagents: 6 } });
  const run = s.start(lead.role);
  await until(() => s.sink.ofType("subagent.ended").length === 5);
  const waiting = s.sink.ofType("agent.started").find(({ role }) => role === "waits");
  run.cancelAgent(waiting?.agentId ?? expect.fail("no agent waits"));
  await s.outcome(run);
  return s;
}

/** Returns the ids of the agents by their paths. */
function idsIn({ sink }: Fixture): ReadonlyMap<string, string> {
  return new Map(
    sink.ofType("agent.started").map(({ agentPath, agentId }) => [agentPath, agentId]),
  );
}

proves(
  ["R146"],
  "spawn, end and refusal events contain the ids of child and parent, the child's depth and its role",
  async () => {
    const s = await everyEnd();
    const ids = idsIn(s);
    const lead = ids.get("lead");
    const parent = ids.get("lead/completes#1");
    const child = (path: string): string | undefined => ids.get(path);

    expect(
      s.sink
        .ofType("subagent.spawned")
        .map((event) => [event.childId, event.agentId, event.childDepth, event.role]),
    ).toEqual([
      [child("lead/completes#1"), lead, 1, "completes"],
      [child("lead/partial#1"), lead, 1, "partial"],
      [child("lead/silent#1"), lead, 1, "silent"],
      [child("lead/fails#1"), lead, 1, "fails"],
      [child("lead/waits#1"), lead, 1, "waits"],
      [child("lead/completes#1/leaf#1"), parent, 2, "leaf"],
    ]);
    const ended = s.sink
      .ofType("subagent.ended")
      .map((event) => [event.childId, event.agentId, event.childDepth, event.role, event.outcome]);
    expect(ended.toSorted(byId)).toEqual(
      [
        [child("lead/completes#1"), lead, 1, "completes", "completed"],
        [child("lead/partial#1"), lead, 1, "partial", "partial"],
        [child("lead/silent#1"), lead, 1, "silent", "no_output"],
        [child("lead/fails#1"), lead, 1, "fails", "failed"],
        [child("lead/waits#1"), lead, 1, "waits", "cancelled"],
        [child("lead/completes#1/leaf#1"), parent, 2, "leaf", "completed"],
      ].toSorted(byId),
    );
    // A refused subagent has no id; the call and the depth identify the delegation.
    expect(
      s.sink
        .ofType("subagent.refused")
        .map((event) => [event.agentId, event.childDepth, event.role, event.error.code]),
    ).toEqual([
      [parent, 2, "ghost", "unknown_role"],
      [parent, 2, "leaf", "total_limit"],
    ]);
  },
);

proves(
  ["R146"],
  "each spawn, end and refusal event belongs to the parent's step and call",
  async () => {
    const s = await everyEnd();
    const about = s.sink.events.filter(({ type }) => type.startsWith("subagent."));
    expect(about).toHaveLength(6 + 6 + 2);
    const started = new Map(
      s.sink.ofType("tool.started").map((event) => [`${event.agentId} ${event.callId}`, event]),
    );
    const rejected = new Map(
      s.sink.ofType("tool.rejected").map((event) => [`${event.agentId} ${event.callId}`, event]),
    );
    for (const event of about) {
      assertEvent(JSON.parse(JSON.stringify(event)));
      const calls = event.type === "subagent.refused" ? rejected : started;
      const call = calls.get(`${event.agentId} ${event.callId}`) ?? expect.fail(event.type);
      expect(call).toMatchObject({ toolName: "SpawnSubagent", stepId: event.stepId });
      if (calls === started) expect(call.seq).toBeLessThan(event.seq);
    }
    const ends = new Map(
      [...s.sink.ofType("tool.ended"), ...rejected.values()].map((event) => [
        `${event.agentId} ${event.callId}`,
        event.seq,
      ]),
    );
    for (const { agentId, callId, seq } of about)
      expect(seq).toBeLessThan(ends.get(`${agentId} ${callId}`) ?? 0);
  },
);

proves(
  ["R146"],
  "the spawn event precedes all events of the subagent, and the end event follows them",
  async () => {
    const s = await everyEnd();
    const spawned = s.sink.ofType("subagent.spawned");
    expect(spawned).toHaveLength(6);
    for (const { childId, childPath, seq } of spawned) {
      const own = s.sink.events.filter(({ agentId }) => agentId === childId);
      const end = s.sink.ofType("subagent.ended").filter((event) => event.childId === childId);
      expect([childPath, end.length, own[0]?.type, own.at(-1)?.type]).toEqual([
        childPath,
        1,
        "agent.started",
        "agent.ended",
      ]);
      expect(seq).toBeLessThan(own[0]?.seq ?? 0);
      expect(end[0]?.seq).toBeGreaterThan(own.at(-1)?.seq ?? Infinity);
    }
  },
);

proves(["R146"], "the end event agrees with the subagent's own last event", async () => {
  const s = await everyEnd();
  const last = new Map(s.sink.ofType("agent.ended").map((event) => [event.agentId, event]));
  const ended = s.sink.ofType("subagent.ended");
  expect(ended).toHaveLength(6);
  for (const { childId, childPath, childDepth, role, status, reason, usage } of ended)
    expect(last.get(childId)).toMatchObject({
      agentPath: childPath,
      depth: childDepth,
      role,
      status,
      reason,
      usage,
    });
});

test("a pause emits no end event, and the later end event has the same ids", async () => {
  const pay = payTool();
  const helper = part("helper", [asks("pay", { amount: 1 }), says("Paid.")], { tools: [pay] });
  const lead = part("lead", [calls(spawn("helper")), says("Done.")], { subagents: [helper.role] });
  const s = newFixture();
  const paused = await s.run(lead.role);
  expect(typesOf(s.sink.events)).toEqual(["subagent.spawned"]);
  await s.outcome(s.resume(lead.role, paused.pausedRun, approveAll(paused)));
  expect(typesOf(s.sink.events)).toEqual(["subagent.spawned", "subagent.ended"]);
  const [spawned] = s.sink.ofType("subagent.spawned");
  const [ended] = s.sink.ofType("subagent.ended");
  const { childId, childPath, role, childDepth, agentId, stepId, callId } =
    spawned ?? expect.fail("no subagent");
  expect(ended).toMatchObject({ childId, childPath, role, childDepth, agentId, stepId, callId });
});

test("a failed setup emits a refusal, and neither a spawn event nor an end event", async () => {
  const helper = part("helper", []);
  const lead = part("lead", [calls(spawn("helper")), says("Done.")], { subagents: [helper.role] });
  const ids = { next: (kind: string) => `${kind}_1` };
  const s = newFixture({ ids });
  await s.run(lead.role);
  expect(typesOf(s.sink.events)).toEqual(["subagent.refused"]);
  expect(s.sink.ofType("subagent.refused")[0]).toMatchObject({
    agentPath: "lead",
    role: "helper",
    childDepth: 1,
    error: { code: "setup_failed" },
  });
});

function byId(left: readonly unknown[], right: readonly unknown[]): number {
  return String(left[0]).localeCompare(String(right[0]));
}

function typesOf(events: readonly EspalierEvent[]): readonly string[] {
  return events.map(({ type }) => type).filter((type) => type.startsWith("subagent."));
}
