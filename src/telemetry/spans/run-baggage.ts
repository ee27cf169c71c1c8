// What of a run travels in baggage, where that is switched on: its id and the path of the agent, and nothing else of ours.
// A context that carries it has a mark, by which it is distinguished from such entries that came in from another process.

import { context, createContextKey, propagation, type Context } from "@opentelemetry/api";

import type { EventScope } from "../../protocol/event.ts";
import { OWN_BAGGAGE } from "../../protocol/tracing.ts";
import { ESPALIER } from "../gen-ai-attributes.ts";

const OWN_BAGGAGE_KEY = createContextKey(OWN_BAGGAGE);

/** The active context with the scope of user code in its baggage, besides what the caller of the run had in it. */
export function contextWithBaggage({ runId, agentPath }: EventScope): Context {
  const active = context.active();
  const own = propagation.createBaggage({
    [ESPALIER.runId]: { value: runId },
    [ESPALIER.agentPath]: { value: agentPath },
  });
  const given = propagation.getBaggage(active) ?? propagation.createBaggage();
  const merged = own
    .getAllEntries()
    .reduce((baggage, [key, entry]) => baggage.setEntry(key, entry), given);
  return propagation.setBaggage(active, merged).setValue(OWN_BAGGAGE_KEY, own);
}

/** The same context without our mark: for a run that is started within another one, and that is to carry nothing. */
export function unmarked(around: Context): Context {
  return around.getValue(OWN_BAGGAGE_KEY) === undefined
    ? around
    : around.deleteValue(OWN_BAGGAGE_KEY);
}
