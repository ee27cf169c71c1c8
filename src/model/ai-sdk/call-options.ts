// Our request as the call options of the AI SDK, but for its cap.

import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4FunctionTool,
  LanguageModelV4ToolChoice,
  SharedV4ProviderOptions,
} from "@ai-sdk/provider";

import type { Clock } from "../../kernel/clock.ts";
import { defined } from "../../kernel/json.ts";
import type { AttachmentKind } from "../../protocol/attachment.ts";
import type { ModelSettings, ToolChoice } from "../../protocol/model-settings.ts";
import type { CacheKey, ModelRequest, OutputSchema, ToolSpec } from "../model.ts";
import { heldTools, type HeldTool } from "../held-tools.ts";
import { callIdFormOf, wellFormed } from "../well-formed.ts";
import { toPrompt } from "./prompt.ts";
import {
  isFetched,
  seesResults,
  takesBlanks,
  type FetchedAddresses,
  providerOptionsFor,
} from "./ai-sdk-providers.ts";
import { fieldsOf, parseWireJson, type Fields } from "../wire-json.ts";

/** What of a model holds for all its calls. */
export interface CallSettings {
  readonly model: LanguageModelV4;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly replayKey: string;
  /** What the model takes besides text. */
  readonly accepts?: readonly AttachmentKind[];
  readonly reasoning?: LanguageModelV4CallOptions["reasoning"];
  readonly providerOptions?: SharedV4ProviderOptions;
  readonly headers?: Readonly<Record<string, string>>;
}

type Options = Omit<AskedOptions, "abortSignal">;

/** What is known besides of one call. */
interface CallFacts {
  readonly cacheKey: CacheKey | undefined;
  readonly fetched: FetchedAddresses;
}

/** The options, and what of the request they cannot say. */
export function callOptions(
  request: ModelRequest,
  settings: CallSettings,
  { cacheKey, fetched }: CallFacts,
): { readonly options: Options; readonly warnings: readonly string[] } {
  const { tools, toolChoice, temperature, settings: said = {}, output } = request;
  const { headers } = settings;
  const reasoning = said.reasoning?.effort ?? settings.reasoning;
  const providerOptions = providerOptionsFor(settings.model.provider, {
    given: settings.providerOptions ?? {},
    reasoning,
    maxOutputTokens: request.maxOutputTokens,
    cacheKey,
    output,
  });
  const prompt = toPrompt(request.messages, {
    replayKey: settings.replayKey,
    accepts: settings.accepts,
    seesResults: seesResults(settings.model.provider),
    takesBlanks: takesBlanks(settings.model.provider),
    callIdForm: callIdFormOf(settings.model.provider),
    fetches: (mediaType, address) => isFetched(fetched, mediaType, address),
  });
  const options = {
    prompt: wellFormed(prompt),
    ...(tools.length === 0 ? {} : toolOptions(tools, toolChoice)),
    ...defined({
      temperature,
      topP: said.topP,
      seed: said.seed,
      stopSequences: said.stop?.slice(),
      reasoning,
      responseFormat: output && responseFormatOf(output),
      headers: headers && { ...headers },
    }),
    ...(Object.keys(providerOptions).length === 0 ? {} : { providerOptions }),
  };
  return { options, warnings: unsaid(said) };
}

function responseFormatOf({ name, schema }: OutputSchema): Options["responseFormat"] {
  return { type: "json", name, schema };
}

/** What the AI SDK has no word for. */
function unsaid({ reasoning, verbosity, parallelToolCalls }: ModelSettings): readonly string[] {
  const settings = { "reasoning.summary": reasoning?.summary, verbosity, parallelToolCalls };
  return Object.keys(defined(settings)).map(
    (name) =>
      `The setting ${name} is not passed on: say it in providerOptions, as the provider has it.`,
  );
}

/** One of several is one of those that are there: the AI SDK has no other word for it. */
function toolOptions(
  specs: readonly ToolSpec[],
  choice: ToolChoice | undefined,
): Pick<Options, "tools" | "toolChoice"> {
  const isChosen = (name: string): boolean =>
    typeof choice !== "object" || !("oneOf" in choice) || choice.oneOf.includes(name);
  const chosen = [...heldTools(specs, false).values()].filter(({ spec }) => isChosen(spec.name));
  return {
    tools: wellFormed(chosen.map(toTool)),
    ...defined({ toolChoice: choice && toToolChoice(choice) }),
  };
}

function toTool({ spec, strict }: HeldTool): LanguageModelV4FunctionTool {
  const { name, description, inputSchema } = spec;
  const descriptor = { type: "function", name, description } as const;
  return strict === undefined
    ? { ...descriptor, inputSchema }
    : { ...descriptor, inputSchema: strict, strict: true };
}

function toToolChoice(choice: ToolChoice): LanguageModelV4ToolChoice {
  if (typeof choice === "string") return { type: choice };
  return "tool" in choice ? { type: "tool", toolName: choice.tool } : { type: "required" };
}

// OutputCap: a cap on output tokens that holds, whatever a provider makes of it.
// Owns what was learnt of one model. A lease of the budget is as large as the cap: a provider that asks for more would overdraw it.
// C1. A budget for reasoning is within the cap: `@ai-sdk/anthropic` adds the budget to the cap that it is given.

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
