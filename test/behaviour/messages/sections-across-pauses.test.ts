// Goal: sections of an execution survive its pauses, and not its end.
// Method: runs that pause and are resumed as if in another process, and a fork; requests and events
// are compared in full.

import { expect, test } from "vitest";

import { asks, says } from "../../../src/testing/scripted-model.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist, type Soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { approveAll } from "../../support/pause-stories.ts";

const tools = [spyTool("work")];

function textsOf({ model }: Soloist): readonly (readonly string[])[] {
  return model.requests.map(({ messages }) => messages.map(({ text }) => text));
}

test("preserves an execution section over a pause, even in another process", async () => {
  let made = 0;
  const guarded = spyTool("guarded", () => "let in", { needsApproval: true });
  const solo = soloist([asks("guarded", {}), says("Done.")], {
    tools: [guarded],
    sections: [
      { name: "memory", lifetime: "execution", text: () => `Memory ${(made += 1)}.` },
      { name: "none", lifetime: "execution", text: () => undefined },
      { name: "day", lifetime: "persistent", text: () => `Day ${(made += 1)}.` },
    ],
  });
  const fixture = newFixture();
  const paused = await fixture.outcome(fixture.start(solo.role));
  const result = await fixture.outcome(
    fixture.resume(solo.role, paused.pausedRun, approveAll(paused)),
  );
  expect([result.status, made]).toEqual(["completed", 2]);
  expect(textsOf(solo)).toEqual([
    ["Work.", "Memory 1.", "Do it.", "Day 2."],
    ["Work.", "Memory 1.", "Do it.", "Day 2.", "", "let in"],
  ]);
  expect(fixture.sink.ofType("section.cleared").map(({ name, count }) => [name, count])).toEqual([
    ["memory", 1],
    ["none", 0],
  ]);
});

test("creates the sections of a fork again, behind its message", async () => {
  let made = 0;
  const guarded = spyTool("guarded", () => "let in", { needsApproval: true });
  const solo = soloist([asks("work", {}), asks("guarded", {}), says("Forked.")], {
    tools: [...tools, guarded],
    sections: [
      { name: "memory", lifetime: "execution", text: () => `Memory ${(made += 1)}.` },
      { name: "day", lifetime: "persistent", text: () => `Day ${(made += 1)}.` },
    ],
  });
  const fixture = newFixture();
  const { pausedRun } = await fixture.outcome(fixture.start(solo.role));
  const options = { atStep: 1, message: "Go on." };
  const forked = await fixture.outcome(fixture.fork(solo.role, pausedRun, options));
  expect(forked.text).toBe("Forked.");
  expect(textsOf(solo)[2]).toEqual([
    "Work.",
    "Memory 3.",
    "Do it.",
    "Day 2.",
    "",
    "work done",
    "Go on.",
    "Day 4.",
  ]);
});
