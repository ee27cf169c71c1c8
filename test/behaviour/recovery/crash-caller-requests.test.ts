// Requests of a caller before a process died apply in the next one: messages, cancels, stops and
// grants (D2).

import { expect, test } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { JournalRecord } from "../../../src/orchestrator/durability/journal-record.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import { proves } from "../../harness/proves.ts";
import { latch } from "../../harness/run-scripted.ts";
import {
  aborted,
  killedEverywhere,
  opens,
  turns,
  type CallerAction,
  type Play,
  type Story,
} from "../../support/journal/crash-play.ts";
import { countedTool, spawnCall, thinker } from "../../support/journal/thinkers.ts";

/** Returns a lead with two workers, each of which works until the gate opens or it is aborted. */
function team(calls: Map<string, number>, until: Promise<void>) {
  const worker = defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: thinker("worker", ({ results, heard }) =>
      results.length < 2
        ? { calls: [["work", { thing: `${results.length}` }]] }
        : { text: ["Worked.", ...heard].join(" ") },
    ),
    tools: [
      countedTool(calls, "work", async ({ thing }, { signal }) => {
        if (thing === "0") await Promise.race([until, aborted(signal)]);
        else await turns(2);
        return `worked ${thing}`;
      }),
    ],
  });
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: thinker("lead", ({ results, heard }) =>
      results.length === 0
        ? { calls: [spawnCall("worker", "a"), spawnCall("worker", "b")] }
        : { text: ["Led.", ...heard].join(" ") },
    ),
    subagents: [worker],
  });
}

/** Returns an action of the caller once both workers work. */
function whenBothWork(
  act: (run: Run) => unknown,
  isKept: (record: JournalRecord) => boolean,
): CallerAction {
  const atWork = new Set<string>();
  return {
    when: ({ type, agentPath }) =>
      type === "tool.started" && agentPath !== "lead" && atWork.add(agentPath).size === 2,
    act: (run) => void Promise.resolve(act(run)).catch(() => undefined),
    isKept,
  };
}

test("delivers messages to agents once, before and after a crash", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const written = latch();
    return {
      role: team(calls, written.opened),
      calls,
      callerActions: [
        whenBothWork((run) => {
          void run.steer("One.").catch(() => undefined);
        }, isLetter("One.")),
        {
          when: isFirstAtWork,
          act: (run, { agentId }) => void run.steer("Two.", agentId).catch(() => undefined),
          isKept: isLetter("Two."),
        },
        opens(written, isFirstAtWork),
      ],
    };
  });
});

proves(
  ["D724"],
  "delivers a message that arrives during a model call in the next step, also after a crash",
  async () => {
    const textsIn = ({ kept }: Story) => kept.messages.map(({ text }) => text);
    await killedEverywhere(
      (): Play => ({
        role: defineAgent({
          name: "solo",
          instructions: "You work.",
          model: thinker("solo", ({ heard }) => ({ text: ["Worked.", ...heard].join(" ") })),
        }),
        callerActions: [
          {
            when: ({ type }) => type === "model.requested",
            act: (run) => void run.steer("Look again.").catch(() => undefined),
            isKept: isLetter("Look again."),
          },
        ],
      }),
      (story, plain) => {
        expect(textsIn(story)).toEqual(textsIn(plain));
        expect(textsIn(plain)).toEqual([
          "You work.",
          "Go.",
          "Worked.",
          "Look again.",
          "Worked. Look again.",
        ]);
      },
    );
  },
);

proves(
  ["D724"],
  "does not deliver a message whose request was prepared and never sent, also after a crash",
  async () => {
    await killedEverywhere(
      (): Play => {
        const calls = new Map<string, number>();
        const written = latch();
        return {
          role: defineAgent({
            name: "solo",
            instructions: "You work.",
            model: thinker("solo", () => ({ calls: [["work", { thing: "it" }]] })),
            tools: [countedTool(calls, "work", async () => (await written.opened, "worked"))],
          }),
          calls,
          callerActions: [
            {
              when: ({ type }) => type === "tool.started",
              act: (run) => void run.steer("Hurry.").catch(() => undefined),
              isKept: isLetter("Hurry."),
            },
            opens(written, ({ type }) => type === "tool.started"),
            { when: isPreparedForStep2, act: (run) => run.requestStop(), isKept: isRecord("stop") },
          ],
        };
      },
      ({ kept, events }) => {
        expect([kept.status, kept.steps.length]).toEqual(["stopped", 1]);
        expect(kept.messages.map(({ role }) => role)).toEqual([
          "system",
          "user",
          "assistant",
          "tool",
        ]);
        expect(events.filter(({ type }) => type === "message.delivered")).toEqual([]);
      },
    );
  },
);

function isPreparedForStep2({ type, stepId }: EspalierEvent): boolean {
  return type === "budget.reserved" && stepId?.endsWith(".2") === true;
}

function isLetter(text: string): (record: JournalRecord) => boolean {
  return (record) => record.type === "letter" && record.text === text;
}

function endings({ ends }: Story): readonly unknown[] {
  return ends.map(({ path, ended }) => [path, ended]);
}

function isFirstAtWork({ type, agentPath }: EspalierEvent): boolean {
  return type === "tool.started" && agentPath === "lead/worker#1";
}

function isRecord(type: string): (record: JournalRecord) => boolean {
  return (record) => record.type === type;
}

const NEVER = new Promise<void>(() => undefined);

test("ends a cancelled run and all its agents as cancelled", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const callerActions = [whenBothWork((run) => run.cancel("Enough."), isRecord("cancel"))];
    return { role: team(calls, NEVER), calls, callerActions };
  });
});

test("ends a run that was cancelled during its subtasks as cancelled", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const lead = team(calls, NEVER);
    const role = defineAgent({
      name: "lead",
      instructions: "You lead.",
      model: thinker("lead", ({ results }) =>
        results.length === 0 ? { calls: [["plan", { thing: "all" }]] } : { text: "Led." },
      ),
      tools: [
        countedTool(calls, "plan", (_input, { queueSubtask }) => {
          queueSubtask({ role: "worker", task: "a" });
          queueSubtask({ role: "worker", task: "b" });
          return "planned";
        }),
      ],
      subagents: lead.subagents,
    });
    const callerActions = [whenBothWork((run) => run.cancel("Enough."), isRecord("cancel"))];
    return { role, calls, callerActions };
  });
});

test("ends a cancelled agent, and continues the others", async () => {
  await killedEverywhere((): Play => {
    const calls = new Map<string, number>();
    const cancelled = latch();
    const callerActions: readonly CallerAction[] = [
      {
        when: isFirstAtWork,
        act: (run, { agentId }) => run.cancelAgent(agentId, "Not you."),
        isKept: isRecord("cancel"),
      },
      opens(
        cancelled,
        ({ type, agentPath }) => type === "agent.ended" && agentPath === "lead/worker#1",
      ),
    ];
    return { role: team(calls, cancelled.opened), calls, callerActions };
  });
});

test("stops a run after a stop request, and does not restart calls that were in flight", async () => {
  await killedEverywhere(
    (): Play => {
      const calls = new Map<string, number>();
      const stopped = latch();
      const callerActions: readonly CallerAction[] = [
        whenBothWork((run) => run.requestStop("That will do."), isRecord("stop")),
        {
          when: ({ type }) => type === "tool.started",
          act: () => void turns(12).then(() => stopped.open()),
          isKept: () => false,
        },
      ];
      return { role: team(calls, stopped.opened), calls, callerActions };
    },
    (story, plain) => {
      expect(endings(story)).toEqual(endings(plain));
      const outcomes = story.events.flatMap((event) =>
        event.type === "tool.ended" && event.toolName === "work" ? [event.outcome] : [],
      );
      const ends = ["succeeded", "cancelled"]; // Calls in flight are aborted.
      expect(outcomes.every((outcome) => ends.includes(outcome))).toBe(true);
    },
    { isSame: false },
  );
});

test("applies a grant exactly once", async () => {
  await killedEverywhere(
    (): Play => {
      const calls = new Map<string, number>();
      const granted = latch();
      const callerActions: readonly CallerAction[] = [
        whenBothWork(
          (run) => run.grant({ steps: 10 }, { by: "the boss" }),
          (record) => record.type === "ledger" && record.done.operation === "grant",
        ),
        opens(granted, ({ type }) => type === "budget.granted"),
      ];
      const start = { budget: { steps: 3 } };
      return { role: team(calls, granted.opened), calls, callerActions, start };
    },
    (story) => {
      expect(story.result?.accounts[0]?.grants.length ?? 1).toBe(1);
    },
  );
});
