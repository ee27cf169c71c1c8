// An answer that comes to nothing: its question is shown again, with why.

import { expect } from "vitest";

import type { QuestionRow } from "../../src/view/viewer-data.ts";
import { runId } from "../engine/engine-world.ts";
import { proves } from "../harness/proves.ts";
import { act, askApi, openFeed } from "./asking.ts";
import { asker, viewerWorld } from "./viewer-world.ts";

const ID = runId("buy");
const MISFIT = { pear: 1 };
const WHY = /do not fit.*thing/s;

proves(
  ["V150"],
  "who follows a run is told that its question is open again, and why; content off: that alone",
  async () => {
    for (const content of [true, false]) {
      const { place, process, clock } = await viewerWorld({ content });
      const role = asker(["pear"]);
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
      const result = await (await process({ roles: [role] }).recover(ID)).result;
      expect(result.status).toBe("paused");
      clock.advance(100);
      const [again] = await shown((open) => open.length === 1);
      const expected: unknown = content ? expect.stringMatching(WHY) : "";
      expect(again).toMatchObject({ questionId, vainAnswer: { number: 1, problem: expected } });
      expect((await askApi(place, "questions")).body).toMatchObject({
        questions: [{ questionId, vainAnswer: { number: 1, problem: expected } }],
      });
    }
  },
);
