// Notices at the end of a request: that the step is the last, and the remaining budget. They are
// not stored in the history.

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
import { computeRemainingAtStep } from "../create-step-context.ts";

/** Texts by section. */
export type Notices = { readonly [Name in BuiltInSection]?: string | undefined };

/** Returns the notices for a request at this moment. */
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

/**
 * Returns the request with its notices, after its lease was granted. `planned` are the notices
 * computed before the lease.
 */
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
 * Returns the request of the last step that the budget allows, in which the model can only finish.
 * If the model obeys a tool choice, all tools stay listed, so that the provider's cache remains
 * valid.
 */
function createClosingRequest({ supportsToolChoice }: Model, request: ModelRequest): ModelRequest {
  const { toolChoice: _choice, ...rest } = request;
  const finish = request.tools.filter(({ name }) => name === FINISH_TOOL_NAME);
  if (supportsToolChoice !== true || request.tools.length === 0)
    return Object.freeze({ ...rest, tools: finish });
  const toolChoice = finish.length === 0 ? "none" : { toolName: FINISH_TOOL_NAME };
  return Object.freeze({ ...rest, toolChoice });
}

/**
 * Returns the line about the remaining budget, for roles that show it. `undefined` if nothing is
 * limited.
 */
function createBudgetNotice(
  { showBudget }: AgentRole,
  remaining: () => Remaining,
): string | undefined {
  return showBudget ? formatBudgetLine(remaining()) : undefined;
}

/**
 * Additional tokens for a line that grows while its request waits for a lease, such as from $0.01
 * to $0.0099.
 */
const LINE_SLACK_TOKENS = 2;

/** Returns the maximum number of tokens that the notices add to a request. */
export function estimateNoticeTokens({ wrapUp, budget }: Notices): number {
  const line = budget === undefined ? 0 : estimateMessageTokens(budget) + LINE_SLACK_TOKENS;
  return line + (wrapUp === undefined ? 0 : estimateMessageTokens(wrapUp));
}
