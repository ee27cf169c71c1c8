// Goal: every reader of a run without a result learns of the failure, and a test whose script ran
// out fails.
// Method: stores that fail at one append, scripted models that are called too often, readers of
// every kind; a separate process for a run without a reader.

import { execFile } from "node:child_process";

import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { wrapModelCall } from "../../../src/hooks/hook.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { createStoreError } from "../../../src/store/store-errors.ts";
import type { Store } from "../../../src/store/store.ts";
import { asks, says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { forwarding } from "../../support/journal/forwarding-store.ts";
import { proves } from "../../harness/proves.ts";
import { flushEventLoop } from "../../harness/run-scripted.ts";
import { soloist } from "../../harness/soloist.ts";
import { rejectionOf } from "../../support/thrown.ts";

const FULL = createStoreError("full", "Expected room in the store, got none. Make some.");

/** Fails at the append of this number, from 1, and at all later ones. */
function fullStore(at: number): Store {
  const store = memoryStore();
  let appends = 0;
  return forwarding(store, {
    append: async (...asked) => {
      appends += 1;
      if (appends >= at) throw FULL;
      await store.append(...asked);
    },
  });
}

async function all<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const read: T[] = [];
  for await (const item of items) read.push(item);
  return read;
}

function startOn(store: Store): Run {
  const { role } = soloist([says("Done.")]);
  return new Orchestrator({ store }).start(role, "Do it.");
}

/** Returns how often a run writes to its store. */
async function appendsOfOneRun(): Promise<number> {
  const store = memoryStore();
  let appends = 0;
  const counting: Store = forwarding(store, {
    append: async (...asked) => {
      appends += 1;
      await store.append(...asked);
    },
  });
  await startOn(counting).result;
  return appends;
}

proves(
  ["S7.36"],
  "rejects readers of events and of phases if the store fails at any append",
  async () => {
    const appends = await appendsOfOneRun();
    expect(appends).toBeGreaterThan(1);
    for (let at = 1; at <= appends; at += 1) {
      await expect(all(startOn(fullStore(at)).events()), `events, append ${at}`).rejects.toBe(FULL);
      await expect(all(startOn(fullStore(at)).iterate()), `phases, append ${at}`).rejects.toBe(
        FULL,
      );
    }
  },
);

proves(
  ["S7.36"],
  "emits earlier events before it rejects, and rejects late readers as well",
  async () => {
    const run = startOn(fullStore(1));
    const types: string[] = [];
    const reading = (async () => {
      for await (const { type } of run.events()) types.push(type);
    })();
    await expect(reading).rejects.toBe(FULL);
    expect(types.slice(0, 2)).toEqual(["run.started", "agent.started"]);
    await expect(run.result).rejects.toBe(FULL);
    await expect(run.settled).rejects.toBe(FULL);
    await expect(run.orThrow()).rejects.toBe(FULL);
    await expect(all(run.events())).rejects.toBe(FULL);
    await expect(all(run.iterate())).rejects.toBe(FULL);
  },
);

test("causes no unhandled rejection if only the result is read", async () => {
  const run = startOn(fullStore(1));
  await expect(run.result).rejects.toBe(FULL);
  await flushEventLoop();
});

proves(["S7.36"], "ends the process with the failure if nothing reads the run", async () => {
  const program = `
    import { defineAgent, memoryStore, Orchestrator } from "espalier";
    import { says, ScriptedModel } from "espalier/testing";
    const store = memoryStore();
    store.append = async () => { throw new Error("disk full"); };
    const role = defineAgent({ name: "solo", instructions: "Work.", model: new ScriptedModel([says("Done.")]) });
    new Orchestrator({ store }).start(role, "Do it.");`;
  const args = ["--conditions=@espalier/source", "--input-type=module", "--eval", program];
  const ended = await new Promise<{ readonly code: unknown; readonly stderr: string }>(
    (resolve) => {
      execFile(process.execPath, args, (error, _stdout, stderr) =>
        resolve({ code: error?.code, stderr }),
      );
    },
  );
  expect(ended.code).toBe(1);
  expect(ended.stderr).toContain("Cannot persist the run: the store failed with: disk full.");
});

const BEYOND = "Expected 1 calls of scripted, got one more. Add a reply to the script.";

proves(
  ["S7.37"],
  "rejects every reader with script_mismatch if a model is called beyond its script",
  async () => {
    const script = [asks("nothing", {})];
    const start = (): Run => new Orchestrator().start(soloist(script).role, "Do it.");
    const expected = {
      code: "script_mismatch",
      message: `solo: ${BEYOND}`,
      data: { agentPath: "solo" },
    };
    const run = start();
    expect(await rejectionOf(run.result)).toEqual(expected);
    expect(await rejectionOf(run.settled)).toEqual(expected);
    expect(await rejectionOf(all(start().events()))).toEqual(expected);
    expect(await rejectionOf(all(start().iterate()))).toEqual(expected);
    expect(await rejectionOf(start().orThrow())).toEqual(expected);
    const kept = new Orchestrator({ store: memoryStore() }).start(soloist(script).role, "Do it.");
    expect(await rejectionOf(kept.result)).toEqual(expected);
  },
);

proves(
  ["S7.37"],
  "rejects with script_mismatch despite a parent or a hook that handles the failed call",
  async () => {
    const model = new ScriptedModel([]);
    const child = defineAgent({
      name: "child",
      description: "Works",
      instructions: "Work.",
      model,
    });
    const { role: lead } = soloist(
      [asks("SpawnSubagent", { role: "child", task: "Work." }), says("Done without it.")],
      {
        subagents: [child],
      },
    );
    expect(await rejectionOf(new Orchestrator().start(lead, "Do it.").result)).toMatchObject({
      code: "script_mismatch",
      data: { agentPath: "solo/child#1" },
    });
    const forgiving = wrapModelCall(async (_call, next) => {
      try {
        return await next();
      } catch {
        return {
          message: { role: "assistant", text: "Fine.", toolCalls: [] },
          finishReason: "stop",
        };
      }
    });
    const { role } = soloist([], { hooks: [forgiving] });
    expect((await rejectionOf(new Orchestrator().start(role, "Do it.").result)).code).toBe(
      "script_mismatch",
    );
  },
);

test("fails a run with an error of its script, not with script_mismatch", async () => {
  const { role } = soloist([{ error: new Error("boom") }]);
  const { status } = await new Orchestrator().start(role, "Do it.").result;
  expect(status).toBe("failed");
});
