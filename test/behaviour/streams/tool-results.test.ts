// Goal: a listener receives for each call the result that the model will read, once, however the
// call got its result.
// Method: scripted agents; the results of live and late readers are compared with the records of
// the steps.

import { expect } from "vitest";

import type { Run } from "../../../src/orchestrator/run/run.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import type { StreamPart } from "../../../src/protocol/stream-part.ts";
import { says } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { soloist, type Soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { allOf } from "../../support/all-of.ts";
import { calls, use } from "../../harness/scripted-agents.ts";

const LONG = "abcdefghijklmnopqrstuvwxy";
const CUT = "abcdefghij\n[Shortened: 10 of 25 characters are shown. Ask for a smaller part.]";

const longTool = (name: string) =>
  spyTool(name, () => LONG, { maxResultCharacters: 10, longResultPolicy: "summarize" });

function resultsIn(pieces: readonly StreamPart[]): readonly unknown[] {
  return pieces.flatMap((piece) =>
    piece.type === "result" ? [[piece.toolName, piece.text, piece.isError]] : [],
  );
}

/**
 * Returns the result of a run, and the streamed results of its calls: live, and of a reader after
 * the end.
 */
async function heardOf(
  { role }: Soloist,
  within: (run: Run) => void = () => undefined,
): Promise<{ result: RunResult; live: readonly unknown[]; late: readonly unknown[] }> {
  const fixture = newFixture({ store: memoryStore() });
  const pieces: StreamPart[] = [];
  const run = fixture.start(role, "Do it.", { onStreamPart: (piece) => void pieces.push(piece) });
  within(run);
  const result = await fixture.outcome(run);
  return { result, live: resultsIn(pieces), late: resultsIn(await allOf(run.stream())) };
}

function recorded(result: RunResult): readonly unknown[] {
  return result.steps.flatMap(({ tools }) =>
    tools.executions.map(({ call, text, type }) => [call.toolName, text, type !== "succeeded"]),
  );
}

proves(["D302"], "a summarised result is streamed as its summary", async () => {
  const agent = soloist(
    [calls(use("read"), use("list"), use("work")), says("Short."), says(" "), says("Done.")],
    { tools: [longTool("read"), longTool("list"), spyTool("work")] },
  );
  const { result, live, late } = await heardOf(agent);
  const summary = "[Summary of a result of 25 characters]\nShort.";
  const expected = [
    ["read", summary, false],
    ["list", CUT, false], // Its summary failed.
    ["work", "work done", false],
  ];
  expect([recorded(result), late]).toEqual([expected, expected]);
  expect(live).toEqual([expected[2], expected[0], expected[1]]);
});

proves(
  ["D302"],
  "a call that never began because its agent was cancelled has a result",
  async () => {
    let cancel = (): unknown => undefined;
    const agent = soloist([calls(use("end"), use("work"))], {
      tools: [spyTool("end", () => void cancel(), { sequential: true }), spyTool("work")],
    });
    const { result, live, late } = await heardOf(agent, (run) => (cancel = () => run.cancel()));
    expect(result.status).toBe("cancelled");
    expect(live).toEqual(recorded(result));
    expect(late).toEqual(live);
    expect(live[1]).toEqual([
      "work",
      "Not executed: the agent stopped before this call (cancelled).",
      true,
    ]);
  },
);
