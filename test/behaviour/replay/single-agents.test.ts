// Goal: everything that one agent and its calls do occurs again in a replay: hooks, guards,
// answers, typed outputs, compaction, failures.
// Method: the stories of the stored recordings, played again, and some more.

import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { proves } from "../../harness/proves.ts";
import type { Build } from "../../fixtures/journals/fakes.ts";
import { comesToTheSame, recorded } from "../../fixtures/journals/play.ts";
import { inTurn, lead, stories } from "../../fixtures/journals/roles.ts";
import { spawnCall } from "../../support/journal/thinkers.ts";

for (const [name, { build }] of Object.entries(stories))
  proves(["X25"], `replays the fixture ${name} to the same result`, async () => {
    await comesToTheSame(build);
  });

test("ends each story with its intended status", async () => {
  const ends: Record<string, unknown> = {};
  for (const [name, { build }] of Object.entries(stories)) {
    const { result } = await recorded(build);
    ends[name] = [result.status, result.reason.code, result.agents.length];
  }
  expect(ends).toEqual({
    approvals: ["completed", "completed", 2],
    background: ["completed", "completed", 4],
    compacted: ["completed", "completed", 1],
    delegations: ["completed", "completed", 4],
    groups: ["completed", "completed", 7],
    hooked: ["completed", "completed", 2],
    parallel: ["completed", "completed", 5],
    paused: ["paused", "input_required", 3],
    stopped: ["stopped", "stop_requested", 4],
    tight: ["stopped", "token_limit", 6],
    thoughtful: ["completed", "completed", 3],
  });
});

test("replays models and agents that fail", async () => {
  await comesToTheSame((fakes) => {
    let asked = 0;
    const flaky = fakes.model("flaky", () => {
      asked += 1;
      if (asked === 1) throw new Error("Broken for good.");
      return { text: "Fine." };
    });
    return {
      role: lead(fakes, inTurn([spawnCall("flaky", "a"), spawnCall("flaky", "b")]), {
        subagents: [
          defineAgent({ name: "flaky", description: "x", instructions: "x", model: flaky }),
        ],
      }),
    };
  });
});

test("replays sequential tools between concurrent ones that end in another order", async () => {
  await comesToTheSame((fakes) => ({
    role: lead(
      fakes,
      inTurn([
        ["free", { thing: "a" }],
        ["quick", { thing: "b" }],
        ["alone", { thing: "c" }],
        ["free", { thing: "d" }],
        ["unknown", { thing: "e" }],
      ]),
      {
        tools: [
          fakes.slow("free", 6),
          fakes.slow("quick", 1),
          fakes.slow("alone", 2, { sequential: true }),
        ],
      },
    ),
  }));
});

test("replays stop conditions, wrap-up and failing tools", async () => {
  const { result } = await comesToTheSame((fakes) => ({
    role: lead(fakes, ({ results }) => ({ calls: [["broken", { thing: `${results.length}` }]] }), {
      wrapUp: true,
      tools: [
        fakes.tool("broken", () => {
          throw new Error("Broken.");
        }),
      ],
      stopWhen: [
        ({ steps }) =>
          steps.length < 2 ? undefined : { code: "enough", message: "Two steps.", data: {} },
      ],
    }),
  }));
  expect(result.reason.code).toBe("enough");
});

test("replays runs of a session, whose root begins with its history", async () => {
  const orchestrator = new Orchestrator({ store: memoryStore() });
  const session = await orchestrator.openSession("talk");
  const build: Build = (fakes) => ({
    role: lead(fakes, inTurn([["look", { thing: "map" }]]), { tools: [fakes.tool("look")] }),
    start: { session },
  });
  for (let turn = 0; turn < 3; turn += 1) await comesToTheSame(build);
});
