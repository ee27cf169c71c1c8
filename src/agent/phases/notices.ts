// Notices at the end of one request: that the step is its last, and what is left of the budget. Neither is kept in the history.

import { deepFreeze } from "../../kernel/json.ts";
import { estimateMessageTokens } from "../../model/count-tokens.ts";
import type { Model, ModelRequest } from "../../model/model.ts";
import { formatBudgetLine } from "../../policies/budget-line.ts";
import type { Message } from "../../protocol/message.ts";
import type { AgentRole } from "../agent-role.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { AgentState } from "../agent-state.ts";
import type { Lease, Remaining } from "../../budget/lease.ts";
import { FINISH_TOOL_NAME } from "../../protocol/tool-rule.ts";
import { BUILT_IN_SECTIONS, type BuiltInSection } from "../request-sections.ts";
import { computeRemainingAtStep } from "../make-step-context.ts";

/** Texts by section. */
export type Notices = { readonly [Name in BuiltInSection]?: string | undefined };

/** The notices that the model would get now. */
export function planNotices(agent: AgentRuntime, state: AgentState): Notices {
  const { role, account } = agent;
  const remaining = (): Remaining => computeRemainingAtStep(state, account.remaining());
  const isLast = role.wrapUp !== undefined && (remaining().steps ?? Infinity) <= 1;
  return {
    wrapUp: isLast ? wrapUpText(agent) : undefined,
    budget: createBudgetNotice(role, remaining),
  };
}

function wrapUpText({ role, nativeOutputSchema }: AgentRuntime): string | undefined {
  const { wrapUp, hasOutput } = role;
  if (wrapUp !== true) return wrapUp;
  if (!hasOutput) return WRAP_UP.answer;
  return nativeOutputSchema === undefined ? WRAP_UP.finish : WRAP_UP.result;
}

const WRAP_UP = {
  answer:
    "This is your last step: you cannot use tools any more. Answer now with what you have, and state what is left undone.",
  finish: `This is your last step: call ${FINISH_TOOL_NAME} now with what you have. You cannot use other tools any more.`,
  result:
    "This is your last step: you cannot use tools any more. Give your result now, with what you have.",
};

/** The request with its notices, now that its call is paid for. `planned`: those that it would have had before. */
export function addNotices(
  { role, account, model }: AgentRuntime,
  state: AgentState,
  request: ModelRequest,
  { lease, planned }: { readonly lease: Lease; readonly planned: Notices },
) {
  const remaining = (): Remaining => computeRemainingAtStep(state, account.remainingWith(lease));
  const isClosing = planned.wrapUp !== undefined && lease.lastStep !== undefined;
  const notices: Notices = {
    wrapUp: isClosing ? planned.wrapUp : undefined,
    budget: createBudgetNotice(role, remaining),
  };
  const messages = BUILT_IN_SECTIONS.flatMap(({ name }): readonly Message[] => {
    const text = notices[name];
    return text === undefined ? [] : [{ role: "user", text, origin: "notice" }];
  });
  const open = isClosing ? createClosingRequest(model, request) : request;
  return {
    request:
      messages.length === 0
        ? open
        : deepFreeze({ ...open, messages: [...open.messages, ...messages] }),
    tokens: estimateNoticeTokens(notices),
    isClosing,
  };
}

/**
 * The request of the last step that the budget allows: the model can do nothing but finish. All tools stay listed where the model
 * obeys a choice, so that the provider's cache holds.
 */
function createClosingRequest({ supportsToolChoice }: Model, request: ModelRequest): ModelRequest {
  const { toolChoice: _choice, ...rest } = request;
  const finish = request.tools.filter(({ name }) => name === FINISH_TOOL_NAME);
  if (supportsToolChoice !== true || request.tools.length === 0)
    return Object.freeze({ ...rest, tools: finish });
  const toolChoice = finish.length === 0 ? "none" : { toolName: FINISH_TOOL_NAME };
  return Object.freeze({ ...rest, toolChoice });
}

/** The line that says what is left of the budget, for roles that show it; undefined: nothing is limited. */
function createBudgetNotice(
  { showBudget }: AgentRole,
  remaining: () => Remaining,
): string | undefined {
  return showBudget ? formatBudgetLine(remaining()) : undefined;
}

/** A line may grow a little while its request waits for its lease: $0.01 becomes $0.0099. */
const LINE_SLACK_TOKENS = 2;

/** Tokens that the notices may add to a request. */
export function estimateNoticeTokens({ wrapUp, budget }: Notices): number {
  const line = budget === undefined ? 0 : estimateMessageTokens(budget) + LINE_SLACK_TOKENS;
  return line + (wrapUp === undefined ? 0 : estimateMessageTokens(wrapUp));
}
