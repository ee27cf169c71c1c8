// Goal: an observer changes nothing in a run and sees how every step and every execution ends.
// Method: the same run with and without observers that throw, hang and mutate; one run for each way
// of ending.

import { expect, test } from "vitest";

import { observe } from "../../../src/hooks/hook.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { latch, newFixture, flushEventLoop } from "../../harness/run-scripted.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { hang, hookTree } from "../../support/hook-sites.ts";

const WATCHED = [
  "run.started",
  "step.started",
  "model.replied",
  "tool.ended",
  "run.ended",
] as const;

proves(
  ["R76"],
  "leaves result, events and calls unchanged if observers throw, hang and mutate",
  async () => {
    const plain = newFixture();
    const quiet = hookTree({});
    const expected = await plain.run(quiet.lead.role);

    const scribbles: boolean[] = [];
    const watched = newFixture({
      hooks: [
        observe(
          WATCHED,
          () => {
            throw new Error("at once");
          },
          { name: "throws" },
        ),
        observe(WATCHED, () => Promise.reject(new Error("later")), { name: "rejects" }),
        observe(WATCHED, hang, { name: "hangs" }),
        observe(WATCHED, (event) => void scribbles.push(Reflect.set(event, "type", "mine"))),
      ],
    });
    const noisy = hookTree({});
    const result = await watched.run(noisy.lead.role);

    expect({ ...result, traceId: "" }).toEqual({ ...expected, traceId: "" });
    const facts = ({ sink }: typeof plain): unknown =>
      sink.events.map(({ traceId: _trace, spanId: _span, ...event }) => event);
    expect(facts(watched)).toEqual(facts(plain));
    expect([noisy.lead.model.requests, noisy.child.model.requests]).toEqual([
      quiet.lead.model.requests,
      quiet.child.model.requests,
    ]);
    expect(new Set(scribbles)).toEqual(new Set([false]));
    expect(takeWarnings().toSorted()).toEqual([
      'EspalierWarning: The hook "rejects" threw at run.started (later); the run continues.',
      'EspalierWarning: The hook "throws" threw at run.started (at once); the run continues.',
    ]);
  },
);

proves(
  ["R77"],
  "reports the end of each execution once with its status, and each step once",
  async () => {
    const held = latch();
    const refused = new ModelError({ code: "model_invalid_request", message: "No." });
    const tools = [spyTool("work")];
    const endings = {
      completed: { script: [asks("work", {}), says("done")], budget: {}, steps: [1, 2] },
      stopped: { script: [asks("work", {})], budget: { steps: 1 }, steps: [1] },
      failed: { script: [asks("work", {}), { error: refused }], budget: {}, steps: [1, 2] },
      cancelled: { script: [says("late", { after: held.opened })], budget: {}, steps: [1] },
    };
    for (const [status, { script, budget, steps }] of Object.entries(endings)) {
      const told: unknown[] = [];
      const finished: number[] = [];
      const hooks = [
        observe("agent.ended", (event) => void told.push([event.status, event.reason.code])),
        observe("step.completed", ({ number }) => void finished.push(number)),
      ];
      const fixture = newFixture();
      const run = fixture.start(soloist(script, { tools, hooks }).role, "Do it.", { budget });
      await flushEventLoop();
      if (status === "cancelled") void run.cancel();
      const result = await fixture.outcome(run);
      expect([status, told, finished]).toEqual([
        result.status,
        [[status, result.reason.code]],
        steps,
      ]);
    }
  },
);

test("shows the whole tree to observers of the orchestrator, and a role's agents to those of a role", async () => {
  const seen: Record<string, string[]> = { orchestrator: [], lead: [], child: [] };
  const note = (who: string) =>
    observe("agent.ended", ({ agentPath }) => void seen[who]?.push(agentPath));
  const { lead } = hookTree({ lead: [note("lead")], child: [note("child")] });
  await newFixture({ hooks: [note("orchestrator")] }).run(lead.role);
  expect(seen).toEqual({
    orchestrator: ["lead/child#1", "lead"],
    lead: ["lead"],
    child: ["lead/child#1"],
  });
});

test("does not call the observers of a role in another run of the orchestrator", async () => {
  const seen: string[] = [];
  const hooks = [observe("run.ended", ({ runId }) => void seen.push(runId))];
  const fixture = newFixture();
  await fixture.run(soloist([says("a")], { hooks }).role);
  await fixture.run(soloist([says("b")]).role);
  expect(seen).toHaveLength(1);
});
