// SpanTree: finds the span of a run that an event belongs to. A run, each execution of an agent,
// each model call and each tool call have a span. A pause closes a span like an end, and a
// resumption opens a new span. A run whose process crashed continues in its span. Owns the open
// spans of all runs, with a value per span that the listener chooses. Does not know trace ids.
//
// 1. A span is closed once: by its own event, or abandoned when the span around it closes. It ends
//    then, or with the last span inside it if that is later: a call that was answered while its
//    subagent works lasts as long as the subagent.
// 2. Closed spans are forgotten: a run that has ended or is paused uses no memory.
// 3. An event whose span is not open belongs to the nearest open span around it. No event is
//    refused.
// 4. Each event costs constant time. Closing a span also costs the number of spans that are open
//    inside it, or inside its agent if it is a call that pauses.
// 5. Times of a run increase by at least a microsecond per event: each span has a length and lies
//    within the span around it, even if the clock does not advance.

import {
  isSpanContinuation,
  type EventScope,
  type EventBody,
  type EventDraft,
  type EventType,
} from "./event.ts";
import { createCallKey, type AgentId, type RunId } from "./ids.ts";

/**
 * Events that begin a span. `tool.rejected` both begins and ends one.
 *
 * @example
 * ```ts
 * const opensCall = ({ type }: SpanOpening): boolean => type === "tool.started";
 * ```
 */
export type SpanOpening = EventBody<
  | "run.started"
  | "run.resumed"
  | "agent.started"
  | "agent.resumed"
  | "model.requested"
  | "tool.started"
  | "tool.resumed"
  | "tool.rejected"
>;

/** Events that end a span. A pause ends a span as well; a new span begins with the resumption. */
export type SpanClosing = EventBody<
  | "run.ended"
  | "run.paused"
  | "agent.ended"
  | "agent.paused"
  | "model.replied"
  | "model.failed"
  | "tool.ended"
  | "tool.paused"
  | "tool.rejected"
>;

type RunOpening = EventBody<"run.started" | "run.resumed">;
type AgentOpening = EventBody<"agent.started" | "agent.resumed">;
type CallOpening = Exclude<SpanOpening, RunOpening | AgentOpening>;
type RunClosing = EventBody<"run.ended" | "run.paused">;
type AgentClosing = EventBody<"agent.ended" | "agent.paused">;
type CallClosing = Exclude<SpanClosing, RunClosing | AgentClosing>;

/**
 * Events within a span. `run.resumed` is one if the run continues in its open span after a crash.
 */
export type SpanNote = EventBody<
  Exclude<EventType, SpanOpening["type"] | SpanClosing["type"]> | "run.resumed"
>;

/**
 * Why a span ends without its own end event: the span around it was cancelled, was paused, or ended
 * for another reason; or the run is `released`, for another process to continue.
 */
export type Abandonment = "cancelled" | "suspended" | "abandoned" | "released";

/** Time and place of an event, without its body. */
export type EventMoment = Omit<EventDraft, "body">;

/** Event without its body, with a time that orders spans. */
export interface SpanMoment extends Omit<EventDraft, "body"> {
  /** Microseconds since the epoch: `atMs`, but later than every earlier event of the run. */
  readonly atUs: number;
}

/**
 * Provides a value for each open span. Called by the tree in the order of events; must not throw.
 */
export interface SpanListener<Span> {
  /** A span begins. `parent` is the span around it, `undefined` for a run. */
  open(body: SpanOpening, moment: SpanMoment, parent: Span | undefined): Span;
  /** Something happened within a span. */
  note(span: Span, body: SpanNote, moment: SpanMoment): void;
  /** A span ends. */
  close(span: Span, body: SpanClosing, moment: SpanMoment): void;
  /** The span around this span ended before it. */
  abandon(span: Span, moment: SpanMoment, why: Abandonment): void;
  /**
   * The span is closed or abandoned, and nothing within it is open: the last call for the span. Not
   * called if the span was `released`.
   */
  end(span: Span, moment: SpanMoment): void;
}

/** A span until it ends. */
interface Held<Span> {
  readonly span: Span;
  readonly around: Held<Span> | undefined;
  /** Number of open spans directly within the span. */
  within: number;
  isClosed: boolean;
}

interface OpenRunSpan<Span> {
  readonly entry: Held<Span>;
  /** By agent id. An agent has one execution at a time. */
  readonly agents: Map<AgentId, OpenAgentSpan<Span>>;
  /** Time of its last event. */
  lastUs: number;
}

interface OpenAgentSpan<Span> {
  readonly entry: Held<Span>;
  readonly executionId: EventScope["executionId"];
  readonly parent: OpenAgentSpan<Span> | undefined;
  /** The parent's call that its span is a child of. */
  readonly spawnKey: string | undefined;
  /** Open agents that it started, oldest first. */
  readonly children: Set<AgentId>;
  /**
   * Model calls by step (side calls by the call that they serve) and tool calls by call; see
   * `createCallKey`.
   */
  readonly calls: Map<string, Held<Span>>;
}

export class SpanTree<Span> {
  readonly #listener: SpanListener<Span>;
  readonly #runs = new Map<RunId, OpenRunSpan<Span>>();

  constructor(listener: SpanListener<Span>) {
    this.#listener = listener;
  }

  /** Opens, closes or finds the span of an event. `undefined` if its run is not open. */
  place(draft: EventDraft): Span | undefined {
    const { body, scope } = draft;
    const run = this.#runs.get(scope.runId);
    const moment = placeMoment(draft, run);
    if (body.type === "run.started" || body.type === "run.resumed") {
      if (run !== undefined) {
        this.#abandonAgents(run, moment, "abandoned");
        if (isSpanContinuation(body)) {
          this.#listener.note(run.entry.span, body, moment);
          return run.entry.span;
        }
        this.#runs.delete(scope.runId);
        this.#abandon(run.entry, moment, "abandoned");
      }
      const entry = this.#open(body, moment, undefined);
      this.#runs.set(scope.runId, { entry, agents: new Map(), lastUs: moment.atUs });
      return entry.span;
    }
    if (run === undefined) return undefined;
    const agent = findAgent(run, scope);
    const around = agent?.entry ?? findParent(run, scope)?.entry ?? run.entry;
    switch (body.type) {
      case "agent.started":
      case "agent.resumed":
        return this.#openAgent(run, body, moment);
      case "model.requested":
      case "tool.started":
      case "tool.resumed":
        return agent === undefined ? around.span : this.#openCall(agent, body, moment);
      case "model.replied":
      case "model.failed":
      case "tool.paused":
      case "tool.ended":
        return agent === undefined ? around.span : this.#closeCall(run, agent, body, moment);
      case "tool.rejected":
        if (agent === undefined) return around.span;
        this.#openCall(agent, body, moment);
        return this.#closeCall(run, agent, body, placeMoment(draft, run));
      case "agent.paused":
      case "agent.ended":
        if (agent === undefined) return around.span;
        if (body.type === "agent.paused") this.#suspendChildren(run, agent, moment);
        forgetAgent(run, scope.agentId);
        this.#abandonCalls(agent, moment, findAbandonment(body));
        this.#close(agent.entry, body, moment);
        return around.span;
      case "run.paused":
      case "run.ended":
        this.#abandonAgents(run, moment, findAbandonment(body));
        this.#runs.delete(scope.runId);
        this.#close(run.entry, body, moment);
        return run.entry.span;
      default: {
        const { span } = (agent && findCall(agent, body.type, scope)) ?? around;
        this.#listener.note(span, body, moment);
        return span;
      }
    }
  }

  /**
   * Returns the innermost open span of a scope: its tool call, its model call, its agent or its
   * run.
   */
  find(scope: EventScope): Span | undefined {
    const run = this.#runs.get(scope.runId);
    if (run === undefined) return undefined;
    const agent = findAgent(run, scope);
    if (agent === undefined) return (findParent(run, scope)?.entry ?? run.entry).span;
    return (findCall(agent, "tool", scope) ?? findCall(agent, "model", scope) ?? agent.entry).span;
  }

  /** Continues the span of a run whose process crashed. `lastUs` is the time of its last event. */
  takeUp(runId: RunId, span: Span, lastUs: number): void {
    const entry = { span, around: undefined, within: 0, isClosed: false };
    this.#runs.set(runId, { entry, agents: new Map(), lastUs });
  }

  /**
   * Forgets a run. `released` means that another process may continue it, `abandoned` that it will
   * never end. If the listener throws for a span, the others are still closed.
   */
  leave(at: EventMoment, why: Abandonment): void {
    const run = this.#runs.get(at.scope.runId);
    if (run === undefined) return;
    const moment = placeMoment(at, run);
    this.#runs.delete(at.scope.runId);
    const agents = [...run.agents.values()].toReversed();
    for (const entry of [
      ...agents.flatMap(({ calls, entry }) => [...calls.values(), entry]),
      run.entry,
    ]) {
      try {
        this.#listener.abandon(entry.span, moment, why);
        // Failed spans inside it no longer keep it open.
        entry.within = 0;
        if (why !== "released") this.#settle(entry, moment);
      } catch {
        // The listener failed before, which is why the run is released.
      }
    }
  }

  /** Returns true while the span of the run is open. */
  has(runId: RunId): boolean {
    return this.#runs.has(runId);
  }

  /** Number of open spans. */
  get size(): number {
    let size = 0;
    for (const run of this.#runs.values()) {
      size += 1;
      for (const agent of run.agents.values()) size += 1 + agent.calls.size;
    }
    return size;
  }

  #open(body: SpanOpening, moment: SpanMoment, around: Held<Span> | undefined): Held<Span> {
    const span = this.#listener.open(body, moment, around?.span);
    if (around !== undefined) around.within += 1;
    return { span, around, within: 0, isClosed: false };
  }

  #close(entry: Held<Span>, body: SpanClosing, moment: SpanMoment): void {
    this.#listener.close(entry.span, body, moment);
    this.#settle(entry, moment);
  }

  #abandon(entry: Held<Span>, moment: SpanMoment, why: Abandonment): void {
    this.#listener.abandon(entry.span, moment, why);
    this.#settle(entry, moment);
  }

  /** Ends the span, and the closed spans around it that were waiting for it. */
  #settle(entry: Held<Span>, moment: SpanMoment): void {
    entry.isClosed = true;
    let ending: Held<Span> | undefined = entry;
    while (ending?.isClosed === true && ending.within === 0) {
      this.#listener.end(ending.span, moment);
      ending = ending.around;
      if (ending !== undefined) ending.within -= 1;
    }
  }

  #openAgent(run: OpenRunSpan<Span>, body: AgentOpening, moment: SpanMoment): Span {
    const { agentId, executionId } = moment.scope;
    this.#abandonAgent(run, agentId, moment, "abandoned");
    const parent = findParent(run, moment.scope);
    const spawnKey = body.spawnCallId === null ? undefined : `tool ${body.spawnCallId}`;
    const spawn = spawnKey === undefined ? undefined : parent?.calls.get(spawnKey);
    const entry = this.#open(body, moment, spawn ?? parent?.entry ?? run.entry);
    const calls = new Map<string, Held<Span>>();
    const children = new Set<AgentId>();
    run.agents.set(agentId, { entry, executionId, parent, spawnKey, children, calls });
    parent?.children.add(agentId);
    return entry.span;
  }

  #openCall(agent: OpenAgentSpan<Span>, body: CallOpening, moment: SpanMoment): Span {
    const key = createCallKey(body.type, moment.scope);
    const stale = agent.calls.get(key);
    if (stale !== undefined) this.#abandon(stale, moment, "abandoned");
    const entry = this.#open(body, moment, agent.entry);
    agent.calls.set(key, entry);
    return entry.span;
  }

  #closeCall(
    run: OpenRunSpan<Span>,
    agent: OpenAgentSpan<Span>,
    body: CallClosing,
    moment: SpanMoment,
  ): Span {
    const key = createCallKey(body.type, moment.scope);
    const entry = agent.calls.get(key);
    if (entry === undefined) return agent.entry.span;
    if (body.type === "tool.paused") this.#suspendChildren(run, agent, moment, key);
    agent.calls.delete(key);
    this.#close(entry, body, moment);
    return entry.span;
  }

  // Closes the agents of a run, youngest first. A child begins after its parent, so no span ends
  // before the spans inside it.
  #abandonAgents(run: OpenRunSpan<Span>, moment: SpanMoment, why: Abandonment): void {
    for (const agentId of [...run.agents.keys()].toReversed())
      this.#abandonAgent(run, agentId, moment, why);
  }

  /** Closes all spans below a paused agent or a paused call. */
  #suspendChildren(
    run: OpenRunSpan<Span>,
    parent: OpenAgentSpan<Span>,
    moment: SpanMoment,
    spawnKey?: string,
  ): void {
    for (const agentId of [...parent.children].toReversed()) {
      const child = run.agents.get(agentId);
      if (child === undefined || (spawnKey !== undefined && child.spawnKey !== spawnKey)) continue;
      this.#suspendChildren(run, child, moment);
      this.#abandonAgent(run, agentId, moment, "suspended");
    }
  }

  #abandonAgent(
    run: OpenRunSpan<Span>,
    agentId: AgentId,
    moment: SpanMoment,
    why: Abandonment,
  ): void {
    const agent = forgetAgent(run, agentId);
    if (agent === undefined) return;
    this.#abandonCalls(agent, moment, why);
    this.#abandon(agent.entry, moment, why);
  }

  #abandonCalls(agent: OpenAgentSpan<Span>, moment: SpanMoment, why: Abandonment): void {
    for (const entry of agent.calls.values()) this.#abandon(entry, moment, why);
    agent.calls.clear();
  }
}

function placeMoment<Span>(
  { seq, atMs, scope, contents }: EventMoment,
  run: OpenRunSpan<Span> | undefined,
): SpanMoment {
  const ownUs = Math.round(atMs * 1_000);
  const atUs = run === undefined ? ownUs : Math.max(ownUs, run.lastUs + 1);
  if (run !== undefined) run.lastUs = atUs;
  return contents === undefined ? { seq, atMs, scope, atUs } : { seq, atMs, scope, atUs, contents };
}

/** Removes an agent from its run and from its parent's children. */
function forgetAgent<Span>(
  run: OpenRunSpan<Span>,
  agentId: AgentId,
): OpenAgentSpan<Span> | undefined {
  const agent = run.agents.get(agentId);
  run.agents.delete(agentId);
  agent?.parent?.children.delete(agentId);
  return agent;
}

function findAbandonment(body: RunClosing | AgentClosing): Abandonment {
  if (body.type === "run.paused" || body.type === "agent.paused") return "suspended";
  return body.status === "cancelled" ? "cancelled" : "abandoned";
}

/** Returns the open agent of a scope, or `undefined` if the scope is an earlier execution. */
function findAgent<Span>(
  run: OpenRunSpan<Span>,
  { agentId, executionId }: EventScope,
): OpenAgentSpan<Span> | undefined {
  const agent = run.agents.get(agentId);
  return executionId === null || agent?.executionId === executionId ? agent : undefined;
}

/** Returns the open call of an event. `undefined` for most events. */
function findCall<Span>(
  { calls }: OpenAgentSpan<Span>,
  type: string,
  scope: EventScope,
): Held<Span> | undefined {
  if (calls.size === 0 || (scope.callId === null && !type.startsWith("model"))) return undefined;
  return calls.get(createCallKey(type, scope));
}

/** Returns the parent of an agent. Events of an agent that is not open belong to its parent. */
function findParent<Span>(
  run: OpenRunSpan<Span>,
  { parentAgentId }: EventScope,
): OpenAgentSpan<Span> | undefined {
  return parentAgentId === null ? undefined : run.agents.get(parentAgentId);
}
