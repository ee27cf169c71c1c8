// Goal: the arguments of a question are an object, so that an approval can change a part of them.

import { expect } from "vitest";
import { z } from "zod";

import { readPausedRun } from "../../../src/orchestrator/durability/paused-run.ts";
import { approve } from "../../../src/protocol/question.ts";
import { asks, says } from "../../../src/testing/scripted-model.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture } from "../../harness/run-scripted.ts";
import { receivedTexts } from "../../harness/scripted-agents.ts";
import { soloist } from "../../harness/soloist.ts";
import { questionOf } from "../../support/pause-stories.ts";

/** Returns an agent whose tool needs an approval, and the inputs with which the tool ran. */
function reader(inputSchema: z.ZodType, written: string | object) {
  const received: unknown[] = [];
  const read = defineTool({
    name: "read",
    description: "Reads.",
    inputSchema,
    needsApproval: true,
    execute: (input) => {
      received.push(input);
      return "read";
    },
  });
  const { role, model } = soloist([asks("read", written), says("done")], { tools: [read] });
  return { role, model, received };
}

proves(["D761"], "runs an approved call with a part of its arguments replaced", async () => {
  const inputSchema = z.object({ path: z.string(), lines: z.int() });
  const { role, received } = reader(inputSchema, { path: "a.txt", lines: 9 });
  const fixture = newFixture();
  const paused = await fixture.run(role);
  const question = questionOf(paused);
  const edited = approve(question, { arguments: { ...question.arguments, lines: 1 } });
  await fixture.outcome(fixture.resume(role, paused.pausedRun, [edited]));
  expect(received).toEqual([{ path: "a.txt", lines: 1 }]);
  expect(fixture.sink.ofType("question.answered").map((event) => event.arguments)).toEqual([
    { path: "a.txt", lines: 1 },
  ]);
});

proves(
  ["D761"],
  "shows the written arguments if the schema returns a text, and runs only the approved text",
  async () => {
    let suffix = "";
    const inputSchema = z
      .object({ path: z.string() })
      .transform(({ path }) => `/home/${path}${suffix}`);
    for (const after of ["", ".secret"]) {
      suffix = "";
      const { role, model, received } = reader(inputSchema, { path: "a.txt" });
      const fixture = newFixture();
      const paused = await fixture.run(role);
      const question = questionOf(paused);
      expect(question).toMatchObject({ arguments: { path: "a.txt" }, unparsed: true });
      expect(question).not.toHaveProperty("writtenArguments");
      suffix = after;
      const pausedRun = readPausedRun(JSON.stringify(paused.pausedRun));
      await fixture.outcome(fixture.resume(role, pausedRun, [approve(question)]));
      expect(received).toEqual(after === "" ? ["/home/a.txt"] : []);
      expect(receivedTexts(model.requests[1])).toEqual([
        after === "" ? "read" : expect.stringContaining("no longer the approved call"),
      ]);
    }
  },
);

proves(
  ["D761"],
  "rejects arguments that are not an object, also if the schema accepts them",
  async () => {
    const inputSchema = z.object({ path: z.string() }).catch({ path: "a.txt" });
    const { role, model, received } = reader(inputSchema, '"a.txt"');
    const { status } = await newFixture().run(role);
    expect([status, received]).toEqual(["completed", []]);
    expect(receivedTexts(model.requests[1])).toEqual([
      expect.stringContaining('expected an object, got "a.txt"'),
    ]);
  },
);
