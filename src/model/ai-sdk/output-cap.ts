// OutputCap: a cap on output tokens that holds, whatever a provider makes of it.
// Owns what was learnt of one model. A lease of the budget is as large as the cap: a provider that asks for more would overdraw it.
// C1. A budget for reasoning is within the cap: `@ai-sdk/anthropic` adds the budget to the cap that it is given.

import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";

import { fieldsOf, parseWireJson, type Fields } from "../wire-json.ts";

/** The options of a request before its cap is known. */
export type AskedOptions = Omit<LanguageModelV4CallOptions, "maxOutputTokens" | "abortSignal"> & {
  readonly abortSignal: AbortSignal;
};

interface CappedOptions {
  readonly options: AskedOptions & { readonly maxOutputTokens: number };
  readonly warnings: readonly string[];
  /** The request says how much may go into reasoning: what it adds to the cap is beyond us. */
  readonly isBudgeted: boolean;
}

/** The least that Anthropic takes as a budget; and what is left for the answer at least. */
const LEAST_BUDGET_TOKENS = 1_024;
const LEAST_ANSWER_TOKENS = 1_024;
/** Of the cap, where the provider's own budget was too large. */
const SHARE_OF_REASONING = 1 / 2;

export class OutputCap {
  /** The levels of reasoning for which the provider has added a budget of its own. */
  readonly #budgeted = new Set<unknown>();

  /** The options with a cap, and with a budget for reasoning only if it is within that (C1). */
  within(asked: AskedOptions, cap: number): CappedOptions {
    const learnt = this.#budgeted.has(asked.reasoning) ? cap * SHARE_OF_REASONING : undefined;
    const requested = givenBudget(asked.providerOptions) ?? learnt;
    if (requested === undefined)
      return { options: { ...asked, maxOutputTokens: cap }, warnings: [], isBudgeted: false };
    const budgetTokens = Math.min(Math.floor(requested), cap - LEAST_ANSWER_TOKENS);
    const hasRoom = budgetTokens >= LEAST_BUDGET_TOKENS;
    const thinking = hasRoom ? { type: "enabled", budgetTokens } : { type: "disabled" };
    const { providerOptions = {} } = asked;
    const anthropic = { ...providerOptions["anthropic"], thinking };
    const options = {
      ...asked,
      providerOptions: { ...providerOptions, anthropic },
      maxOutputTokens: hasRoom ? cap - budgetTokens : cap,
    };
    const warning = `A cap of ${cap} output tokens leaves no room for reasoning: asked without.`;
    return { options, warnings: hasRoom ? [] : [warning], isBudgeted: true };
  }

  /** Takes note that a request without a budget went out with too high a cap. False: nothing is known that would lower it. */
  learn({ reasoning }: AskedOptions, body: unknown): boolean {
    if (fieldsOf(fieldsOfBody(body)["thinking"])["budget_tokens"] === undefined) return false;
    this.#budgeted.add(reasoning);
    return true;
  }
}

/** The cap that a provider has sent, under whatever name; 0: unknown, or none. */
export function sentCap(body: unknown): number {
  const fields = fieldsOfBody(body);
  const { generationConfig, inferenceConfig, options } = fields;
  const caps = [
    fields["max_tokens"],
    fields["max_completion_tokens"],
    fields["max_output_tokens"],
    fieldsOf(generationConfig)["maxOutputTokens"],
    fieldsOf(inferenceConfig)["maxTokens"],
    fieldsOf(options)["num_predict"],
  ];
  return Math.max(0, ...caps.filter((cap) => typeof cap === "number"));
}

function givenBudget(options: LanguageModelV4CallOptions["providerOptions"]): number | undefined {
  const thinking = fieldsOf(options?.["anthropic"]?.["thinking"]);
  if (thinking["type"] !== "enabled") return undefined;
  const { budgetTokens } = thinking;
  return typeof budgetTokens === "number" ? budgetTokens : LEAST_BUDGET_TOKENS;
}

/** Some providers give the body as an object, some as text. */
function fieldsOfBody(body: unknown): Fields {
  return fieldsOf(typeof body === "string" ? parseWireJson(body) : body);
}
