// What goes before the request of a step, where there is any: the task is taken in by hooks, a session's history is cut, subtasks are worked
// off, subagents are waited for, sections are made, a history that outgrew its window is compacted.

import { omitUndefined } from "../../kernel/json.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { type AgentState } from "../agent-state.ts";
import { mustNotCallModel, addTask } from "../life-cycle.ts";
import { BUILT_IN_SECTIONS } from "../request-sections.ts";
import { createSections, type ReadyState } from "./make-sections.ts";
import { runQueuedSubtasks } from "./work-off-subtasks.ts";
import { askConditions } from "../ask-conditions.ts";
import { consultHooks } from "../consult.ts";
import { failWith, addSignal, fail } from "../stop-requests.ts";
import { addMessages, recordTask } from "../transition.ts";
import { addAbortHandler } from "../../kernel/cancel.ts";
import { EspalierError } from "../../kernel/error.ts";
import { pauseForSubagents } from "../pausing.ts";
import { replaceText } from "../../protocol/message-content.ts";
import { createUserMessage, type UserMessage } from "../../protocol/message.ts";
import type { AgentId } from "../../protocol/ids.ts";
import type { MailboxMessage } from "../mailbox.ts";
import { isOverflowing } from "./assemble-request.ts";

/** Does what is due, until something holds the agent: then the state says so. */
export async function makeReady(agent: AgentRuntime, state: AgentState): Promise<ReadyState> {
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
  const made = hasSections ? await createSections(agent, next) : { state: next };
  if (mustNotCallModel(agent, made.state) || !isOverflowing(agent, made.state, made.sections))
    return made;
  const { compact } = await import("./compact.ts");
  return { ...made, state: await compact(agent, made.state, made.sections) };
}

// The beginning of an execution: hooks see the task before anything is spent, and stop conditions are asked for the first time (R5).

/** Puts the task into the history, as hooks of the root changed it; a refused one leaves no trace there. */
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
  const said = patch?.task === undefined ? task : replaceText(task, patch.task);
  return await askConditions(agent, addTask(state, said));
}

/** Marks the task as handled, with nothing of it in the history. */
function dropTask(state: AgentState): AgentState {
  return recordTask(state, []);
}

// Waiting for subagents in the background: an agent that has answered reads what they say before it ends (X9).

/** Waits until they have settled, a message comes, or the agent must end. Paused if one of them is and there is nothing to read. */
async function waitForSubagents(agent: AgentRuntime, state: AgentState): Promise<AgentState> {
  const { supervisor } = agent.run;
  const { background } = state.log;
  await waitForNews(agent, background);
  const hasMessages = (): boolean => agent.mailbox?.hasMessages === true;
  // Unlike `hasStopRequest`, while the agent catches up after a crash, too: such a request has ended the wait.
  if (hasMessages() || agent.stopRequests.length > 0 || agent.isEnding) return state;
  const isPaused = agent.children.some(
    ({ identity, settled }) =>
      settled?.status === "paused" && background.includes(identity.agentId),
  );
  if (isPaused) return pauseForSubagents(agent, state);
  // A call has taken their results and did not hand them on.
  supervisor.reactivate(agent, background);
  if (hasMessages()) return state;
  const message =
    "Subagents in the background have ended without a result. This is a bug in espalier.";
  return fail(agent, state, new EspalierError({ code: "internal_error", message }));
}

/** Waits until these subagents settle, or until a message of another comes or the agent must end. */
async function waitForNews(agent: AgentRuntime, childIds: readonly AgentId[]): Promise<void> {
  const { noStartSignal } = agent;
  const settled = agent.backgroundSettled(childIds);
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

// Messages to the agent, from outside or out of the background, go into its history with the model call that shows them
// (X10, X23).

/** Returns the state as it is once the model call that shows the messages is made. */
export function addMail(state: AgentState, mail: readonly MailboxMessage[]): AgentState {
  const messages = mail.map(createMailMessage);
  const reportedAgentIds = mail.flatMap(({ reportOf }) => reportOf ?? []);
  return addMessages(state, messages, reportedAgentIds);
}

function createMailMessage({ content, reportOf }: MailboxMessage): UserMessage {
  return createUserMessage(content, reportOf === undefined ? "steering" : "report");
}
