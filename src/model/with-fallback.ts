// withFallback(): several models as one. generateWithRetries finds them with `asFallback`, calls
// them, and counts the cost of each.

import { checkAmount, checkList, adviseDefault, mismatch } from "../kernel/argument-checks.ts";
import { systemClock } from "../kernel/clock.ts";
import { omitUndefined } from "../kernel/json.ts";
import { checkModel } from "./check-model.ts";
import { checkOptions, mustBeFunction, type OptionChecks } from "./check-options.ts";
import { estimateRequest } from "./count-tokens.ts";
import {
  DEFAULT_COOLDOWN_MS,
  Fallback,
  asFallback,
  narrowRequest,
  type FallbackOptions,
} from "./fallback.ts";
import type { Model, ModelRequest } from "./model.ts";
import { generateWithRetries, type RetryOptions } from "./retry.ts";
import { addComputedFields } from "./memoized-values.ts";
import { toReplayKey } from "./recipient-messages.ts";

const CHECKS: OptionChecks<FallbackOptions> = {
  shouldFallback: mustBeFunction(
    "a function of an error",
    "Leave it out for transient failures and rejected keys.",
  ),
  cooldownMs: (field, value) => checkAmount(field, value, adviseDefault(DEFAULT_COOLDOWN_MS)),
};

/**
 * Creates a model that calls the first of `models`, and the next one if a call fails. The next
 * model is called in order, within the same attempt and without a wait.
 *
 * A failed model is skipped for `cooldownMs`, in all runs of the process. While tool calls of a
 * reply are open, the model that wrote the reply is called first.
 *
 * Each model reads its own reasoning only, keeps its own `limits`, and is charged at its own price.
 * A budget reservation uses the highest of the prices, rate by rate. It is unknown if one of them
 * is. `repliedBy` of the event `model.replied` and `usage.byModel` name the model that answered.
 *
 * @throws EspalierError `invalid_argument` if there are fewer than two models, if two have the
 * same `replayKey` (by default `provider/id`), or if one is a fallback itself.
 * @throws EspalierError `invalid_argument` if an option is invalid.
 *
 * @example
 * ```ts
 * const model = withFallback([openai("gpt-5.6"), openai("gpt-5.6-mini")], { cooldownMs: 30_000 });
 * const assistant = defineAgent({ name: "assistant", instructions: "Answer briefly.", model });
 * ```
 */
export function withFallback(
  models: readonly [Model, Model, ...Model[]],
  options: FallbackOptions = {},
): Model {
  checkModels(models);
  checkOptions("withFallback", options, CHECKS);
  const [first] = models;
  const all: readonly Model[] = Object.freeze([...models]);
  const { shouldFallback, cooldownMs } = options;
  const fallback = new Fallback(all, omitUndefined({ shouldFallback, cooldownMs }));
  // Counts the longest of the requests, if all of the models count.
  const countTokens = all.some((member) => member.countTokens === undefined)
    ? undefined
    : (request: ModelRequest): number =>
        Math.max(...all.map((member) => member.countTokens?.(narrowRequest(request, member)) ?? 0));
  const fields = {
    id: first.id,
    ...omitUndefined({ countTokens }),
    checkSettings: (settings) => all.forEach((member) => member.checkSettings?.(settings)),
    assertReady: () => all.forEach((member) => member.assertReady?.()),
    // For callers other than a run. A run uses `asFallback`.
    generate: async (request, { signal, onDelta, cacheKey }) => {
      const options: RetryOptions = {
        signal,
        clock: systemClock,
        policy: { maxAttempts: 1 },
        inputTokens: countTokens?.(request) ?? estimateRequest(request),
        ...omitUndefined({ onDelta, cacheKey }),
        onRetry: () => onDelta?.({ type: "reset", reason: "fallback" }),
      };
      const outcome = await generateWithRetries(model, request, options);
      if (outcome.type === "replied") return outcome.reply;
      if ("error" in outcome) throw outcome.error;
      throw signal.reason;
    },
  } satisfies Omit<Model, "provider">;
  const model: Model = addComputedFields(fields, {
    provider: () => first.provider,
    server: () => first.server,
    apiType: () => first.apiType,
    serviceTier: () => first.serviceTier,
    // For replies of an unknown writer. Matches the key of no model.
    replayKey: () => all.map(toReplayKey).join(" or "),
    replayKeys: () => all.map(toReplayKey),
    supportsStructuredOutputs: () =>
      all.every((member) => member.supportsStructuredOutputs === true),
    supportsToolChoice: () => all.every((member) => member.supportsToolChoice === true),
    // Requests to each model omit the attachments that only others accept.
    inputModalities: () => [...new Set(all.flatMap(({ inputModalities = [] }) => inputModalities))],
    minOutputTokens: () => Math.max(...all.map(({ minOutputTokens = 1 }) => minOutputTokens)),
  });
  return fallback.register(Object.freeze(model));
}

function checkModels(models: readonly Model[]): void {
  const field = "withFallback.models";
  checkList(field, models);
  if (models.length < 2)
    throw mismatch(
      field,
      "at least two models",
      models.length,
      "Use a single model without withFallback.",
    );
  const keys = new Set<string>();
  for (const [index, model] of models.entries()) {
    const place = `${field}[${index}]`;
    checkModel(place, model);
    if (asFallback(model) !== undefined) {
      const advice = "Put all models into one list.";
      throw mismatch(place, "a model that is not itself a fallback", model.id, advice);
    }
    const key = toReplayKey(model);
    if (keys.has(key)) {
      const advice =
        "Set a distinct id for each model, or a distinct replayKey for each deployment of one model.";
      throw mismatch(place, "another model than those before it", key, advice);
    }
    keys.add(key);
  }
}
