// Goal: every recording that was ever made is read and replayed for ever (D3), and what agents come to does not depend on the order in
// which effects end that have nothing to do with each other: so a distributed engine can follow.
// Method: each file of test/journals/v1 in its recorded order, and in twenty others.

import { globSync } from "node:fs";
import { basename } from "node:path";

import { expect, test } from "vitest";

import { EspalierError } from "../../src/kernel/error.ts";
import type { RunResult } from "../../src/orchestrator/run-result.ts";
import { proves } from "../harness/proves.ts";
import { keptRecording } from "../journals/kept.ts";
import { gist, replayed } from "../journals/play.ts";
import { scenes } from "../journals/roles.ts";

const names = globSync("test/journals/v1/*.jsonl").map((file) => basename(file, ".jsonl"));

test("every scene has its recording, and every recording its scene", () => {
  expect(names.toSorted()).toEqual(Object.keys(scenes).toSorted());
});

for (const name of names) {
  const kept = scenes[name];
  if (kept === undefined) continue;
  const { build, isContended = false } = kept;

  proves(
    ["R175", "X25"],
    `D3: the recording ${name} is replayed, and comes to the same in twenty other orders`,
    async () => {
      const recording = keptRecording(name);
      const { result, events } = await replayed(build, recording);
      expect(events.length, "it is played").toBeGreaterThan(5);
      for (let seed = 1; seed <= 20; seed += 1) {
        try {
          const other = await replayed(build, recording, { order: { shuffledBy: seed } });
          const told = isContended ? endOf : anyOrder;
          expect(told(other.result), `order ${seed}`).toEqual(told(result));
        } catch (cause) {
          const isNamed = EspalierError.is(cause) && cause.code === "replay_diverged";
          if (!isContended || !isNamed) throw cause;
        }
      }
    },
  );
}

/** A result whose agents stand in the order of their paths, and not of their births. */
function anyOrder({ agents, accounts, ...result }: RunResult): object {
  return gist({
    ...result,
    agents: agents.toSorted((one, other) => one.agentPath.localeCompare(other.agentPath)),
    accounts: accounts.toSorted((one, other) => one.path.localeCompare(other.path)),
  });
}

/** What is left of a budget at which moment depends on the order of those who wait for it. */
function endOf({ status, reason, text }: RunResult): object {
  return { status, code: reason.code, text };
}
