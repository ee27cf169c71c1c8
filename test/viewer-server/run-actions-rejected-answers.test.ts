// Goal: a rejected answer reopens its question with the reason.
// Method: answers that match the schema but not the tool's rules.

import { expect } from "vitest";
import { z } from "zod";

import type { AgentRole } from "../../src/agent/agent-role.ts";
import { defineAgent } from "../../src/agent/define-agent.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import type { QuestionRow } from "../../src/read-model/viewer-data.ts";
import { thinker } from "../support/journal/thinkers.ts";
import { runId } from "../support/engine/engine-world.ts";
import { proves } from "../harness/proves.ts";
import { act, askApi, openFeed } from "../support/viewer-server/asking.ts";
import { asker, viewerWorld } from "../support/viewer-server/viewer-world.ts";

const ID = runId("buy");
/** Matches the schema that the model sees, but violates a rule of the tool. */
const MISFIT = { thing: "stone" };

function grocer(): AgentRole {
  const input = z.object({ thing: z.string().refine((thing) => thing !== "stone", "a fruit") });
  const model = thinker("asker", ({ results }) =>
    results.length === 0 ? { calls: [["pay", { thing: "pear" }]] } : { text: results.join(" ") },
  );
  return defineAgent({
    name: "asker",
    description: "Asks.",
    instructions: "You ask.",
    model,
    tools: [
      defineTool({
        name: "pay",
        description: "Pays.",
        inputSchema: input,
        needsApproval: true,
        execute: () => "paid",
      }),
    ],
  });
}
const WHY = /do not fit.*thing/s;

proves(
  ["V150"],
  "tells followers of a run that its question is open again, and why unless content is off",
  async () => {
    for (const content of [true, false]) {
      const { place, process, clock } = await viewerWorld({ content });
      const role = grocer();
      const { questions } = await process({ roles: [role] }).start(role, "Buy.", { runId: ID })
        .result;
      const [question] = questions;
      if (question === undefined) throw new Error("It asks.");
      const { questionId, argumentsHash } = question;
      const answer = { type: "approved", questionId, argumentsHash, arguments: MISFIT };
      const feed = await openFeed(place, ID);
      const shown = async (isWanted: (all: readonly QuestionRow[]) => boolean) => {
        for (;;) {
          const read = await feed.next();
          if (read?.entry.type !== "patch") throw new Error(`Got ${read?.entry.type}.`);
          const { questions: open } = read.entry.patch;
          if (open !== undefined && isWanted(open)) return open;
        }
      };
      await shown((open) => open.length === 1);
      await act(place, ID, { key: "1", type: "answer", answers: [answer] });
      clock.advance(100);
      await shown((open) => open.length === 0);
      const result = await (await process({ roles: [role] }).resume(ID)).result;
      expect(result.status).toBe("paused");
      clock.advance(100);
      const [again] = await shown((open) => open.length === 1);
      const expected: unknown = content ? expect.stringMatching(WHY) : "";
      expect(again).toMatchObject({ questionId, rejectedAnswer: { number: 1, problem: expected } });
      expect((await askApi(place, "questions")).body).toMatchObject({
        questions: [{ questionId, rejectedAnswer: { number: 1, problem: expected } }],
      });
    }
  },
);

proves(
  ["D531"],
  "refuses invalid arguments with 409 and accepts corrected ones; names no values with content off",
  async () => {
    for (const content of [true, false]) {
      const { place, process, store } = await viewerWorld({ content });
      const { questions } = await process({ roles: [] }).start(asker(["pear"]), "Buy.", {
        runId: ID,
      }).result;
      const [question] = questions;
      if (question === undefined) throw new Error("It asks.");
      const { questionId, argumentsHash } = question;
      const answer = { type: "approved", questionId, argumentsHash };
      const given = async (input: object) =>
        await act(place, ID, {
          key: "1",
          type: "answer",
          answers: [{ ...answer, arguments: input }],
        });
      const refused = await given({ thing: [1], pear: 1 });
      expect([refused.status, refused.body]).toEqual([
        409,
        {
          code: "invalid_answer",
          message: content
            ? `Expected the arguments of the answer to ${questionId} to fit pay, got others: thing: expected text, got [1]. Correct them and answer again.`
            : "The arguments do not fit the tool in: thing. Correct them and answer again.",
        },
      ]);
      expect(await store.readMail(ID)).toEqual([]);
      expect((await given({ thing: "plum" })).status).toBe(202);
      expect((await store.readMail(ID)).length).toBe(1);
    }
  },
);
