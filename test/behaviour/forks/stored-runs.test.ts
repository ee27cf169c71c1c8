// Goal: another process continues a failed run by a fork, with only the id of the run.
// Method: one store, an orchestrator per process; the messages to the models compared in full.

import { expect } from "vitest";

import { EspalierError } from "../../../src/kernel/error.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { latch } from "../../harness/run-scripted.ts";
import { proves } from "../../harness/proves.ts";
import { soloist } from "../../harness/soloist.ts";
import { look } from "../../support/life-forks.ts";
import { payTool } from "../../support/pause-stories.ts";
import { rejectionOf } from "../../support/thrown.ts";

const BUSY = { error: new EspalierError({ code: "model_invalid_request", message: "Busy." }) };

for (const signing of [{}, { signingKey: "a key of at least thirty-two characters" }])
  proves(
    ["D777"],
    `forks a failed run of the store by its id, ${"signingKey" in signing ? "with" : "without"} a signing key`,
    async () => {
      const store = memoryStore();
      const failing = soloist([asks("look", {}), BUSY], { tools: [look] });
      const first = new Orchestrator({ store, roles: [failing.role], ...signing });
      const request = { runId: "ticket", role: failing.role.name, task: "Go." };
      const failed = await first.execute(request);
      const again = soloist([says("Done.")], { tools: [look] });
      const second = new Orchestrator({ store, roles: [again.role], ...signing });
      const fork = await second.fork("ticket");
      const { status, text, runId } = await fork.result;
      expect([failed.status, status, text, runId === "ticket"]).toEqual([
        "failed",
        "completed",
        "Done.",
        false,
      ]);
      expect(again.model.requests[0]?.messages.map(({ role }) => role)).toEqual([
        "system",
        "user",
        "assistant",
        "tool",
      ]);
      expect((await second.execute(request)).status).toBe("failed");
    },
  );

proves(["D777"], "forks a paused run by its id, which stays resumable", async () => {
  const store = memoryStore();
  const { role } = soloist([asks("pay", { amount: 1 }), says("Done.")], { tools: [payTool()] });
  const orchestrator = new Orchestrator({ store, roles: [role] });
  const paused = await orchestrator.start(role, "Go.", { runId: "one" }).result;
  const fork = await orchestrator.fork("one", { atStep: 0 });
  expect([(await fork.result).status, (await orchestrator.getResult("one")).questions]).toEqual([
    "completed",
    paused.questions,
  ]);
});

proves(["D777"], "forks neither an active run nor an unknown one", async () => {
  const store = memoryStore();
  const held = latch();
  const { role } = soloist([says("Done.", { after: held.opened })]);
  const orchestrator = new Orchestrator({ store, roles: [role] });
  const run = orchestrator.start(role, "Go.", { runId: "one" });
  await run.whenPersisted();
  const errors = [rejectionOf(orchestrator.fork("one")), rejectionOf(orchestrator.fork("two"))];
  expect((await Promise.all(errors)).map(({ code }) => code)).toEqual([
    "invalid_state",
    "unknown_run",
  ]);
  held.open();
  await run.result;
});
