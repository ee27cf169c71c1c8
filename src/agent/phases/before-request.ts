// Optional work before the request of a step: hooks see the task, a session's history is shortened,
// subtasks run, subagents are awaited, sections are created, and a history that is too long is
// compacted.

import { omitUndefined } from "../../kernel/json.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { type AgentState } from "../agent-state.ts";
import { mustNotCallModel, addTask } from "../life-cycle.ts";
import { BUILT_IN_SECTIONS } from "../request-sections.ts";
import { createSections, type ReadyState } from "./create-sections.ts";
import { runQueuedSubtasks } from "./run-queued-subtasks.ts";
import { checkConditions } from "../check-stop-conditions.ts";
import { consultHooks } from "../run-user-code.ts";
import { failWith, addSignal, fail } from "../stop-requests.ts";
import { addMessages, recordTask } from "../transition.ts";
import { addAbortHandler } from "../../kernel/cancel-signal.ts";
import { EspalierError } from "../../kernel/error.ts";
import { pauseForSubagents } from "../pause-agent.ts";
import { replaceText } from "../../protocol/message-content.ts";
import { createUserMessage, type UserMessage } from "../../protocol/message.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { MailboxMessage } from "../mailbox.ts";
import { isOverflowing } from "./assemble-request.ts";

/** Does the work that is due, until the state forbids a request. */
export async function runPendingWork(agent: AgentRuntime, state: AgentState): Promise<ReadyState> {
  let next = state.log.isTaskHandled ? state : await takeTask(agent, state);
  if (mustNotCallModel(agent, next)) return { state: next };
  const { retention } = agent;
  if (retention !== undefined && !state.log.isTaskHandled) {
    const { retain } = await import("./compact.ts");
    next = await retain(agent, next, retention);
  }
  if (next.log.subtasks.length > 0) next = await runQueuedSubtasks(agent, next);
  if (mustNotCallModel(agent, next) || next.log.subtasks.length > 0) return { state: next };
  if (next.log.isAwaiting && agent.mailbox?.hasMessages !== true)
    next = await waitForSubagents(agent, next);
  if (mustNotCallModel(agent, next)) return { state: next };
  const hasSections = agent.role.sections.length > BUILT_IN_SECTIONS.length;
  const ready = hasSections ? await createSections(agent, next) : { state: next };
  if (mustNotCallModel(agent, ready.state) || !isOverflowing(agent, ready.state, ready.sections))
    return ready;
  const { compact } = await import("./compact.ts");
  return { ...ready, state: await compact(agent, ready.state, ready.sections) };
}

// The beginning of an execution. Hooks see the task before any budget is spent, and stop conditions
// are checked for the first time.

/** Adds the task to the history, as changed by hooks of the root. A refused task is not added. */
async function takeTask(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { identity, role, taskText } = agent;
  const { task, metadata } = agent.facts;
  const content = typeof task === "string" ? {} : { content: task };
  const hooked =
    identity.depth > 0
      ? undefined
      : await consultHooks(agent, {
          point: "userInput",
          stepNumber: 0,
          position: {},
          input: { role: role.name, task: taskText, metadata, ...content },
        });
  if (hooked?.type === "failed") return failWith(agent, dropTask(state), hooked.error);
  if (hooked?.type === "cancelled") return dropTask(state);
  const { patch, changedBy = [] } = hooked?.value ?? {};
  const refusal = patch?.refuse;
  if (refusal !== undefined) {
    const reason = { code: "input_refused", message: refusal, data: {} };
    const name = changedBy.at(-1)?.hook;
    return addSignal(agent, dropTask(state), {
      source: "hook",
      reason,
      ...omitUndefined({ name }),
    });
  }
  const finalTask = patch?.task === undefined ? task : replaceText(task, patch.task);
  return await checkConditions(agent, addTask(state, finalTask));
}

/** Marks the task as handled without adding it to the history. */
function dropTask(state: AgentState): AgentState {
  return recordTask(state, []);
}

// Waiting for background subagents. An agent that has answered reads their reports before it ends.

/**
 * Waits until the subagents have settled, a message arrives, or the agent must end. Pauses if a
 * subagent is paused and there is nothing to read.
 */
async function waitForSubagents(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { supervisor } = agent.run;
  const { background } = state.log;
  await waitForNews(agent, background);
  const hasMessages = (): boolean => agent.mailbox?.hasMessages === true;
  // Checked directly instead of by `hasStopRequest`, which is false while the agent catches up
  // after a crash: a pending request has ended the wait.
  if (hasMessages() || agent.stopRequests.length > 0 || agent.isEnding) return state;
  const isPaused = agent.children.some(
    ({ identity, settled }) =>
      settled?.status === "paused" && background.includes(identity.agentId),
  );
  if (isPaused) return pauseForSubagents(agent, state);
  // A call took their results and did not return them to the agent.
  supervisor.reactivate(agent, background);
  if (hasMessages()) return state;
  const message =
    "Subagents in the background have ended without a result. This is a bug in espalier.";
  return fail(agent, state, new EspalierError({ code: "internal_error", message }));
}

/** Waits until these subagents settle, another message arrives, or the agent must end. */
async function waitForNews(agent: AgentRuntime, childIds: readonly AgentId[]): Promise<void> {
  const { noStartSignal } = agent;
  const settled = agent.whenBackgroundSettled(childIds);
  if (noStartSignal.aborted) return;
  const news = Promise.withResolvers<void>();
  const hear = (): void => news.resolve();
  const unsubscribe = agent.openMailbox().onMail((message) => {
    if (message.reportOf === undefined) hear();
  });
  const forget = addAbortHandler(noStartSignal, hear);
  await Promise.race([settled, news.promise]);
  unsubscribe();
  forget();
}

// Messages to the agent, from outside or from background subagents, enter its history with the
// first model call that contains them.

/** Returns the state that will result from a model call with these messages. */
export function addMail(state: AgentState, mail: readonly MailboxMessage[]): AgentState {
  const messages = mail.map(createMailMessage);
  const reportedAgentIds = mail.flatMap(({ reportOf }) => reportOf ?? []);
  return addMessages(state, messages, reportedAgentIds);
}

function createMailMessage({ content, reportOf }: MailboxMessage): UserMessage {
  return createUserMessage(content, reportOf === undefined ? "steering" : "report");
}
