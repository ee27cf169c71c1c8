// The limits of a provider, as a user sets them. Calls wait for them in limits-gate.ts.

import { misdefinition, mismatch } from "../kernel/check.ts";
import { defined } from "../kernel/json.ts";
import { checkOptions, mustBeWhole, type OptionChecks } from "./check-options.ts";
import { LimitsGate, type ModelLimitsOptions } from "./limits-gate.ts";

/** Limits that models share: one object for all models that the provider counts together. Made by {@link modelLimits}. */
export interface ModelLimits extends ModelLimitsOptions {
  /** What it is known by. */
  readonly kind: "model_limits";
}

const CHECKS: OptionChecks<ModelLimitsOptions> = {
  requestsPerMinute: mustBeWhole("Leave it out for no such limit."),
  inputTokensPerMinute: mustBeWhole("Leave it out for no such limit."),
  concurrent: mustBeWhole("Leave it out for no such limit."),
};

const gates = new WeakMap<object, LimitsGate>();

/**
 * What a provider takes, as the option `limits` of `openai()` and `aiSdkModel()`, or of a model of your own. One object holds for all models,
 * runs and orchestrators of this process that are given it: first come, first served; other processes are not known. A call waits before
 * it has a slot in its run, which is `queuedMs`, and stops waiting when its agent is to end. A reply of the provider that says when to try
 * again (`Retry-After`) holds up all of them for that long.
 *
 * @throws EspalierError `invalid_option`.
 */
export function modelLimits(options: ModelLimitsOptions): ModelLimits {
  checkOptions("modelLimits", options, CHECKS);
  const { requestsPerMinute, inputTokensPerMinute, concurrent } = options;
  const given = defined({ requestsPerMinute, inputTokensPerMinute, concurrent });
  if (Object.keys(given).length === 0) {
    const advice = "Say at least one; without any limit, leave limits out.";
    throw mismatch("modelLimits", "given a limit", "none", advice);
  }
  const limits = Object.freeze({ kind: "model_limits", ...given } as const);
  gates.set(limits, new LimitsGate(given));
  return limits;
}

/** Throws `invalid_definition` for what `modelLimits` did not make. */
export function checkModelLimits(field: string, limits: unknown): void {
  findLimitsGate(field, limits);
}

/** Returns the gate of these limits. Throws as `checkModelLimits`. */
export function findLimitsGate(field: string, limits: unknown): LimitsGate {
  const isObject = typeof limits === "object" && limits !== null;
  const gate = isObject ? gates.get(limits) : undefined;
  if (gate !== undefined) return gate;
  const advice = "Make it once, with modelLimits({ … }), for all that share it.";
  throw misdefinition(field, "what modelLimits() gives", limits, advice);
}
