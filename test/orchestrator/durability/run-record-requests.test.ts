// Goal: the exact request of any step is rebuilt from a journal alone.
// Method: recordings with hooks, sections, summaries and subagents; the real requests of the models
// are compared.

import { expect, test } from "vitest";

import { EspalierError } from "../../../src/kernel/error.ts";
import { transform } from "../../../src/hooks/hook.ts";
import type { ModelRequest } from "../../../src/model/model.ts";
import { rebuildRecordedRequest } from "../../support/journal/rebuild-recorded-request.ts";
import { AgentIdSchema } from "../../../src/protocol/ids.ts";
import { proves } from "../../harness/proves.ts";
import type { Build } from "../../fixtures/journals/fakes.ts";
import { recorded } from "../../fixtures/journals/play.ts";
import { inTurn, lead, worker } from "../../fixtures/journals/roles.ts";
import { spawnCall } from "../../support/journal/thinkers.ts";

function watched(asked: ModelRequest[]): Build {
  return (fakes) => {
    const think = inTurn(
      [["look", { thing: "a long thing ".repeat(30) }]],
      [spawnCall("worker", "a")],
    );
    return {
      role: lead(
        fakes,
        (sight) => {
          asked.push(sight.request);
          return think(sight);
        },
        {
          tools: [fakes.tool("look")],
          temperature: 0.7,
          sections: [
            { name: "place", lifetime: "step", text: ({ stepNumber }) => `Step ${stepNumber}.` },
          ],
          hooks: [
            transform("beforeModel", ({ instructions }) => ({ instructions: `${instructions}!` })),
          ],
          subagents: [worker(fakes)],
        },
      ),
    };
  };
}

proves(["R173"], "rebuilds the request of every step from the journal alone", async () => {
  const asked: ModelRequest[] = [];
  const { recording } = await recorded(watched(asked));
  expect(asked).toHaveLength(3);
  for (const [index, request] of asked.entries()) {
    const rebuilt = await rebuildRecordedRequest(recording, { stepNumber: index + 1 });
    expect(rebuilt.request).toEqual(request);
  }
  const below = await rebuildRecordedRequest(recording, {
    stepNumber: 2,
    agentId: AgentIdSchema().parse("agent_2"),
  });
  expect(below.request.messages.map(({ role }) => role)).toEqual([
    "system",
    "user",
    "assistant",
    "tool",
  ]);
});

test("rebuilds requests of a run whose process died, and refuses missing steps and invalid journals", async () => {
  const asked: ModelRequest[] = [];
  const { recording } = await recorded(watched(asked));
  const lines = recording.split("\n");
  const opened = [...lines.keys()].filter((at) => lines[at]?.includes(`"phase":"open"`) === true);
  const [, second = 0] = opened;
  const early = lines.slice(0, second + 1).join("\n");
  const rebuilt = await rebuildRecordedRequest(early, { stepNumber: 2 });
  expect(rebuilt.request).toEqual(asked[1]);
  expect([
    await codeOf(rebuildRecordedRequest(early, { stepNumber: 3 })),
    await codeOf(rebuildRecordedRequest("", { stepNumber: 1 })),
    await codeOf(rebuildRecordedRequest("Once.", { stepNumber: 1 })),
    await codeOf(rebuildRecordedRequest(lines.slice(1).join("\n"), { stepNumber: 1 })),
  ]).toEqual(["invalid_argument", "invalid_journal", "invalid_journal", "invalid_journal"]);
});

async function codeOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => "done",
    (cause: unknown) => (EspalierError.is(cause) ? cause.code : String(cause)),
  );
}
