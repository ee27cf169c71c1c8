// Goal: a service that resumes its runs when it starts does not die again and again because of one
// run.
// Method: a real process that starts its runs, or calls `resumeLostRuns`, and is restarted after
// each death.

import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

import { expect } from "vitest";

import { Orchestrator, type RunResult } from "../../../src/index.ts";
import { sqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { newFolder, PoisonPlace } from "../../support/poison-place.ts";
import type { Death } from "../../support/engine/poison-worker.ts";

async function whatBecomesOf(death: Death): Promise<object> {
  const folder = newFolder();
  const path = join(folder, "runs.db");
  const engine = { name: "none", starts: ["poison-1", "healthy-1"] } as const;
  const place = PoisonPlace.open([{ store: { path }, engine, death, log: join(folder, "calls") }]);
  const store = sqliteStore(path);
  afterwards(() => store.close());
  const orchestrator = new Orchestrator({ store });
  const result = async (runId: string): Promise<RunResult> => {
    for (;;) {
      const found = await orchestrator.getResult(runId).catch(() => undefined);
      if (found !== undefined) return found;
      await setTimeout(50);
    }
  };
  const poison = await result("poison-1");
  const healthy = await result("healthy-1");
  return {
    poison: [poison.status, poison.errors.map(({ code }) => code)],
    healthy: [healthy.status, healthy.text],
    calls: place.calls("boom").length,
    deaths: place.deaths,
  };
}

proves(
  ["D466"],
  "survives its sixth start after five deaths by exit, abort, SIGKILL or a lack of memory",
  async () => {
    const deaths: readonly Death[] = ["exit", "abort", "kill", "memory"];
    const outcomes = await Promise.all(
      deaths.map(async (death) => [death, await whatBecomesOf(death)]),
    );
    const survived = {
      poison: ["failed", ["crash_loop"]],
      healthy: ["completed", "healthy is done"],
      calls: 5,
      deaths: 5,
    };
    expect(outcomes).toEqual(deaths.map((death) => [death, survived]));
  },
);
