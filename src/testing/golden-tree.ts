// The events of a run as a text tree that can be read without running it.

import { assertNever } from "../kernel/assert.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import type { AgentId } from "../protocol/ids.ts";

interface Branch {
  label: string;
  readonly below: Branch[];
}

/**
 * Draws a run: agents with status, reason and usage; below them their steps; below these their tool calls; below a delegation the
 * subagent that it started. Siblings come in the order of the calls' ends, agents in the order of their start.
 */
export function goldenTree(events: readonly EspalierEvent[]): string {
  const agents = new Map<AgentId, Branch>();
  const open = new Map<string, Branch>();
  const roots: Branch[] = [];
  const branch = (label: string, under: Branch[] | undefined, key?: string): Branch => {
    const grown: Branch = { label, below: [] };
    under?.push(grown);
    if (key !== undefined) open.set(key, grown);
    return grown;
  };
  for (const event of events) {
    switch (event.type) {
      case "agent.started": {
        const spawn = event.spawnCallId === null ? undefined : findSpawn(open, event.spawnCallId, agents.get(event.parentAgentId ?? event.agentId));
        agents.set(event.agentId, branch(event.agentPath, spawn?.below ?? roots));
        break;
      }
      case "step.started":
        branch(`step ${event.number}`, agents.get(event.agentId)?.below, keyOf(event));
        break;
      case "tool.started":
        branch(event.toolName, open.get(`${event.executionId} ${event.stepId}`)?.below, keyOf(event));
        break;
      case "tool.ended":
        relabel(open.get(keyOf(event)), (label) => `${label} ${event.outcome}${event.errorCode === undefined ? "" : ` (${event.errorCode})`}`);
        break;
      case "model.replied":
        relabel(open.get(keyOf(event)), (label) => `${label} ${event.toolCalls === 0 ? "answered" : `asked for ${event.toolCalls}`}`);
        break;
      case "model.failed":
        relabel(open.get(keyOf(event)), (label) => `${label} ${event.error.code}`);
        break;
      case "agent.ended":
        relabel(agents.get(event.agentId), (label) => {
          const { own, total } = event.usage;
          return `${label} ${event.status} (${event.reason.code}) ${event.steps} steps, ${own.totalTokens} of ${total.totalTokens} tokens`;
        });
        break;
      case "run.started":
      case "run.ended":
      case "step.completed":
      case "model.requested":
      case "model.retried":
      case "subagent.spawned":
      case "subagent.refused":
      case "subagent.ended":
      case "budget.reserved":
      case "budget.settled":
      case "budget.denied":
      case "signal.raised":
      case "continuation.evaluated":
        break;
      default:
        assertNever(event, "event");
    }
  }
  return roots.flatMap((root) => draw(root)).join("\n");
}

function keyOf(event: EspalierEvent): string {
  return `${event.executionId} ${event.callId ?? event.stepId}`;
}

function relabel(branch: Branch | undefined, label: (old: string) => string): void {
  if (branch !== undefined) branch.label = label(branch.label);
}

function findSpawn(open: ReadonlyMap<string, Branch>, callId: string, parent: Branch | undefined): Branch | undefined {
  const candidates = [...open].filter(([key]) => key.endsWith(` ${callId}`)).map(([, branch]) => branch);
  return candidates.find((candidate) => parent?.below.some((step) => step.below.includes(candidate)));
}

function draw(branch: Branch): readonly string[] {
  const { below } = branch;
  const lines = below.flatMap((child, index) => {
    const isLast = index === below.length - 1;
    return draw(child).map((line, row) => `${row === 0 ? (isLast ? "└─ " : "├─ ") : isLast ? "   " : "│  "}${line}`);
  });
  return [branch.label, ...lines];
}
