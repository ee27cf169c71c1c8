// Goal: a summary is created only if there is room for one, and the run is charged a plausible
// usage, whatever the model reports.
// Method: windows and caps at their limits; summaries with implausible figures, under a token
// limit, with a store.

import { expect } from "vitest";

import type { Compaction } from "../../../src/agent/compaction.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { sumUsage } from "../../../src/protocol/event.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { takeWarnings } from "../../harness/process-watch.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { thrownBy } from "../../support/thrown.ts";
import { characters, isSummaryRequest, LONG, WINDOW, worker } from "./compaction-agents.ts";

const TOO_SMALL: readonly (readonly [Compaction, number, string])[] = [
  [
    { strategy: "summarize", maxInputTokens: 255 },
    4096,
    "Expected solo.compaction.maxInputTokens to be at least 256 with the strategy summarize, got 255. A summary takes at most a quarter of the window, and at least 64 tokens. Raise it, or choose the strategy truncate.",
  ],
  [
    { strategy: "summarize", maxInputTokens: 256 },
    63,
    'Expected solo.compaction.strategy to be truncate or error, got "summarize". The role\'s maxOutputTokens is 63, and a summary takes at least 64. Raise that, or choose the strategy truncate.',
  ],
];

proves(["S7.24"], "rejects a window that is too small for a summary at definition", () => {
  for (const [compaction, maxOutputTokens, message] of TOO_SMALL)
    expect(thrownBy(() => worker(compaction, says("never"), { maxOutputTokens }))).toMatchObject({
      code: "invalid_argument",
      message,
    });
  worker({ strategy: "summarize", maxInputTokens: 256 }, says("never"), { maxOutputTokens: 64 });
  worker({ strategy: "summarize" }, says("never"), { maxOutputTokens: 64 });
  worker({ maxInputTokens: 255 }, says("never"), { maxOutputTokens: 63 });
});

proves(["S7.24"], "requests a summary from 64 tokens of room on, and not below", async () => {
  const compaction = { strategy: "summarize", maxInputTokens: WINDOW, keepMessages: 2 } as const;
  for (const [room, isAsked] of [
    [64, true],
    [63, false],
  ] as const) {
    const solo = worker(compaction, says("Sum."));
    const s = newFixture();
    const task = "t".repeat(WINDOW - `Work.${LONG}`.length - room);
    const result = await s.outcome(s.start(solo.role, task));
    const asked = solo.model.requests.filter(isSummaryRequest);
    expect([room, result.status, asked.length > 0]).toEqual([room, "completed", isAsked]);
    if (isAsked) expect(asked[0]?.maxOutputTokens).toBe(room);
  }
});

proves(["S7.29"], "replaces an implausible usage of a summary by its own count", async () => {
  const compaction = { strategy: "summarize", maxInputTokens: WINDOW, keepMessages: 2 } as const;
  for (const usage of [{ inputTokens: Number.MAX_SAFE_INTEGER }, { outputTokens: -1 }]) {
    const solo = worker(compaction, says("Sum.", { usage }));
    const store = memoryStore({ clock: new ManualClock() });
    const s = newFixture({ store });
    const result = await s.run(solo.role, { budget: { totalTokens: 20_000 } });
    const [asked] = solo.model.requests.filter(isSummaryRequest);
    if (asked === undefined) throw new Error("Expected a summary.");
    const [compacted] = s.sink.ofType("conversation.compacted");
    expect(compacted).toMatchObject({
      usage: {
        inputTokens: characters(asked),
        outputTokens: 2,
        estimatedCalls: 1,
        modelCalls: 1,
      },
    });
    expect(compacted?.summaryCharacters).toBeGreaterThan(0);
    expect([result.status, result.usage.total.estimatedCalls]).toEqual(["completed", 1]);
    expect(sumUsage(s.sink.events)).toEqual(result.usage.total);
    expect(result.accounts[0]?.reserved).toMatchObject({ totalTokens: 0, costUsd: 0 });
    expect(takeWarnings()).toEqual([expect.stringContaining("an impossible usage")]);
    expect(await new Orchestrator({ store }).getResult(result.runId)).toEqual(result);
  }
});
