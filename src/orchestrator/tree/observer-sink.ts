import type { EventSink } from "../../protocol/event-sink.ts";
import { notify } from "../../hooks/run-chain.ts";
import type { RunRuntime } from "./run-runtime.ts";

/** Shows every event to the observers of its agent: those of the orchestrator, and those of its role (R76, R77). None: there are none. */
export function observerSinks(run: RunRuntime): readonly EventSink[] {
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
