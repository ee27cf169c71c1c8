// Killed at every append, in both ways, a run whose model is a fallback ends as if it had not been killed, and replays to the same.

import { z } from "zod";

import { defineAgent } from "../../src/agent/define-agent.ts";
import { ModelError } from "../../src/model/model-error.ts";
import type { Model } from "../../src/model/model.ts";
import { withFallback } from "../../src/model/with-fallback.ts";
import { defineTool } from "../../src/tools/define-tool.ts";
import { proves } from "../harness/proves.ts";
import { killedEverywhere, type Play } from "./crash-play.ts";
import { thinker } from "./thinkers.ts";

/** A model that is down; at the first request it had begun to answer. */
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

proves(["M68"], "D2: a model that is down, and the one that takes its place", async () => {
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
});
