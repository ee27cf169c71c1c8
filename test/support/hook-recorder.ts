// A recorder at every hook point: transforms, wraps, processors and all events. It records the
// agent and the point.

import type { HookContext } from "../../src/hooks/hook-points.ts";
import {
  observe,
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
} from "../../src/hooks/hook.ts";
import { EVENT_TYPES } from "../../src/protocol/event.ts";
import { POINTS } from "./hook-sites.ts";

/** Hooks for everything, and their records: `lead: beforeModel`, `lead: (step.started)`. */
export function hookRecorder(): { readonly hooks: readonly Hook[]; readonly log: string[] } {
  const log: string[] = [];
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
    observe(EVENT_TYPES, ({ agentPath, type }) => void log.push(`${agentPath}: (${type})`)),
  ];
  return { hooks, log };
}
