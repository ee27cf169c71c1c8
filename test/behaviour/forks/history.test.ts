// Goal: a fork has the history of its root up to the step, and is refused if that history was
// removed.
// Method: real runs with compacted histories or unusable replies; the messages to the fork's model
// compared in full.

import { describe, expect, test } from "vitest";
import { says } from "../../../src/testing/scripted-model.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { rested } from "../../support/life-agents.ts";
import { thrownBy } from "../../support/thrown.ts";
import { calls, part, use } from "../../harness/scripted-agents.ts";
import { BEFORE, look, shown } from "../../support/life-forks.ts";

/** A run of seven steps whose history is compacted on the way. */
async function compacted() {
  const lead = part(
    "lead",
    [...Array.from({ length: 6 }, () => calls(use("look"))), says("Original."), says("Forked.")],
    {
      tools: [look],
      compaction: { maxInputTokens: 50, keepMessages: 4 },
      scripted: { countTokens: ({ messages }) => messages.length * 6 },
    },
  );
  const s = newFixture();
  const { snapshot } = await rested(s, s.start(lead.role));
  expect(s.sink.ofType("conversation.compacted").length).toBeGreaterThan(0);
  return { lead, s, snapshot };
}

describe("a fork of a compacted run", () => {
  test("is refused with advice at a step whose history was removed", async () => {
    const { lead, s, snapshot } = await compacted();
    const before = JSON.stringify(snapshot);
    const error = thrownBy(() => s.fork(lead.role, snapshot, { atStep: 1 }));
    expect([error.code, error.message, JSON.stringify(snapshot) === before]).toEqual([
      "invalid_argument",
      "Expected fork options.atStep to be a step of lead whose history is complete, got 1. Choose a later step, or keep more messages (compaction.keepMessages).",
      true,
    ]);
  });

  test("succeeds at a later step", async () => {
    const { lead, s, snapshot } = await compacted();
    const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep: 6, message: "Go on." }));
    expect(forked.text).toBe("Forked.");
  });
});

test("unusable replies appear neither in the history of a run nor in that of its fork", async () => {
  const lead = part(
    "lead",
    [
      { text: " ", finishReason: "unknown" },
      calls(use("look")),
      { text: " " },
      { text: "Strange.", finishReason: "unknown" },
      says("Forked."),
      says("Forked."),
      says("Forked."),
    ],
    { tools: [look] },
  );
  const s = newFixture();
  const { result, snapshot } = await rested(s, s.start(lead.role));
  expect([result.status, result.text]).toEqual(["completed", "Strange."]);
  for (const atStep of [1, 2, 3]) {
    const forked = await s.outcome(s.fork(lead.role, snapshot, { atStep, message: "Go on." }));
    expect(forked.text).toBe("Forked.");
  }
  expect([4, 5, 6].map((index) => shown(lead, index))).toEqual([
    ["system: You are lead.", "user: Do it.", "user: Go on."],
    [...BEFORE, "user: Go on."],
    [...BEFORE, "user: Go on."],
  ]);
});
