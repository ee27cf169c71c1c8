// Checks a model that the user passes.

import {
  checkBoolean,
  checkFunction,
  checkCount,
  checkKeys,
  checkText,
  adviseDefault,
  mismatch,
} from "../kernel/argument-checks.ts";
import { EspalierError, getErrorMessage } from "../kernel/error.ts";
import { checkAccepts } from "./check-options.ts";
import type { Model } from "./model.ts";
import { checkModelLimits } from "./model-limits.ts";
import { checkPriceOption } from "./model-price.ts";

/** Throws `invalid_argument` if a member of `model` is invalid or cannot be read. */
export function checkModel(field: string, model: Model): void {
  try {
    checkMembers(field, model);
  } catch (cause) {
    throw EspalierError.is(cause) ? cause : createUnreadableModelError(field, cause);
  }
}

/** Returns the error for a model of which a getter threw. */
export function createUnreadableModelError(field: string, cause: unknown): EspalierError {
  return new EspalierError({
    code: "invalid_argument",
    message: `Expected ${field} to have properties that can be read, but a property threw: ${getErrorMessage(cause)}. Correct the model's adapter.`,
    data: { field },
    cause,
  });
}

function checkMembers(field: string, model: Model): void {
  const fits = typeof model === "object" && model !== null && typeof model.generate === "function";
  if (!fits) throw mismatch(field, "a model", model, 'Use openai("…") or a model of your own.');
  checkText(`${field}.id`, model.id);
  checkText(`${field}.provider`, model.provider);
  for (const ability of ["countTokens", "assertReady", "checkSettings"] as const) {
    if (model[ability] !== undefined) checkFunction(`${field}.${ability}`, model[ability]);
  }
  if (model.price !== undefined) checkPriceOption(`${field}.price`, model.price);
  if (model.baseUrl !== undefined) checkText(`${field}.baseUrl`, model.baseUrl);
  if (model.replayKey !== undefined) checkText(`${field}.replayKey`, model.replayKey);
  if (model.minOutputTokens !== undefined)
    checkCount(`${field}.minOutputTokens`, model.minOutputTokens, adviseDefault(1));
  if (model.inputModalities !== undefined)
    checkAccepts(`${field}.inputModalities`, model.inputModalities);
  if (model.limits !== undefined) checkModelLimits(`${field}.limits`, model.limits);
  for (const ability of ["supportsStructuredOutputs", "supportsToolChoice"] as const)
    checkBoolean(`${field}.${ability}`, model[ability] ?? false);
  if (model.server !== undefined) {
    checkKeys(`${field}.server`, model.server, ["address", "port"]);
    const { address, port = 1 } = model.server;
    checkText(`${field}.server.address`, address);
    checkCount(`${field}.server.port`, port, "Leave it out if it is unknown.");
  }
  if (model.serviceTier !== undefined) checkText(`${field}.serviceTier`, model.serviceTier);
  const { apiType = "responses" } = model;
  if (apiType !== "responses" && apiType !== "chat_completions") {
    const advice = "Leave it out if it is neither.";
    throw mismatch(`${field}.apiType`, "responses or chat_completions", apiType, advice);
  }
}
