import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { RunPorts } from "../../agent/run-ports.ts";
import type { Hook } from "../../hooks/hook.ts";
import { notify } from "../../hooks/run-chain.ts";
import type { EventSink } from "../../protocol/event-sink.ts";
import type { RunTree } from "./run-tree.ts";

/** True if there is something to show events to. */
export function hasObserver(hooks: readonly Hook[]): boolean {
  return hooks.some((hook) => hook.kind === "observe");
}

/** Shows every event to the observers of its agent: those of the orchestrator, and those of its role (R76, R77). */
export function observerSink(run: RunPorts<AgentRuntime> & { readonly tree: RunTree }): EventSink {
  return {
    take: (event) => {
      const node = run.tree.find(event.agentId);
      if (node !== undefined)
        notify(run.partsOf(node.role).hooks.observers(event.type), event, run.context);
    },
  };
}
