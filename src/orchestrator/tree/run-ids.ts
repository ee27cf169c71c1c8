// The ids of one run that nothing traces, from the moment when something first reads one: a sink, or code that
// asks for `correlation()`. Until then no id is made. What was open by then gets its ids when it is asked about.

import { mintTraceIds, randomHex } from "../../kernel/trace-ids.ts";
import type { EventBody, EventDraft, EventScope, TraceIds } from "../../protocol/event.ts";
import { callKey } from "../../protocol/ids.ts";
import type { Tracing } from "../../protocol/tracing.ts";
import { followAgent, idsIn, type OpenRun } from "./local-tracing.ts";

export class RunIds implements Tracing {
  /** Of the event with which the run begins. */
  readonly #ids: TraceIds;
  /** Undefined once the run rests: nothing is kept of it. */
  #run: OpenRun | undefined;

  /** `scopes`: of the agents that are at work. */
  constructor(ids: TraceIds, scopes: readonly EventScope[]) {
    const { traceId, spanId } = ids;
    this.#ids = ids;
    this.#run = { ids: { traceId, spanId }, agents: new Map() };
    for (const scope of scopes) followAgent(this.#run, scope, "agent.started");
  }

  place({ scope, body }: EventDraft): TraceIds {
    return this.follow(scope, body);
  }

  follow(scope: EventScope, { type }: EventBody): TraceIds {
    const run = this.#run;
    if (run === undefined) return mintTraceIds(randomHex, undefined);
    if (type === "run.started" || type === "run.resumed") return this.#ids;
    if (type !== "run.paused" && type !== "run.ended") return followAgent(run, scope, type);
    this.#run = undefined;
    return run.ids;
  }

  within<T>(_scope: EventScope, work: () => Promise<T>): Promise<T> {
    return work();
  }

  idsOf(scope: EventScope): TraceIds | undefined {
    return this.#run && idsIn(this.#run, scope);
  }

  /** Returns the ids of a model call or tool call that is open. */
  idsOfCall(scope: EventScope): TraceIds | undefined {
    const agent = this.#run?.agents.get(scope.agentId);
    if (agent?.executionId !== scope.executionId || agent === undefined) return this.idsOf(scope);
    const [tool, model] = [callKey("tool", scope), callKey("model", scope)];
    const known = agent.calls.get(tool) ?? agent.calls.get(model);
    if (known !== undefined) return known;
    const ids = mintTraceIds(randomHex, agent.ids);
    agent.calls.set(scope.callId === null ? model : tool, ids);
    return ids;
  }

  leave(): void {
    this.#run = undefined;
  }
}
