// What one logical model call consumed. What no provider reported is charged by estimate: forgotten tokens are overspent ones.

import { estimateTokens } from "../model/count-tokens.ts";
import type { Model, ModelReply } from "../model/model.ts";
import type { TokenUsage } from "../model/token-usage.ts";
import { costMicroUsd } from "../model/model-price.ts";
import { NO_USAGE, type Usage } from "../protocol/usage.ts";
import type { Lease } from "./account-view.ts";

/** How far the call came. */
export type ModelCallEnd =
  /** It never left: the agent was asked to end while the call waited for a slot. */
  | { readonly type: "unsent" }
  /** It was left behind while it ran: its input is charged. */
  | { readonly type: "abandoned" }
  | ({ readonly type: "replied"; readonly reply: ModelReply } & BrokenAttempts)
  | ({ readonly type: "failed" } & BrokenAttempts)
  /** It was aborted; `isInFlight`: during an attempt, which is paid for even if its answer had not begun. */
  | ({ readonly type: "aborted"; readonly isInFlight: boolean } & BrokenAttempts);

interface BrokenAttempts {
  /** Attempts that broke after the provider had begun to answer. */
  readonly brokenAttempts: number;
  readonly lostOutputTokens: number;
}

/** The usage of the step that the call belongs to; a step counts even if its call came to nothing. */
export function callUsage(model: Model, lease: Lease, end: ModelCallEnd): Usage {
  switch (end.type) {
    case "unsent":
      return { ...NO_USAGE, steps: 1 };
    case "abandoned":
      return priced(model, estimate(lease.inputTokens, 0), 1);
    case "failed":
      return priced(model, lost(lease, end), end.brokenAttempts);
    case "aborted": {
      const brokenAttempts = Math.max(end.brokenAttempts, end.isInFlight ? 1 : 0);
      const { lostOutputTokens } = end;
      return priced(model, lost(lease, { brokenAttempts, lostOutputTokens }), brokenAttempts);
    }
    case "replied": {
      const { reply, brokenAttempts, lostOutputTokens } = end;
      const tokens = reply.usage ?? estimate(lease.inputTokens, replyTokens(reply));
      const estimates = brokenAttempts + (reply.usage === undefined ? 1 : 0);
      const isWhole = brokenAttempts === 0 && lostOutputTokens === 0;
      return priced(model, isWhole ? tokens : plus(tokens, lost(lease, end)), estimates);
    }
  }
}

function priced(model: Model, tokens: TokenUsage, estimatedCalls: number): Usage {
  const { inputTokens, cachedInputTokens, outputTokens, reasoningTokens } = tokens;
  return {
    modelCalls: 1,
    steps: 1,
    toolCalls: 0,
    inputTokens,
    cachedInputTokens,
    outputTokens,
    reasoningTokens,
    totalTokens: inputTokens + outputTokens,
    costMicroUsd: model.price === undefined ? 0 : costMicroUsd(model.price, tokens),
    unpricedCalls: model.price === undefined ? 1 : 0,
    estimatedCalls,
  };
}

function lost(lease: Lease, { brokenAttempts, lostOutputTokens }: BrokenAttempts): TokenUsage {
  return estimate(lease.inputTokens * brokenAttempts, lostOutputTokens);
}

function estimate(inputTokens: number, outputTokens: number): TokenUsage {
  return { inputTokens, cachedInputTokens: 0, outputTokens, reasoningTokens: 0 };
}

function plus(left: TokenUsage, right: TokenUsage): TokenUsage {
  return {
    inputTokens: left.inputTokens + right.inputTokens,
    cachedInputTokens: left.cachedInputTokens + right.cachedInputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    reasoningTokens: left.reasoningTokens + right.reasoningTokens,
  };
}

function replyTokens({ message: { text, toolCalls, parts = [] } }: ModelReply): number {
  const calls = toolCalls.map((call) => call.toolName + call.argumentsText);
  const reasoning = parts.map((part) => (part.type === "reasoning" ? part.text : ""));
  return estimateTokens(text + calls.join("") + reasoning.join(""));
}
