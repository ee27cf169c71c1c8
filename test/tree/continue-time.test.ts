// Goal: the time in which a subagent was idle does not count against its limit.
// Method: a manual clock that moves while it works and while it is idle; how each execution ended compared whole.

import { describe, expect } from "vitest";
import { says } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { onward, rests, settlements } from "../support/life-agents.ts";
import { calls, part, spawn, tool, use } from "./scripted-agents.ts";

describe("time", () => {
  proves(
    ["X10", "X16"],
    "in which it was idle does not count against its limit; that of its own work does",
    async () => {
      const worker = part(
        "worker",
        [
          calls(use("spend")),
          says("One."),
          calls(use("spend")),
          says("Two."),
          calls(use("spend")),
          says("Never."),
        ],
        {
          tools: [
            tool("spend", () => {
              s.clock.advance(400);
              return "spent";
            }),
          ],
          budget: { wallTimeMs: 1_000 },
        },
      );
      const lead = part(
        "lead",
        [
          calls(spawn("worker", "1")),
          calls(use("idle")),
          calls(onward("worker#1", "2")),
          calls(use("idle")),
          calls(onward("worker#1", "3")),
          says("Done."),
        ],
        {
          subagents: [worker.role],
          tools: [
            tool("idle", () => {
              s.clock.advance(10_000);
              return "idled";
            }),
          ],
        },
      );
      const s = newFixture();
      const result = await s.run(lead.role);
      expect([
        result.status,
        settlements(s).map((text) => text.split(" ")[1]),
        rests(result)["lead/worker#1"],
      ]).toEqual([
        "completed",
        ["completed", "completed", expect.stringMatching(/partial|no_output/)],
        "stopped (time_limit)",
      ]);
    },
  );
});
