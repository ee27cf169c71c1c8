// A run with a fallback model, killed at every append before and after it, ends as if undisturbed,
// and its replay has the same result (D2).

import { z } from "zod";

import { defineAgent } from "../../../src/agent/define-agent.ts";
import { ModelError } from "../../../src/model/model-error.ts";
import type { Model } from "../../../src/model/model.ts";
import { withFallback } from "../../../src/model/with-fallback.ts";
import { defineTool } from "../../../src/tools/define-tool.ts";
import { proves } from "../../harness/proves.ts";
import { killedEverywhere, type Play } from "../../support/journal/crash-play.ts";
import { thinker } from "../../support/journal/thinkers.ts";

/** Returns a model that is unavailable; at the first request it had started to reply. */
function down(name: string): Model {
  const price = { inputUsdPerMillion: 3, outputUsdPerMillion: 3 };
  const message = "It is down.";
  return {
    provider: "test",
    id: name,
    price,
    generate: async ({ messages }) => {
      await Promise.resolve();
      const lost = messages.length < 3 ? { lostOutputTokens: 4 } : {};
      throw new ModelError({ code: "model_unavailable", message, ...lost });
    },
  };
}

const look = defineTool({
  name: "look",
  description: "Looks.",
  inputSchema: z.strictObject({}),
  execute: () => "Seen.",
});

proves(
  ["M68"],
  "recovers a run whose model is unavailable with the reply of its fallback",
  async () => {
    await killedEverywhere((): Play => {
      const spare = thinker("spare", ({ results }) =>
        results.length === 0
          ? { calls: [["look", {}]], reasoning: "Where is it?" }
          : { text: "I am done." },
      );
      const role = defineAgent({
        name: "lead",
        instructions: "You lead.",
        model: withFallback([down("main"), spare]),
        tools: [look],
      });
      return { role };
    });
  },
);
