// ScopeTree: to which scope of a run an event belongs. A scope is what becomes one span: the run,
// one execution of an agent, a model call, a tool call. Owns what is open, of all runs, with one
// value for each scope that its keeper chooses (a span, or just ids). Knows no span and no id.
// 1. A scope is closed once: by its own end, or abandoned when the scope around it closes.
// 2. Nothing is kept of what is closed: a run that has ended leaves no trace in memory.
// 3. An event whose scope is not open belongs to the nearest open scope around it. No event is
//    refused.
// 4. Each event costs constant time, and each scope at its end what it leaves open.

import { assertNever } from "../kernel/assert.ts";
import type { Correlation, EventBody, EventType } from "./event.ts";
import type { EventDraft } from "./event-sink.ts";
import type { AgentId, RunId } from "./ids.ts";

/** Events with which a scope begins. */
export type Opening = EventBody<
  "run.started" | "agent.started" | "model.requested" | "tool.started"
>;
/** Events with which a scope ends. */
export type Closing = EventBody<
  "run.ended" | "agent.ended" | "model.replied" | "model.failed" | "tool.ended"
>;
/** Events within a scope. */
export type Note = EventBody<Exclude<EventType, Opening["type"] | Closing["type"]>>;

/** When and where something happened. */
export type Moment = Pick<EventDraft, "seq" | "atMs" | "correlation">;

/**
 * Keeps one value for each open scope. Called by the tree in the order of events; must not throw.
 */
export interface ScopeKeeper<Scope> {
  /** A scope begins. `parent` is the scope around it; a run has none. */
  open(body: Opening, moment: Moment, parent: Scope | undefined): Scope;
  /** Something happened within a scope. */
  note(scope: Scope, body: Note, moment: Moment): void;
  /** A scope ends. */
  close(scope: Scope, body: Closing, moment: Moment): void;
  /**
   * The scope around this one ended and its own end never came; `wasCancelled`: because it was told
   * to end.
   */
  abandon(scope: Scope, moment: Moment, wasCancelled: boolean): void;
}

interface OpenRun<Scope> {
  readonly scope: Scope;
  /** An agent has one execution at a time, so its id finds the current one. */
  readonly agents: Map<AgentId, OpenAgent<Scope>>;
}

interface OpenAgent<Scope> {
  readonly scope: Scope;
  readonly executionId: Correlation["executionId"];
  /** Model calls by step, tool calls by call: see `callKey`. */
  readonly calls: Map<string, Scope>;
}

export class ScopeTree<Scope> {
  readonly #keeper: ScopeKeeper<Scope>;
  readonly #runs = new Map<RunId, OpenRun<Scope>>();

  constructor(keeper: ScopeKeeper<Scope>) {
    this.#keeper = keeper;
  }

  /** Opens, closes or finds the scope of an event. Undefined: its run is not open. */
  place(draft: EventDraft): Scope | undefined {
    const { body } = draft;
    switch (body.type) {
      case "run.started":
        return this.#openRun(body, draft);
      case "agent.started":
        return this.#openAgent(body, draft);
      case "model.requested":
      case "tool.started":
        return this.#openCall(body, draft);
      case "model.replied":
      case "model.failed":
      case "tool.ended":
        return this.#closeCall(body, draft);
      case "agent.ended":
        return this.#closeAgent(body, draft);
      case "run.ended":
        return this.#closeRun(body, draft);
      case "step.started":
      case "step.completed":
      case "model.retried":
      case "subagent.spawned":
      case "subagent.refused":
      case "subagent.ended":
      case "budget.reserved":
      case "budget.released":
      case "budget.settled":
      case "budget.denied":
      case "signal.raised":
      case "continuation.evaluated":
        return this.#note(body, draft);
      default:
        return assertNever(body, "event");
    }
  }

  /** The innermost open scope at a place: its tool call, its model call, its agent, its run. */
  find(correlation: Correlation): Scope | undefined {
    const run = this.#runs.get(correlation.runId);
    const agent = agentAt(run, correlation);
    const key = callKey(correlation.callId === null ? "model" : "tool", correlation);
    return agent?.calls.get(key) ?? agent?.scope ?? run?.scope;
  }

  /** How many scopes are open. */
  get size(): number {
    let size = 0;
    for (const run of this.#runs.values()) {
      size += 1;
      for (const agent of run.agents.values()) size += 1 + agent.calls.size;
    }
    return size;
  }

  #openRun(body: Opening, moment: Moment): Scope {
    const { runId } = moment.correlation;
    this.#abandonRun(runId, moment, false);
    const scope = this.#keeper.open(body, moment, undefined);
    this.#runs.set(runId, { scope, agents: new Map() });
    return scope;
  }

  #openAgent(body: EventBody<"agent.started">, moment: Moment): Scope | undefined {
    const { runId, agentId, parentAgentId, executionId } = moment.correlation;
    const run = this.#runs.get(runId);
    if (run === undefined) return undefined;
    this.#abandonAgent(run, agentId, moment, false);
    const parent = parentAgentId === null ? undefined : run.agents.get(parentAgentId);
    const spawn = parent?.calls.get(`tool ${body.spawnCallId}`);
    const scope = this.#keeper.open(body, moment, spawn ?? parent?.scope ?? run.scope);
    run.agents.set(agentId, { scope, executionId, calls: new Map() });
    return scope;
  }

  #openCall(
    body: EventBody<"model.requested" | "tool.started">,
    moment: Moment,
  ): Scope | undefined {
    const run = this.#runs.get(moment.correlation.runId);
    const agent = agentAt(run, moment.correlation);
    if (agent === undefined) return run?.scope;
    const key = callKey(body.type, moment.correlation);
    const stale = agent.calls.get(key);
    if (stale !== undefined) this.#keeper.abandon(stale, moment, false);
    const scope = this.#keeper.open(body, moment, agent.scope);
    agent.calls.set(key, scope);
    return scope;
  }

  #note(body: Note, moment: Moment): Scope | undefined {
    const run = this.#runs.get(moment.correlation.runId);
    const agent = agentAt(run, moment.correlation);
    const call = agent?.calls.get(callKey(body.type, moment.correlation));
    const scope = call ?? agent?.scope ?? run?.scope;
    if (scope !== undefined) this.#keeper.note(scope, body, moment);
    return scope;
  }

  #closeCall(body: Closing, moment: Moment): Scope | undefined {
    const run = this.#runs.get(moment.correlation.runId);
    const agent = agentAt(run, moment.correlation);
    const key = callKey(body.type, moment.correlation);
    const scope = agent?.calls.get(key);
    if (scope === undefined) return agent?.scope ?? run?.scope;
    agent?.calls.delete(key);
    this.#keeper.close(scope, body, moment);
    return scope;
  }

  #closeAgent(body: EventBody<"agent.ended">, moment: Moment): Scope | undefined {
    const run = this.#runs.get(moment.correlation.runId);
    const agent = agentAt(run, moment.correlation);
    if (agent === undefined) return run?.scope;
    run?.agents.delete(moment.correlation.agentId);
    this.#abandonCalls(agent, moment, body.status === "cancelled");
    this.#keeper.close(agent.scope, body, moment);
    return agent.scope;
  }

  #closeRun(body: EventBody<"run.ended">, moment: Moment): Scope | undefined {
    const { runId } = moment.correlation;
    const run = this.#runs.get(runId);
    if (run === undefined) return undefined;
    this.#abandonAgents(run, moment, body.status === "cancelled");
    this.#runs.delete(runId);
    this.#keeper.close(run.scope, body, moment);
    return run.scope;
  }

  #abandonRun(runId: RunId, moment: Moment, wasCancelled: boolean): void {
    const run = this.#runs.get(runId);
    if (run === undefined) return;
    this.#abandonAgents(run, moment, wasCancelled);
    this.#runs.delete(runId);
    this.#keeper.abandon(run.scope, moment, wasCancelled);
  }

  // The youngest first: a child begins after its parent, so no scope ends before one within it.
  #abandonAgents(run: OpenRun<Scope>, moment: Moment, wasCancelled: boolean): void {
    for (const agentId of [...run.agents.keys()].toReversed()) {
      this.#abandonAgent(run, agentId, moment, wasCancelled);
    }
  }

  #abandonAgent(
    run: OpenRun<Scope>,
    agentId: AgentId,
    moment: Moment,
    wasCancelled: boolean,
  ): void {
    const agent = run.agents.get(agentId);
    if (agent === undefined) return;
    run.agents.delete(agentId);
    this.#abandonCalls(agent, moment, wasCancelled);
    this.#keeper.abandon(agent.scope, moment, wasCancelled);
  }

  #abandonCalls(agent: OpenAgent<Scope>, moment: Moment, wasCancelled: boolean): void {
    for (const scope of agent.calls.values()) this.#keeper.abandon(scope, moment, wasCancelled);
    agent.calls.clear();
  }
}

/** The agent at a place, unless an earlier execution of it is meant. */
function agentAt<Scope>(
  run: OpenRun<Scope> | undefined,
  { agentId, executionId }: Correlation,
): OpenAgent<Scope> | undefined {
  const agent = run?.agents.get(agentId);
  return executionId === null || agent?.executionId === executionId ? agent : undefined;
}

/** Steps have one model call, calls have one tool: a prefix keeps their ids apart. */
function callKey(type: EventType | "model" | "tool", { stepId, callId }: Correlation): string {
  return type.startsWith("model") ? `model ${stepId}` : `tool ${callId}`;
}
