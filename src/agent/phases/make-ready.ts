// What goes before the request of a step, where there is any: the task is taken in by hooks, a session's history is cut, subtasks are worked
// off, subagents are waited for, sections are made, a history that outgrew its window is compacted.

import type { AgentRuntime } from "../agent-runtime.ts";
import type { AgentState } from "../agent-state.ts";
import { isHeld } from "../life-cycle.ts";
import { BUILT_IN_SECTIONS } from "../request-sections.ts";
import { awaitSubagents } from "./await-subagents.ts";
import { compact, isOverflowing } from "./compact.ts";
import { makeSections, NO_SECTIONS, type MadeSections } from "./make-sections.ts";
import { retain } from "./retain.ts";
import { takeTask } from "./take-task.ts";
import { workOffSubtasks } from "./work-off-subtasks.ts";

/** Does what is due, until something holds the agent: then the state says so. */
export async function makeReady(agent: AgentRuntime, state: AgentState): Promise<MadeSections> {
  let next = state.log.isBriefed ? state : await takeTask(agent, state);
  if (isHeld(agent, next)) return withoutSections(next);
  if (agent.retention !== undefined && !state.log.isBriefed) next = await retain(agent, next);
  if (next.log.subtasks.length > 0) next = await workOffSubtasks(agent, next);
  if (isHeld(agent, next) || next.log.subtasks.length > 0) return withoutSections(next);
  if (next.log.isAwaiting && agent.mailbox?.hasMessages !== true)
    next = await awaitSubagents(agent, next);
  if (isHeld(agent, next)) return withoutSections(next);
  const hasSections = agent.role.sections.length > BUILT_IN_SECTIONS.length;
  const made = hasSections ? await makeSections(agent, next) : withoutSections(next);
  if (isHeld(agent, made.state) || !isOverflowing(agent, made.state, made.sections)) return made;
  return { ...made, state: await compact(agent, made.state, made.sections) };
}

function withoutSections(state: AgentState): MadeSections {
  return { state, sections: NO_SECTIONS };
}
