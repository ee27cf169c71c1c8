// Actions of calls on subagents, killed at every append; and messages that an agent has not read
// when its run pauses (D2).

import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { JournalRecord } from "../../../src/orchestrator/durability/journal-record.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { latch } from "../../harness/run-scripted.ts";
import {
  aborted,
  killedEverywhere,
  opens,
  playThrough,
  turns,
  type Play,
  type Story,
} from "../../support/journal/crash-play.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

function isWritten(event: EspalierEvent): boolean {
  return event.type === "tool.ended" && event.toolName === "MessageSubagent";
}

test("repeats no action of a call on a subagent, and applies a cancellation only to its execution", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const written = latch();
    const worker = defineAgent({
      name: "worker",
      description: "Works",
      instructions: "You work.",
      model: thinker("worker", ({ results, heard }) =>
        results.length === 0
          ? { calls: [["work", { thing: "it" }]] }
          : { text: `I heard: ${heard.join(" ")}` },
      ),
      tools: [
        countedTool(calls, "work", async ({ thing }, { signal, agentPath }) => {
          await (agentPath.endsWith("#1") ? written.opened : aborted(signal));
          return `worked ${thing}`;
        }),
      ],
    });
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      delegation: { background: true },
      model: thinker("lead", ({ results }) => {
        const background = true;
        switch (results.length) {
          case 0:
            return {
              calls: [
                spawnCall("worker", "a", { background }),
                spawnCall("worker", "b", { background }),
              ],
            };
          case 2:
            return { calls: [["MessageSubagent", { subagent: "worker#1", message: "Hurry." }]] };
          case 3:
            return { calls: [["WaitForSubagents", { subagents: ["worker#1"] }]] };
          case 4:
            return { calls: [["MessageSubagent", { subagent: "worker#2", message: "Go." }]] };
          case 5:
            return { calls: [["CancelSubagent", { subagent: "worker#2" }]] };
          case 6:
            return { calls: [spawnCall("worker", "c", { continue: "worker#2" })] };
        }
        return { text: results.join(" ").replaceAll(/"totalTokens":\d+/gu, "") };
      }),
      subagents: [worker],
    });
    const slowly = transform("afterTool", async ({ text }) => {
      await turns(2);
      return { text: `${text}.` };
    });
    return {
      role,
      calls,
      options: { hooks: [slowly] },
      callerActions: [opens(written, isWritten)],
    };
  });
});

function paused(goesOnBy: "recover" | "resume"): Play {
  const calls = new Map<string, number>();
  const role = defineAgent({
    name: "solo",
    instructions: "You work.",
    model: thinker("solo", ({ results, heard }) =>
      results.length === 0
        ? {
            calls: [
              ["work", { thing: "a" }],
              ["pay", { thing: "b" }],
            ],
          }
        : { text: `Done. ${heard.join(" ")}` },
    ),
    tools: [
      countedTool(calls, "work", async () => {
        await turns(4);
        return "worked";
      }),
      countedTool(calls, "pay", undefined, { needsApproval: true }),
    ],
  });
  return {
    role,
    calls,
    goesOnBy,
    answer: ({ questionId, argumentsHash }) => ({ type: "approved", questionId, argumentsHash }),
    callerActions: [
      {
        when: ({ type }) => type === "tool.started",
        act: (run) => void run.steer("Hurry.").catch(() => undefined),
        isKept: ({ type }) => type === "letter",
      },
    ],
  };
}

test("discards unread messages at a pause, whether the run is recovered or resumed", async () => {
  const recovered = await playThrough(() => paused("recover"));
  const resumed = await playThrough(() => paused("resume"));
  expect(recovered.result?.text).toBe("Done. ");
  expect(recovered.ends).toEqual(resumed.ends);
});

test("ends an agent at its time limit even if the process dies at that moment", async () => {
  let lives = 0;
  await killedEverywhere((): Play => {
    lives += 1;
    const clock = new ManualClock(lives * 1_000);
    const calls = new Map<string, number>();
    const endless = defineAgent({
      name: "endless",
      description: "Does not end",
      instructions: "You go on.",
      model: thinker("endless", () => ({ calls: [["wait", { thing: "it" }]] })),
      tools: [
        countedTool(calls, "wait", async (_input, { signal }) => {
          await aborted(signal);
          return "over";
        }),
      ],
      budget: { timeMs: 500 },
    });
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      model: thinker("lead", ({ results }) =>
        results.length === 0 ? { calls: [spawnCall("endless", "a")] } : { text: "Done." },
      ),
      subagents: [endless],
    });
    const callerAction = {
      when: ({ type, agentPath }: EspalierEvent): boolean =>
        type === "tool.started" && agentPath === "lead/endless#1",
      act: () => clock.advance(500),
      isKept: isOver,
    };
    return { role, calls, options: { clock }, callerActions: [callerAction] };
  }, checkOverdue);
});

function isOver(record: JournalRecord): boolean {
  return record.type === "deadline";
}

function checkOverdue({ ends }: Story): void {
  const codes = ends.map(({ path, ended }) => [path, ended[1]]);
  expect(codes).toEqual([
    ["lead", "completed"],
    ["lead/endless#1", "time_limit"],
  ]);
}
