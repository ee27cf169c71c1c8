// Runs queued subtasks, which are delegations requested by tools, in parallel before the next model
// call.

import { describeDelegation } from "../../tools/delegation-text.ts";
import { formatContent } from "../../protocol/message-content.ts";
import type { SpawnOutcome } from "../../protocol/subagent.ts";
import type { UserMessage } from "../../protocol/message.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import type { Consulted, ParentHistory } from "../effect-outcomes.ts";
import type { EffectPosition } from "../agent-identity.ts";
import { classifyUserCodeError } from "../run-user-code.ts";
import { failWith } from "../stop-requests.ts";
import { getStepPosition, type AgentState, type Subtask } from "../agent-state.ts";
import { spawnWithHooks } from "../tool-calls/delegate.ts";
import { addMessages, recordSubtasks } from "../transition.ts";

/**
 * Runs the queue. Once all results are known, they are added as messages in the order of the queue.
 * Paused subtasks stay in the queue.
 */
export async function runQueuedSubtasks(
  agent: AgentRuntime,
  state: AgentState,
): Promise<AgentState> {
  const { subtasks } = state.log;
  const position = getStepPosition(agent, state);
  const open = subtasks.filter(({ text }) => text === undefined);
  const history = { messages: state.conversation.messages, steps: state.log.steps };
  const outcomes = await Promise.all(
    open.map((subtask) => {
      const nth = subtasks.indexOf(subtask);
      return agent.runAt({ stepId: position.stepId }, () =>
        runSubtask(agent, position, subtask, { history, nth }),
      );
    }),
  );
  const settled = subtasks.map((subtask) => {
    const outcome = outcomes[open.indexOf(subtask)];
    return outcome?.type === "returned" ? setSubtaskOutcome(subtask, outcome.value) : subtask;
  });
  if (settled.some(({ text }) => text === undefined)) {
    const queued = recordSubtasks(state, settled);
    const broken = outcomes.find((outcome) => outcome.type === "failed");
    return broken === undefined ? queued : failWith(agent, queued, broken.error);
  }
  const messages = settled.map(reportSubtask);
  for (const { text } of messages)
    agent.record(
      { type: "message.delivered", origin: "subtask", characters: text.length },
      position,
    );
  return addMessages(recordSubtasks(state, []), messages);
}

/**
 * Runs a delegation that has no model call. It does not count as an effect of the agent, so that
 * the agent's clock pauses while the subagent waits for an answer. Never rejects.
 */
async function runSubtask(
  agent: AgentRuntime,
  position: EffectPosition,
  { request, childId }: Subtask,
  { history, nth }: { readonly history: ParentHistory; readonly nth: number },
): Promise<Consulted<SpawnOutcome>> {
  const { stepId } = position;
  try {
    const value =
      childId === undefined
        ? await spawnWithHooks({ agent, stepNumber: position.stepNumber }, request, {
            stepId,
            history,
            delegatedRoles: [],
            nth,
          })
        : await agent.run.supervisor.resume(agent, childId, { stepId });
    return { type: "returned", value };
  } catch (cause) {
    return classifyUserCodeError(agent, cause);
  }
}

function setSubtaskOutcome({ request }: Subtask, outcome: SpawnOutcome): Subtask {
  return outcome.type === "paused"
    ? { request, childId: outcome.childId }
    : { request, text: describeDelegation(outcome) };
}

function reportSubtask({ request, text = "" }: Subtask): UserMessage {
  const heading = `A subtask that was queued for ${request.role} has ended. Its task: ${formatContent(request.task)}`;
  return { role: "user", origin: "subtask", text: `${heading}\nIts result: ${text}` };
}
