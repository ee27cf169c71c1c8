// The agents of compaction tests: an agent whose history outgrows its window, and a model that
// counts characters.

import type { AgentDefinition } from "../../../src/agent/define-agent.ts";
import type { Compaction } from "../../../src/agent/compaction.ts";
import type { ModelRequest } from "../../../src/model/model.ts";
import {
  asks,
  says,
  type ScriptedReply,
  type ScriptStep,
} from "../../../src/testing/scripted-model.ts";
import { soloist, type Soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 10 };
export const WINDOW = 1_000;
export const LONG = "x".repeat(350);
const ASKED = "Summarize the older part";

/** Counts one token for each character of text. */
export function characters({ messages }: ModelRequest): number {
  return messages.reduce((sum, { text }) => sum + text.length, 0);
}

export const isSummaryRequest = ({ messages }: ModelRequest): boolean =>
  messages[0]?.text.startsWith(ASKED) === true;

/**
 * Creates an agent that works three times, each with a long result, and answers. A request for a
 * summary gets `summary`.
 */
export function worker(
  compaction: Compaction,
  summary: ScriptedReply = says("Two results were read."),
  more: Partial<Omit<AgentDefinition, "model">> = {},
): Soloist {
  const steps: ScriptStep[] = [asks("work", {}), asks("work", {}), asks("work", {}), says("Done.")];
  let index = 0;
  const script = (request: ModelRequest): ScriptedReply => {
    if (isSummaryRequest(request)) return summary;
    const step = steps[index];
    index += 1;
    return typeof step === "object" ? step : says("Done.");
  };
  const tools = [spyTool("work", () => LONG)];
  const options = { countTokens: characters, price: PRICE };
  return soloist(
    Array.from({ length: 9 }, () => script),
    { tools, compaction, ...more },
    options,
  );
}
