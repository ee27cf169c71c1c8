// Goal: every subagent ends, whatever the code of a delegation does after a crash: it may start
// other subagents than before, fewer or none, while sibling calls still run (T1, T2).
// Method: random programs, whose code draws its subagents anew in each process, die two or three
// times at random appends. `CHANGED=2000` runs that many programs, `FC_SEED=…` other ones.

import { expect } from "vitest";
import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { approve, deny } from "../../../src/protocol/question.ts";
import { sha256 } from "../../../src/kernel/crypto.ts";
import { randomFrom } from "../../support/random-from.ts";
import { defineDelegation } from "../../../src/tools/define-tool.ts";
import type { DelegationContext, DelegationOutcome } from "../../../src/tools/tool-context.ts";
import { toolGuard } from "../../../src/tools/tool-guard.ts";
import { proves } from "../../harness/proves.ts";
import { checkRun } from "../../harness/run-scripted.ts";
import {
  named,
  playThrough,
  type CallerAction,
  type Play,
  type PlannedDeath,
  type Story,
} from "../../support/journal/crash-play.ts";
import { countedTool, thinker } from "../../support/journal/thinkers.ts";

const PROGRAMS = Number(process.env["CHANGED"] ?? 200);
const SEED = Number(process.env["FC_SEED"] ?? 20_261_128);

type Random = () => number;

function below(random: Random, count: number): number {
  return Math.floor(random() * count);
}

function chosen<T>(random: Random, from: readonly T[]): T {
  const one = from[below(random, from.length)];
  if (one === undefined) throw new Error("There is nothing to choose from.");
  return one;
}

/** Draws an action on a subagent: mostly a spawn. */
function drawn(
  random: Random,
  { spawn, subagents }: DelegationContext,
): () => Promise<DelegationOutcome> {
  const role = random() < 0.7 ? "leaf" : "middle";
  const task = `Part ${below(random, 3)}.`;
  const background = random() < 0.25;
  const childName = `${role}#1`;
  const how = random();
  if (how < 0.8) return () => spawn({ role, task, background });
  if (how < 0.9) return () => subagents.continue({ subagent: childName, task, background });
  return () => subagents.cancel(childName);
}

/** Starts subagents as drawn, in sequence or concurrently, and answers in one of several ways. */
async function improvise(context: DelegationContext, random: Random): Promise<DelegationOutcome> {
  const draws = Array.from({ length: below(random, 4) }, () => drawn(random, context));
  const outcomes: DelegationOutcome[] = [];
  if (random() < 0.5) outcomes.push(...(await Promise.all(draws.map((act) => act()))));
  else for (const act of draws) outcomes.push(await act());
  const first = outcomes.find(({ type }) => type !== "answered");
  const how = random();
  if (how < 0.15) throw new Error("The code broke.");
  return how < 0.7 && first !== undefined ? first : { type: "answered", text: "improvised" };
}

/** Draws an action of the caller at some event: mostly none. */
function callerOf(random: Random): readonly CallerAction[] {
  const at = 10 + below(random, 60);
  const acts: readonly (readonly [act: CallerAction["act"], record: string])[] = [
    [(run) => void run.cancel().catch(() => undefined), "cancel"],
    [(run) => run.requestPause(), "pause"],
    [(run) => run.requestStop(), "stop"],
  ];
  const [act, record] = chosen(random, acts);
  if (random() < 0.6) return [];
  return [{ when: ({ seq }) => seq === at, act, isKept: ({ type }) => type === record }];
}

/** Returns one process of a program. `life`: the number of earlier processes. */
function processOf(program: number, life: number): Play {
  const fixed = randomFrom(SEED + program * 31);
  const own = randomFrom(SEED + program * 31 + life + 1);
  const fan = defineDelegation({
    name: "fan",
    description: "Starts subagents.",
    inputSchema: z.object({ part: z.number() }),
    execute: ({ part }, context) => {
      const place = `${SEED} ${program} ${life} ${context.agentPath} ${part}`;
      return improvise(context, randomFrom(Number.parseInt(sha256(place).slice(0, 8), 16)));
    },
  });
  const needsApproval = fixed() < 0.3;
  const work = countedTool(new Map(), "work", undefined, { needsApproval });
  const parentEndPolicy = chosen(fixed, ["await", "cancel", "detach"] as const);
  const failurePolicy = chosen(fixed, ["isolate", "isolate", "fail_fast"] as const);
  const isDenied = own() < 0.15;
  const guard = toolGuard(() =>
    isDenied ? { type: "deny", reason: "Not now." } : { type: "allow" },
  );
  const delegation = {
    background: true,
    maxIdenticalDelegations: "unlimited",
    parentEndPolicy,
    failurePolicy,
  } as const;
  const [steps, siblings, parts] = [1 + (program % 4), program % 3, 1 + (program % 2)];
  const fans = (count: number) =>
    Array.from({ length: count }, (_one, part) => ["fan", { part }] as const);
  const works = Array.from(
    { length: siblings },
    (_one, index) => ["SpawnSubagent", { role: "leaf", task: `Sibling ${index}.` }] as const,
  );
  const leaf = defineAgent({
    name: "leaf",
    description: "Works",
    instructions: "You work.",
    model: thinker("leaf", ({ results }) =>
      results.length < steps
        ? { calls: [["work", { thing: `${results.length}` }]] }
        : { text: "worked" },
    ),
    tools: [work],
  });
  const middle = defineAgent({
    name: "middle",
    description: "Delegates",
    instructions: "You delegate.",
    model: thinker("middle", ({ results }) =>
      results.length === 0 ? { calls: fans(1) } : { text: "delegated" },
    ),
    tools: [fan],
    subagents: [leaf],
    delegation,
  });
  const role = defineAgent({
    name: "root",
    instructions: "You lead.",
    model: thinker("root", ({ results }) =>
      results.length === 0 ? { calls: [...fans(parts), ...works] } : { text: "the end" },
    ),
    tools: [fan],
    subagents: [middle, leaf],
    delegation,
  });
  return {
    role,
    options: { guards: [guard] },
    callerActions: callerOf(fixed),
    answer: (question) => (own() < 0.5 ? approve(question) : deny(question)),
  };
}

/** Checks the end of a story, beyond the checks of `playThrough`. */
function checkStory({ kept, events }: Story): void {
  checkRun(kept, events);
  const spawned = events.filter(({ type }) => type === "subagent.spawned");
  expect(kept.agents, "T1: every subagent that was announced is in the result").toHaveLength(
    spawned.length + 1,
  );
  for (const { agentPath, status } of kept.agents)
    expect([agentPath, status], "T1: every agent ends").not.toEqual([agentPath, "paused"]);
  const places = Object.values(kept.subagentsByDepth).reduce((sum, count) => sum + count, 0);
  expect(places, "T3: a place for each subagent").toBe(spawned.length);
}

proves(
  ["D442"],
  "ends every subagent once if delegations start others after each of several crashes",
  async () => {
    let died = 0;
    for (let program = 0; program < PROGRAMS; program += 1) {
      const random = randomFrom(SEED + program);
      const deaths = Array.from({ length: 2 + below(random, 2) }, (): PlannedDeath => ({
        at: 1 + below(random, 9),
        how: random() < 0.5 ? "before" : "after",
      }));
      let life = 0;
      const story = await named({ program, deaths }, () =>
        playThrough(() => processOf(program, life++), deaths),
      );
      await named({ program, deaths }, () => checkStory(story));
      died += story.deaths;
    }
    expect(died, "programs that died twice").toBeGreaterThan(PROGRAMS * 1.5);
  },
  120_000 + PROGRAMS * 500,
);
