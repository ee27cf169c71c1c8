// A recorder at every place of a run: all points, wraps, processors, and all events. Each says who was served, and what happened.

import type { HookContext } from "../../src/hooks/hook-points.ts";
import {
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
} from "../../src/hooks/hook.ts";
import type { EventType } from "../../src/protocol/event.ts";
import { POINTS } from "./hook-sites.ts";

/** Every type of event; the compiler finds one that is missing. */
const EVENT_TYPES: Readonly<Record<EventType, true>> = {
  "run.started": true,
  "run.ended": true,
  "run.paused": true,
  "run.resumed": true,
  "agent.started": true,
  "agent.paused": true,
  "agent.resumed": true,
  "agent.ended": true,
  "step.started": true,
  "step.completed": true,
  "model.requested": true,
  "model.retried": true,
  "model.replied": true,
  "model.failed": true,
  "tool.started": true,
  "tool.paused": true,
  "tool.resumed": true,
  "tool.ended": true,
  "question.asked": true,
  "question.answered": true,
  "hook.applied": true,
  "request.repaired": true,
  "conversation.compacted": true,
  "message.delivered": true,
  "subagent.spawned": true,
  "subagent.refused": true,
  "subagent.ended": true,
  "budget.reserved": true,
  "budget.settled": true,
  "budget.released": true,
  "budget.denied": true,
  "signal.raised": true,
  "continuation.evaluated": true,
};

function isEventType(type: string): type is EventType {
  return type in EVENT_TYPES;
}

/** Hooks for everything, and what they have written down: `lead: beforeModel`, `lead: (step.started)`. */
export function hookRecorder(): { readonly hooks: readonly Hook[]; readonly log: string[] } {
  const log: string[] = [];
  const types = Object.keys(EVENT_TYPES).filter(isEventType);
  const hooks = [
    ...POINTS.map((point) =>
      transform(point, (_input: unknown, context: HookContext) => {
        const isAgents = point !== "userInput" && "agentPath" in context;
        log.push(`${isAgents ? context.agentPath : "run"}: ${point}`);
      }),
    ),
    wrapModelCall(async ({ context }, next) => {
      log.push(`${context.agentPath}: wrapModelCall`);
      const reply = await next();
      log.push(`${context.agentPath}: wrapModelCall ends`);
      return reply;
    }),
    wrapToolCall(async ({ context, toolName }, next) => {
      log.push(`${context.agentPath}: wrapToolCall ${toolName}`);
      const result = await next();
      log.push(`${context.agentPath}: wrapToolCall ${toolName} ends`);
      return result;
    }),
    processStep(
      ({ number }, { agentPath }) => void log.push(`${agentPath}: processStep ${number}`),
    ),
    observe(types, ({ agentPath, type }) => void log.push(`${agentPath}: (${type})`)),
  ];
  return { hooks, log };
}
