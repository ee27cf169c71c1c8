import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { RunPorts } from "../../agent/run-ports.ts";
import { notify } from "../../hooks/run-chain.ts";
import type { EventSink } from "../../protocol/event-sink.ts";
import type { RoleRegistry } from "./role-registry.ts";
import type { RunTree } from "./run-tree.ts";
import type { Settings } from "./settings.ts";

interface ObservedRun extends RunPorts<AgentRuntime> {
  readonly settings: Settings;
  readonly registry: RoleRegistry;
  readonly tree: RunTree;
}

/** Shows every event to the observers of its agent: those of the orchestrator, and those of its role (R76, R77). None: there are none. */
export function observerSinks(run: ObservedRun): readonly EventSink[] {
  const { settings, registry } = run;
  if (settings.hooks.length === 0 && !registry.hasGuardsOrHooks) return [];
  const hooks = [...settings.hooks, ...[...registry.all].flatMap((role) => role.hooks)];
  if (!hooks.some((hook) => hook.kind === "observe")) return [];
  const take: EventSink["take"] = (event) => {
    const node = run.tree.find(event.agentId);
    if (node !== undefined)
      notify(run.partsOf(node.role).hooks.observers(event.type), event, run.context);
  };
  return [{ take }];
}
