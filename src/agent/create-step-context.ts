// Creates the context of a step for its record.

import { omitUndefined } from "../kernel/json.ts";
import type { Model, ModelRequest, OutputSchema } from "../model/model.ts";
import { getOrCompute } from "../model/memoized-values.ts";
import { countHeadMessages } from "../policies/message-groups.ts";
import { asFallback } from "../model/fallback.ts";
import { toHistory, toReplayKey } from "../model/recipient-messages.ts";
import { hashText } from "../protocol/definition.ts";
import type { Message } from "../protocol/message.ts";
import type { StepContext } from "../protocol/step-context.ts";
import type { AgentRuntime } from "./agent-runtime.ts";
import { isRetryAfterOverflow, type AgentState } from "./agent-state.ts";
import type { Lease, Remaining } from "../budget/lease.ts";
import type { RunDefinitions } from "../run-services/run-definitions.ts";
import { cacheShownMessages, findParts } from "./shown-messages.ts";

/**
 * Returns the context of the step that opens with this call. Texts are stored in the run's table,
 * and the context contains their hashes.
 */
export function createStepContext(
  agent: AgentRuntime,
  state: AgentState,
  { request, lease }: { readonly request: ModelRequest; readonly lease: Lease },
): StepContext {
  const { account } = agent;
  const { definitions } = agent.run;
  const { messages, output } = request;
  const tools = definitions.defineTools(request.tools);
  const last = state.log.steps.at(-1)?.context;
  const { messages: stored } = state.conversation;
  const shown =
    messages === stored
      ? undefined
      : findParts(definitions, state, { history: toHistory(stored, agent.model), shown: messages });
  const context: StepContext = {
    number: state.log.steps.length + 1,
    model: readModelNames(agent.model),
    toolNames: tools.names,
    promptHash: definePrompt(definitions, messages),
    toolsHash: tools.hash,
    ...(output === undefined
      ? {}
      : { outputHash: definitions.define(getOrCompute(outputTexts, output, JSON.stringify)) }),
    budget: computeRemainingAtStep(state, account.remainingWith(lease)),
    parameters: pickRequestParameters(request),
    ...(shown === undefined ? {} : { shown }),
  };
  if (shown !== undefined || last?.shown !== undefined) cacheShownMessages(context, messages, last);
  return context;
}

const outputTexts = new WeakMap<OutputSchema, string>();

/** Returns the parameters of a request that affect the reply. */
export function pickRequestParameters(request: ModelRequest): StepContext["parameters"] {
  const { maxOutputTokens, temperature, settings, toolChoice } = request;
  return { maxOutputTokens, ...omitUndefined({ temperature, settings, toolChoice }) };
}

/**
 * Returns the budget at the start of the open step, or of the next one. A step that is repeated
 * after an overflow is already counted.
 */
export function computeRemainingAtStep(state: AgentState, remaining: Remaining): Remaining {
  const { steps } = remaining;
  return steps === undefined || !isRetryAfterOverflow(state)
    ? remaining
    : { ...remaining, steps: steps + 1 };
}

const names = new WeakMap<Model, StepContext["model"]>();

/** Returns the names of a model, as one shared value per model. */
function readModelNames(model: Model): StepContext["model"] {
  const known = names.get(model);
  if (known !== undefined) return known;
  const { provider, id, replayKey, inputModalities = [] } = model;
  // Only a fallback has the keys of several models.
  const replayKeys = "replayKeys" in model ? asFallback(model)?.models.map(toReplayKey) : undefined;
  const named = Object.freeze({
    provider,
    id,
    ...omitUndefined({ replayKey, replayKeys }),
    ...(inputModalities.length === 0
      ? {}
      : { inputModalities: Object.freeze([...inputModalities]) }),
  });
  names.set(model, named);
  return named;
}

const promptHashes = new WeakMap<Message, string>();

/** Stores the instructions of the request and returns their hash. */
function definePrompt(definitions: RunDefinitions, messages: ModelRequest["messages"]): string {
  const [first, second] = messages;
  if (first?.role !== "system" || second?.role === "system")
    return definitions.define(joinInstructions(messages));
  return definitions.define(
    first.text,
    getOrCompute(promptHashes, first, ({ text }) => hashText(text)),
  );
}

/** Returns the instructions of a request with no or several system messages. */
function joinInstructions(messages: ModelRequest["messages"]): string {
  const head: readonly Message[] = messages.slice(0, countHeadMessages(messages));
  return head.map(({ text }) => text).join("\n\n");
}
