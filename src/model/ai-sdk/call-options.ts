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
import { callIdFormOf } from "../sent-call-id.ts";
import { wellFormed } from "../well-formed.ts";
import type { AskedOptions } from "./output-cap.ts";
import { toPrompt } from "./prompt.ts";
import { isFetched, seesResults, takesBlanks, type FetchedAddresses } from "./taken-content.ts";
import { providerOptionsFor } from "./provider-options.ts";

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
export interface CallFacts {
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
