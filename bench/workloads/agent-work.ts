// What an agent has to do. The name of its model says it all: the server's replies follow from that alone.

/**
 * `tools`: `count` replies with a tool call each, then a text. `lead`: one reply with `count` delegations, then a text. `stream`: a text
 * of `count` pieces. `hold`: a text that is held back until the server is asked for `/release`. `greedy`: delegations in every reply, until
 * the server has given so many replies that it says no more.
 */
export interface AgentWork {
  readonly kind: "tools" | "lead" | "stream" | "hold" | "greedy";
  readonly count: number;
  /** How long the server takes for each reply. */
  readonly latencyMs: number;
  /** Levels of agents below; the role of an agent is named by it. */
  readonly level: number;
  /** What each agent does to which a lead delegates. */
  readonly child?: AgentWork;
}

export const toolSteps = (count: number, latencyMs = 0): AgentWork => ({
  kind: "tools",
  count,
  latencyMs,
  level: 0,
});

export const delegations = (count: number, child: AgentWork, latencyMs = 0): AgentWork => ({
  kind: "lead",
  count,
  latencyMs,
  level: child.level + 1,
  child,
});

/** Agents of which each delegates to the next; the last answers. */
export function chain(agents: number): AgentWork {
  return agents === 1 ? toolSteps(0) : delegations(1, chain(agents - 1));
}

export const streamedText = (count: number): AgentWork => ({
  kind: "stream",
  count,
  latencyMs: 0,
  level: 0,
});

export const HELD_BACK: AgentWork = { kind: "hold", count: 1, latencyMs: 0, level: 0 };

/** Levels below the agent that begins, which nothing but a limit keeps from being used. */
export const GREEDY_LEVELS = 8;

/** `count` subagents in each reply, each of which wants one more in each of its own. */
export function greed(count: number, level = GREEDY_LEVELS): AgentWork {
  const work = { kind: "greedy", count, latencyMs: 0, level } as const;
  return level === 0 ? work : { ...work, child: greed(1, level - 1) };
}

export const roleName = (level: number): string => `worker-${level}`;

export function modelName({ kind, count, level, latencyMs }: AgentWork): string {
  return `${kind}-${count}-${level}-${latencyMs}`;
}

const MODEL_NAME = /"model":"(tools|lead|stream|hold|greedy)-(\d+)-(\d+)-(\d+)"/;

export interface RequestedWork {
  readonly kind: string;
  readonly count: number;
  readonly level: number;
  readonly latencyMs: number;
}

/** What the model has to do that the body of a request names. */
export function requestedWork(body: string): RequestedWork {
  const [, kind = "", count, level, latencyMs] = MODEL_NAME.exec(body) ?? [];
  return { kind, count: Number(count), level: Number(level), latencyMs: Number(latencyMs) };
}

/** Spans by operation, as they follow from the work that was done. */
export interface SpanCounts {
  readonly runs: number;
  readonly agents: number;
  readonly modelCalls: number;
  readonly toolCalls: number;
}

/** The spans of one run of this work. */
export function spansOf({ kind, count, child }: AgentWork): SpanCounts {
  if (kind === "tools") return { runs: 1, agents: 1, modelCalls: count + 1, toolCalls: count };
  if (child === undefined) return { runs: 1, agents: 1, modelCalls: 1, toolCalls: 0 };
  const each = spansOf(child);
  return {
    runs: 1,
    agents: 1 + count * each.agents,
    modelCalls: 2 + count * each.modelCalls,
    toolCalls: count + count * each.toolCalls,
  };
}
