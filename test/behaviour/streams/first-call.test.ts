// Tests whether the first call of a run streams if readers come after the start.

import { expect } from "vitest";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import type { Model } from "../../../src/model/model.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { toRunId } from "../../../src/orchestrator/run/run-options.ts";
import { buildReplyMessage } from "../../../src/protocol/reply-message.ts";
import { memoryStore } from "../../../src/store/memory-store.ts";
import { latch } from "../../../src/testing/latch.ts";
import { proves } from "../../harness/proves.ts";
import { allOf } from "../../support/all-of.ts";
import { thrownBy } from "../../support/thrown.ts";

proves(
  ["D243"],
  "the first call streams only with an `onStreamPart` of the orchestrator",
  async () => {
    for (const isHeard of [true, false]) {
      const begun = latch();
      const gate = latch();
      let isStreamed = false;
      const model: Model = {
        provider: "test",
        id: "speaker",
        price: { inputUsdPerMillion: 1, outputUsdPerMillion: 1 },
        generate: async (_request, { onDelta }) => {
          isStreamed = onDelta !== undefined;
          onDelta?.({ type: "text", text: "One, " });
          begun.open();
          await gate.opened;
          onDelta?.({ type: "text", text: "two." });
          const message = buildReplyMessage([{ type: "text", text: "One, two." }]);
          return { message, finishReason: "stop" };
        },
      };
      const role = defineAgent({ name: "speaker", instructions: "You speak.", model });
      const heard = isHeard ? { onStreamPart: () => undefined } : {};
      const run = new Orchestrator({ store: memoryStore(), ...heard }).start(role, "Go.");
      await run.whenPersisted(); // A service answers "accepted" after this.
      await begun.opened;
      const pieces = allOf(run.stream());
      gate.open();
      const said = (await pieces).map((piece) => ("text" in piece ? piece.text : piece.type));
      expect([isStreamed, said]).toEqual(
        isHeard ? [true, ["reset", "One, ", "two.", "end"]] : [false, ["One, two.", "end"]],
      );
    }
  },
);

proves(
  ["D244"],
  "`toRunId` turns a valid text into the id of a run, and rejects others",
  async () => {
    const store = memoryStore();
    const role = defineAgent({
      name: "speaker",
      instructions: "You speak.",
      model: {
        provider: "test",
        id: "speaker",
        price: { inputUsdPerMillion: 1, outputUsdPerMillion: 1 },
        generate: () =>
          Promise.resolve({
            message: buildReplyMessage([{ type: "text", text: "Yes." }]),
            finishReason: "stop",
          }),
      },
    });
    await new Orchestrator({ store }).start(role, "Go.", { runId: "order-1" }).result;
    expect(await store.find(toRunId("order-1"))).toMatchObject({ status: "ended" });
    for (const bad of ["", "..", "a\0b", "x".repeat(513)])
      expect(thrownBy(() => toRunId(bad)).code).toBe("invalid_argument");
  },
);
