// Goal: a stored run whose typed output does not fit its role stays unchanged, whichever process
// resumes it, and continues once the role fits again.
// Method: a run is paused or its process dies at each append; a new process continues it with
// another `output`. The complete content of the store is compared.

import { describe, expect } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { JsonValue } from "../../../src/kernel/json.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import type { RunId } from "../../../src/protocol/ids.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { Store } from "../../../src/store/store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { sequentialIds } from "../../../src/testing/sequential-ids.ts";
import type { ToolInput } from "../../../src/tools/arguments/input-schema.ts";
import { flushEventLoop } from "../../../src/testing/flush-event-loop.ts";
import { proves } from "../../harness/proves.ts";
import { approveAll, payTool } from "../../support/pause-stories.ts";
import { rejectionOf } from "../../support/thrown.ts";
import { calls, spawn, tool, use } from "../../harness/scripted-agents.ts";
import { storedRecords } from "../../support/journal/stored-events.ts";
import { DEATHS, dyingStore, type Kill } from "../../support/journal/dying-store.ts";

const COUNT = z.object({ count: z.number() });
const NAME = z.object({ count: z.object({ name: z.string() }) });
const GIVEN = new Map<ToolInput, JsonValue>([
  [COUNT, 1],
  [NAME, { name: "one" }],
]);
const STALE_MS = 30_000;

/**
 * Returns a lead that starts a counter and then pays. Both give typed outputs; the counter beside
 * another call.
 */
function cast(output: ToolInput, needsApproval: boolean) {
  const requests: string[] = [];
  const result = { toolName: "Finish", arguments: { count: GIVEN.get(output) ?? null } };
  const model = (name: string, replies: readonly ReturnType<typeof calls>[]) =>
    new ScriptedModel((request) => {
      requests.push(name);
      const said = request.messages.filter(({ role }) => role === "assistant").length;
      return replies[said] ?? calls(result);
    });
  const counter = defineAgent({
    name: "counter",
    description: "Counts.",
    instructions: "Count.",
    model: model("counter", [calls(use("look"), result)]),
    tools: [tool("look", () => flushEventLoop().then(() => "seen"))],
    output,
  });
  const lead = defineAgent({
    name: "lead",
    instructions: "Lead.",
    model: model("lead", [
      calls(spawn("counter")),
      calls({ toolName: "pay", arguments: { amount: 1 } }),
    ]),
    subagents: [counter],
    tools: [payTool(needsApproval)],
    output,
  });
  return { lead, requests };
}

interface World {
  readonly store: Store;
  readonly clock: ManualClock;
  process(
    roles: readonly AgentRole[],
    kill?: Kill,
  ): { orchestrator: Orchestrator; died(): boolean };
  /**
   * Everything that the store has of a run except the number of its claims: a lost run is claimed
   * before it is read.
   */
  kept(runId: RunId): Promise<unknown>;
}

function world(): World {
  const clock = new ManualClock();
  const store = memoryStore({ clock });
  const ids = sequentialIds();
  return {
    clock,
    store,
    process: (roles, kill) => {
      const dying = dyingStore(store, kill);
      const orchestrator = new Orchestrator({ clock, ids, store: dying.store, roles });
      return { orchestrator, died: () => dying.isDead };
    },
    kept: async (runId) => {
      const lines: string[] = [];
      for await (const line of store.read(runId)) lines.push(line);
      const { epoch: _ofClaims, ...run } = (await store.find(runId)) ?? {};
      return [run, lines];
    },
  };
}

describe("a run whose stored output does not fit its role", () => {
  proves(
    ["D417"],
    "is left unchanged if it is paused, and is recovered with the former role",
    async () => {
      const { process, kept } = world();
      const former = cast(COUNT, true);
      const run = process([former.lead]).orchestrator.start(former.lead, "Do it.");
      const { runId, ...paused } = await run.result;
      expect(paused.status).toBe("paused");
      const before = await kept(runId);
      const present = cast(NAME, true);
      const { orchestrator } = process([present.lead]);
      const answers = approveAll({ runId, ...paused });
      expect(await rejectionOf(orchestrator.resume(runId, { answers }))).toMatchObject({
        code: "output_mismatch",
        data: { runId, role: "counter", agentPath: "lead/counter#1", fields: ["count"] },
      });
      expect([await kept(runId), present.requests]).toEqual([before, []]);
      const again = cast(COUNT, true);
      const recovered = await process([again.lead]).orchestrator.resume(runId, { answers });
      expect((await recovered.result).output).toEqual({ count: 1 });
    },
  );

  proves(
    ["D417", "D418"],
    "stays open, unclaimed and without an added crash if it was lost at any append",
    async () => {
      const refusals = new Set<unknown>();
      let recoveries = 0;
      for (const how of DEATHS)
        for (let at = 1; ; at += 1) {
          const lost = await lostRun({ at, how });
          if (lost === undefined) break;
          const refusal = await refusedBy(lost);
          if (refusal === undefined) recoveries += 1;
          else refusals.add(refusal);
        }
      expect([[...refusals], recoveries > 0]).toEqual([["lead/counter#1"], true]);
    },
  );
});

interface LostRun extends World {
  readonly runId: RunId;
}

/** Returns a run whose process died at an append. `undefined` if it has fewer. */
async function lostRun(kill: Kill): Promise<LostRun | undefined> {
  const place = world();
  const { lead } = cast(COUNT, false);
  const { orchestrator, died } = place.process([lead], kill);
  const run = orchestrator.start(lead, "Do it.");
  await run.result.catch(() => undefined);
  if (!died()) return undefined;
  place.clock.advance(STALE_MS);
  return { ...place, runId: run.runId };
}

/**
 * Continues the run with another output, in each way. Returns the agent whose output prevents it.
 */
async function refusedBy({ store, runId, process, kept }: LostRun): Promise<unknown> {
  const { status, recordCount } = (await store.find(runId)) ?? {};
  if (status !== "open" || recordCount === 0) return undefined;
  const present = cast(NAME, false);
  const { orchestrator } = process([present.lead]);
  const first = await orchestrator.resume(runId).then(
    (run) => run.result,
    (cause: unknown) => cause,
  );
  if (!EspalierError.is(first)) {
    expect(first).toMatchObject({ status: "completed", output: { count: { name: "one" } } });
    const records = JSON.stringify(await storedRecords(store, runId));
    expect(records, "a call of Finish that succeeded").not.toContain('"arguments":{"count":1}');
    return undefined;
  }
  // Its end was persisted, but not yet its status.
  if (first.code === "run_ended") return undefined;
  expect(first.code).toBe("output_mismatch");
  const before = await kept(runId);
  const again = [
    await rejectionOf(orchestrator.resume(runId)),
    await rejectionOf(orchestrator.execute({ runId, role: "lead", task: "Do it." })),
    ...(await orchestrator.resumeLostRuns()).failed.map(({ error }) => error),
  ];
  expect(again.map(({ code }) => code)).toEqual([first.code, first.code, first.code]);
  expect(await kept(runId)).toEqual(before);
  expect(await store.find(runId)).toMatchObject({ status: "open", owner: null, crashCount: 1 });
  expect((await rejectionOf(orchestrator.cancel(runId))).code).toBe(first.code);
  expect(present.requests).toEqual([]);
  const former = cast(COUNT, false);
  const recovered = await process([former.lead]).orchestrator.resume(runId);
  expect((await recovered.result).status).toBe("cancelled");
  return first.data["agentPath"];
}
