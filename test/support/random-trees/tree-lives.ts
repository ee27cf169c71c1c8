// Lives, pauses and ends of agents, derived from events alone: T1, T2, T5, L2, L4, X8, X9 and X11.
// Every event is checked as it arrives.

import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { law, same } from "./tree-law.ts";
import { keptPaths } from "./tree-shape.ts";
import type { Order, PlayedRun } from "./tree-fixture.ts";
import { childNameOf, roleAt, type World } from "./tree-world.ts";

/** Throws, naming the law, unless all lives of the run satisfy it. */
export function checkLives(world: World, run: PlayedRun): void {
  const { events, results, orders } = run;
  const lives = new Lives(world, new Set(keptPaths(run)), unbegunCalls(events));
  let rests = 0;
  for (const [index, event] of events.entries()) {
    for (const { at, after, type, agentId } of orders) {
      if (at === index) lives.hear(type, agentId);
      if (after === index) lives.order(type, agentId);
    }
    lives.take(event);
    if (event.type !== "run.ended" && event.type !== "run.paused") continue;
    const result = results[rests];
    rests += 1;
    law(result !== undefined, "L2: a run rests once");
    if (result !== undefined) lives.rest(result);
  }
  law(rests === results.length, "L2: a run that rests says so");
}

/** Calls without any effect are reported nevertheless, even after a cancel. */
function unbegunCalls(events: readonly EspalierEvent[]): ReadonlySet<string> {
  return new Set(
    events.flatMap((event) =>
      event.type === "tool.ended" && isUnbegun(event) ? [callOf(event)] : [],
    ),
  );
}

function isUnbegun({ outcome }: EspalierEvent<"tool.ended">): boolean {
  return outcome === "not_executed" || outcome === "refused";
}

function callOf({ executionId, callId }: EspalierEvent): string {
  return `${executionId} ${callId}`;
}

interface Child {
  readonly agentId: string;
  readonly parentId: string;
  readonly path: string;
  readonly stepId: string | null;
  readonly isBackground: boolean;
}

type ExecutionStatus = "running" | "paused" | "ended";

class Lives {
  readonly #world: World;
  readonly #executions = new Map<string, ExecutionStatus>();
  /** The agents that have not ended, with their parent; null for the run. */
  readonly #alive = new Map<string, string | null>();
  readonly #paths = new Map<string, string>();
  readonly #parents = new Map<string, string | null>();
  /** The last outcome of each agent. */
  readonly #ends = new Map<string, EspalierEvent<"agent.ended">>();
  /** Subagents that have not settled. */
  readonly #open = new Map<string, Child>();
  readonly #groups = new Map<string, Group>();
  readonly #openSteps = new Map<string, string>();
  readonly #detached = new Set<string>();
  /** Agents in and below which nothing may begin any more, with the reason. */
  readonly #doomed = new Map<string, string>();
  readonly #everStarted: Set<string>;
  readonly #ending = new Set<string>();
  #isStopping = false;
  #isIdle = true;
  #isCancelled = false;

  readonly #unbegun: ReadonlySet<string>;

  constructor(world: World, before: Set<string>, unbegun: ReadonlySet<string>) {
    this.#world = world;
    this.#everStarted = before;
    this.#unbegun = unbegun;
  }

  /** An agent whose end was requested: the run must not settle before it has ended. */
  hear(type: Order["type"], agentId: string | undefined): void {
    if (this.#isIdle || type === "request stop") return;
    const root = [...this.#parents].find(([, parentId]) => parentId === null)?.[0];
    const ending = agentId ?? root;
    if (ending !== undefined && this.#alive.has(ending)) this.#ending.add(ending);
  }

  order(type: Order["type"], agentId: string | undefined): void {
    if (this.#isIdle) return;
    if (type === "request stop") this.#isStopping = true;
    if (type === "cancel") this.#isCancelled = true;
    // An agent that had ended when it was cancelled may have been continued since.
    if (agentId !== undefined && this.#ending.has(agentId)) this.#doomed.set(agentId, "a cancel");
  }

  take(event: EspalierEvent): void {
    const isOpening = event.type === "run.started" || event.type === "run.resumed";
    law(isOpening || !this.#isIdle, `L2: ${event.type} of ${event.agentPath} after the run's end`);
    this.#checkExecution(event);
    this.#checkOrders(event);
    switch (event.type) {
      case "run.started":
      case "run.resumed":
        this.#isIdle = false;
        return;
      case "agent.started":
        law(!this.#alive.has(event.agentId), `L2: ${event.agentPath} starts twice at once`);
        this.#alive.set(event.agentId, event.parentAgentId);
        this.#paths.set(event.agentId, event.agentPath);
        this.#parents.set(event.agentId, event.parentAgentId);
        this.#everStarted.add(event.agentPath);
        return;
      case "step.started":
        this.#openSteps.set(`${event.stepId}`, event.agentPath);
        return;
      case "step.completed":
        law(
          this.#openSteps.delete(`${event.stepId}`),
          `L4: ${event.agentPath} completes a step once`,
        );
        return;
      case "subagent.spawned":
        law(!this.#everStarted.has(event.childPath), `T1: a second ${event.childPath}`);
        this.#born(event, event.isBackground);
        return;
      case "subagent.continued":
        law(!this.#alive.has(event.childId), `X10: ${event.childPath} is continued while it runs`);
        this.#born(event, event.isBackground);
        return;
      case "subagent.detached":
        this.#detach(event);
        return;
      case "subagent.ended":
        this.#settle(event);
        return;
      case "agent.ended":
        this.#end(event);
        return;
      default:
    }
  }

  /** The run has settled. */
  rest(result: RunResult): void {
    const isPaused = result.status === "paused";
    const paused = [...this.#executions.values()].filter((status) => status === "paused");
    const running = [...this.#executions.values()].filter((status) => status === "running");
    law(running.length === 0, "T2: an agent runs on in a run that rests");
    law(isPaused === paused.length > 0, "T2: agents are paused if the run is");
    law(isPaused || this.#alive.size === 0, "T2: an agent lives on after the run");
    if (!isPaused) {
      const paths = [...this.#open.values()].map(({ path }) => path);
      same(paths, [], "T1: every spawn settles");
      same([...this.#openSteps.values()], [], "L4: every step completes");
      same(result.detached, [], "X9: no agent lives on");
    }
    for (const agentId of this.#ending)
      law(!this.#alive.has(agentId), `T5: ${this.#paths.get(agentId)} was cancelled and rests`);
    this.#ending.clear();
    this.#isIdle = true;
    this.#isStopping = false;
    this.#isCancelled = false;
    for (const { agentId, status, reason } of result.agents) {
      if (status === "paused") continue;
      const end = this.#ends.get(agentId);
      if (end === undefined) continue;
      law(
        end.status === status,
        `X8: ${end.agentPath} ended ${end.status}, its report says ${status}`,
      );
      law(end.reason.code === reason.code, `X8: ${end.agentPath} ended for one reason`);
    }
  }

  /**
   * L2: an execution begins, pauses and ends; no event reports it while it is paused, or
   * afterwards.
   */
  #checkExecution({ executionId, type, agentPath }: EspalierEvent): void {
    if (executionId === null) return;
    const status = this.#executions.get(executionId);
    switch (type) {
      case "agent.started":
        law(status === undefined, `L2: an execution of ${agentPath} starts twice`);
        this.#executions.set(executionId, "running");
        return;
      case "agent.resumed":
        law(status === "paused", `L2: ${agentPath} goes on and was not paused`);
        this.#executions.set(executionId, "running");
        return;
      default:
        law(status === "running", `L2: ${type} of ${agentPath}, which is ${status ?? "unborn"}`);
    }
    if (type === "agent.paused") this.#executions.set(executionId, "paused");
    if (type === "agent.ended") this.#executions.set(executionId, "ended");
  }

  /** T5, L1: an agent whose end or stop was requested begins nothing further. */
  #checkOrders(event: EspalierEvent): void {
    const { type, agentId, agentPath } = event;
    const begins =
      type === "step.started" || type === "subagent.spawned" || type === "subagent.continued";
    const isCall = type === "tool.started" && !this.#unbegun.has(callOf(event));
    const goesOn = begins || type === "model.requested" || isCall;
    if (this.#isCancelled) law(!goesOn, `T5: ${type} of ${agentPath} after the cancel`);
    if (this.#isStopping) law(!begins, `L1: ${type} of ${agentPath} after the request to stop`);
    if (!goesOn) return;
    for (let id: string | null = agentId; id !== null;) {
      const why = this.#doomed.get(id);
      law(why === undefined, () => `T5: ${type} of ${agentPath} after ${why}`);
      if (this.#detached.has(id)) return;
      id = this.#parents.get(id) ?? null;
    }
  }

  #born(
    event: EspalierEvent<"subagent.spawned" | "subagent.continued">,
    isBackground: boolean,
  ): void {
    const { childId, childPath: path, stepId, agentId: parentId } = event;
    law(!this.#open.has(childId), `T1: ${path} is started twice`);
    this.#doomed.delete(childId);
    this.#detached.delete(childId);
    this.#parents.set(childId, parentId);
    const child = { agentId: childId, parentId, path, stepId, isBackground };
    this.#open.set(childId, child);
    if (event.callId === null) return; // A subtask counts separately.
    const group = this.#groupOf(event.agentPath, stepId);
    law(group.decision === undefined, () => `X11: ${path} is started though ${group.decision}`);
    group.living.set(childId, child);
  }

  #groupOf(parentPath: string, stepId: string | null): Group {
    const known = this.#groups.get(`${stepId}`);
    if (known !== undefined && stepId !== null) return known;
    const group: Group = {
      failurePolicy: roleAt(this.#world, parentPath)?.failurePolicy ?? "isolate",
      living: new Map(),
      completed: 0,
      decision: undefined,
    };
    this.#groups.set(`${stepId}`, group);
    return group;
  }

  #detach({ childId, childPath, agentPath }: EspalierEvent<"subagent.detached">): void {
    const child = this.#open.get(childId);
    law(
      child?.isBackground === true,
      `X9: ${childPath}, which is detached, works in the background`,
    );
    law(
      roleAt(this.#world, agentPath)?.parentEndPolicy === "detach",
      `X9: ${agentPath} may detach`,
    );
    if (this.#alive.has(childId)) this.#alive.set(childId, null);
    this.#detached.add(childId);
  }

  #settle(event: EspalierEvent<"subagent.ended">): void {
    const { childId, childPath, status, outcome, executionId } = event;
    const child = this.#open.get(childId);
    law(this.#open.delete(childId), `T1: ${childPath} settles twice`);
    law(!this.#alive.has(childId), `T1: ${childPath} settles before it ends`);
    const end = this.#ends.get(childId);
    law(end?.status === status, `X8: ${childPath} settles ${status}, it ended ${end?.status}`);
    const isDetached = this.#detached.has(childId);
    law(
      isDetached === (executionId === null),
      `L2: the end of ${childPath} is of its parent's execution`,
    );
    if (child !== undefined) this.#count(child, outcome === "completed");
  }

  /** X11: the group of a settled child, and the consequences for the others. */
  #count(child: Child, isCompleted: boolean): void {
    const group = child.stepId === null ? undefined : this.#groups.get(child.stepId);
    if (group === undefined) return;
    group.living.delete(child.agentId);
    if (isCompleted) group.completed += 1;
    const { failurePolicy, completed } = group;
    if (failurePolicy === "isolate" || group.decision !== undefined) return;
    if (failurePolicy === "fail_fast" && !isCompleted)
      group.decision = `${childNameOf(child.path)} did not complete`;
    if (typeof failurePolicy === "object" && completed >= failurePolicy.quorum)
      group.decision = `${completed} have completed`;
    if (group.decision === undefined) return;
    for (const { agentId } of group.living.values())
      if (this.#alive.has(agentId) && !this.#detached.has(agentId))
        this.#doomed.set(agentId, `the decision that ${group.decision}`);
  }

  #end(event: EspalierEvent<"agent.ended">): void {
    const { agentId, agentPath, status } = event;
    law(this.#alive.delete(agentId), `L2: ${agentPath} ends twice`);
    const orphans = [...this.#alive].flatMap(([childId, parentId]) =>
      parentId === agentId ? [this.#paths.get(childId) ?? childId] : [],
    );
    same(orphans, [], `T2: ${agentPath} ends over living children`);
    const unsettled = [...this.#open.values()].filter(
      (child) => child.parentId === agentId && !this.#detached.has(child.agentId),
    );
    same(unsettled, [], `T1: ${agentPath} ends over children that have not settled`);
    this.#ends.set(agentId, event);
    this.#doomed.delete(agentId);
    this.#ending.delete(agentId);
    law(status !== "completed" || event.reason.code === "completed", "L5: status and reason agree");
  }
}

/** The subagents that one reply started. */
interface Group {
  readonly failurePolicy: World["roles"][number]["failurePolicy"];
  readonly living: Map<string, Child>;
  completed: number;
  decision: string | undefined;
}
