// Goal: external input occurs again at its place: requests to cancel, stop, pause and skip,
// messages, grants, answers, deadlines.
// Method: callers that act on an event, at once or when everything is idle; recorded and replayed.

import { expect, test } from "vitest";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent, type AgentDefinition } from "../../../src/agent/define-agent.ts";
import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { ManualClock } from "../../../src/testing/manual-clock.ts";
import { proves } from "../../harness/proves.ts";
import type { Act, Fakes } from "../../fixtures/journals/fakes.ts";
import { comesToTheSame, gist, recorded, replayed } from "../../fixtures/journals/play.ts";
import { spawnCall } from "../../support/journal/thinkers.ts";

function worker(fakes: Fakes): AgentRole {
  return defineAgent({
    name: "worker",
    description: "Works",
    instructions: "You work.",
    model: fakes.model("worker", ({ results, task, heard }) =>
      results.length < 3
        ? { calls: [["measure", { thing: `${task} ${results.length}` }]] }
        : { text: [`${task} is done`, ...heard].join(" | ") },
    ),
    tools: [fakes.slow("measure", 3)],
  });
}

function team(fakes: Fakes, more: Partial<AgentDefinition> = {}): AgentRole {
  return defineAgent({
    name: "lead",
    instructions: "You lead.",
    model: fakes.model("lead", ({ results, heard }) => {
      if (results.length === 0) return { calls: [["measure", { thing: "first" }]] };
      if (results.length === 1)
        return {
          calls: [
            spawnCall("worker", "a"),
            ["measure", { thing: "beside" }],
            spawnCall("worker", "b"),
          ],
        };
      return { text: ["All", ...results, ...heard].join(" | ") };
    }),
    tools: [fakes.slow("measure", 5)],
    subagents: [worker(fakes)],
    ...more,
  });
}

function plain(fakes: Fakes) {
  return { role: team(fakes) };
}

/** Matches the nth event of a type of one agent. */
function nth(type: EspalierEvent["type"], agentPath: string, count = 1): Act["when"] {
  let seen = 0;
  return (event) => {
    if (event.type === type && event.agentPath === agentPath) seen += 1;
    return seen === count && event.type === type;
  };
}

const MOMENTS = [
  ["model.requested", "lead", 1],
  ["model.replied", "lead", 1],
  ["step.completed", "lead", 1],
  ["step.started", "lead/worker#1", 2],
  ["tool.ended", "lead/worker#1", 2],
  ["agent.ended", "lead/worker#1", 1],
] as const;

const REQUESTS: Readonly<Record<string, (run: Run, event: EspalierEvent) => void>> = {
  cancel: (run) => void run.cancel("Enough."),
  "cancel one": (run, { agentId }) => run.cancelAgent(agentId, "Not you."),
  stop: (run) => run.requestStop(),
  pause: (run) => run.requestPause(),
  message: (run) => void run.steer("A message."),
  "message to one": (run, { agentId }) => void run.steer("For you.", agentId),
  grant: (run) => void run.grant({ totalTokens: 1_000 }, { by: "test" }),
  skip: (run) => run.skipToolCalls("Not now."),
};

for (const [request, give] of Object.entries(REQUESTS))
  proves(
    ["X25"],
    `replays a ${request} at any moment, at once or when the run is idle`,
    async () => {
      for (const moment of MOMENTS)
        for (const isAtOnce of [true, false]) await requested(give, moment, isAtOnce);
    },
  );

async function requested(
  give: (run: Run, event: EspalierEvent) => void,
  [type, path, count]: (typeof MOMENTS)[number],
  isAtOnce: boolean,
): Promise<void> {
  let event: EspalierEvent | undefined;
  const happens = nth(type, path, count);
  const when = (one: EspalierEvent): boolean => {
    const isIt = event === undefined && happens(one);
    if (isIt) event = one;
    return isIt;
  };
  const act = (run: Run): void => {
    if (event !== undefined) give(run, event);
  };
  try {
    await comesToTheSame((fakes) => ({
      role: team(fakes),
      start: { budget: { totalTokens: 100_000 } },
      acts: [{ when, act, isAtOnce }],
    }));
  } catch (cause) {
    const moment = `${type} of ${path}, ${isAtOnce ? "at once" : "later"}`;
    if (cause instanceof Error) cause.message = `${moment}: ${cause.message}`;
    throw cause;
  }
}

test("replays a caller that steps through phases, skips calls and stops", async () => {
  await comesToTheSame((fakes) => ({
    role: team(fakes),
    drive: async (run) => {
      let infers = 0;
      for await (const { phase } of run.iterate()) {
        if (phase === "infer") infers += 1;
        if (phase === "infer" && infers === 1) run.skipToolCalls("Left out.");
        if (phase === "decide" && infers === 2) run.requestStop();
      }
    },
  }));
});

test("replays requests from before the run begins", async () => {
  await comesToTheSame((fakes) => ({
    role: team(fakes),
    start: { budget: { totalTokens: 100_000, steps: 20 } },
    drive: (run) => {
      run.grant({ steps: 3 }, { by: "test" });
      void run.steer("Early.");
      return Promise.resolve();
    },
  }));
});

const late: Act = {
  when: nth("tool.started", "lead/worker#1", 2),
  act: (_run: Run, clock: ManualClock) => clock.advance(10_000),
};

test("replays a deadline that ends the run, and one that ends an agent", async () => {
  const ended = await comesToTheSame((fakes) => ({
    role: team(fakes),
    start: { budget: { timeMs: 10_000 } },
    acts: [{ ...late, when: nth("tool.started", "lead/worker#1", 2) }],
  }));
  expect(ended.result.reason.code).toBe("time_limit");
  const one = await comesToTheSame((fakes) => ({
    role: team(fakes, {
      subagents: [
        defineAgent({
          name: "worker",
          description: "Works",
          instructions: "You work.",
          model: fakes.model("worker", ({ task }) =>
            task === "a" ? { calls: [["wait", { thing: task }]] } : { text: "done" },
          ),
          tools: [fakes.endless("wait")],
          budget: { timeMs: 5_000 },
        }),
      ],
    }),
    acts: [
      {
        when: nth("tool.started", "lead/worker#1", 1),
        act: (_run, clock) => clock.advance(5_000),
      },
    ],
  }));
  expect(one.result.agents.map(({ reason }) => reason.code)).toEqual([
    "completed",
    "time_limit",
    "completed",
  ]);
});

proves(["R175"], "replays a run that is paused for an answer up to the pause", async () => {
  const { result } = await comesToTheSame((fakes) => ({
    role: team(fakes, {
      tools: [fakes.tool("measure", undefined, { needsApproval: true })],
    }),
  }));
  expect(result.status).toBe("paused");
});

proves(["R175"], "replays a recording that is truncated anywhere up to there", async () => {
  const { recording } = await recorded(plain);
  const lines = recording.trimEnd().split("\n");
  const statuses = new Set<string>();
  for (let count = 8; count < lines.length - 12; count += 7) {
    const { result } = await replayed(plain, `${lines.slice(0, count).join("\n")}\n`);
    statuses.add(`${result.status}: ${result.reason.message}`);
  }
  expect([...statuses]).toEqual(["cancelled: The recording ends here."]);
  const whole = await replayed(plain, recording);
  expect(gist(whole.result)).toMatchObject({ status: "completed" });
});
