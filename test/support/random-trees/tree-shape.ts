// Laws for the shape of a tree and the tools of its agents (T3 and T4), derived from events and
// requests.

import { FINISH_TOOL_NAME } from "../../../src/protocol/tool-rule.ts";
import type { EspalierEvent } from "../../../src/protocol/event.ts";
import type { RunResult } from "../../../src/orchestrator/run/run-result.ts";
import { law, same } from "./tree-law.ts";
import type { PlayedRun } from "./tree-fixture.ts";
import { roleAt, type World, type WorldCall } from "./tree-world.ts";

/**
 * Throws, naming the law, unless the tree respected its limits, refusals were true, and no agent
 * was offered a tool that is denied above.
 */
export function checkShape(world: World, run: PlayedRun, result: RunResult): void {
  const shape = new Shape(world, keptPaths(run));
  for (const event of run.events) shape.take(event);
  shape.close(result);
}

/** The number started, and the permitted number. */
type Place = readonly [started: number, limit: number | undefined];

const SETTLING: ReadonlySet<string> = new Set<EspalierEvent["type"]>([
  "subagent.spawned",
  "subagent.refused",
  "tool.rejected",
  "tool.ended",
]);

const SPAWNING: ReadonlySet<string | undefined> = new Set<WorldCall["type"]>(["spawn", "draft"]);

class Shape {
  readonly #world: World;
  /**
   * Subagents by the path of their parent, and the number of living and total ones below each path.
   */
  readonly #breadth = new Map<string, number>();
  readonly #below = new Map<string, number>();
  readonly #byDepth: Record<string, number> = {};
  readonly #refusals: Record<string, number> = {};
  /** The tools that lists removed from agents and all their descendants. */
  readonly #denied = new Map<string, ReadonlySet<string>>();
  /** Calls that have an outcome: a subagent, a refusal, or an end. */
  readonly #settled = new Set<string | null>();
  #total = 0;

  /** `kept`: the subagents that a fork has from its origin. */
  constructor(world: World, kept: readonly string[]) {
    this.#world = world;
    for (const path of kept) this.#count(path);
  }

  take(event: EspalierEvent): void {
    if (event.type === "subagent.spawned") this.#spawned(event);
    if (event.type === "subagent.refused") this.#refused(event);
    if (event.type === "model.requested") this.#offered(event);
    if (event.type === "tool.ended" && event.success) this.#used(event);
    if (SETTLING.has(event.type)) this.#settled.add(event.callId);
  }

  close({ subagentsByDepth, refusalsByCode, agents, accounts }: RunResult): void {
    same(subagentsByDepth, this.#byDepth, "counts by depth in the result");
    same(refusalsByCode, this.#refusals, "refusals by code");
    law(agents.length === this.#total + 1, "T1: all that were started have a report, no others");
    law(accounts.length === this.#total + 1, "T3: a set-up that failed leaves no account");
  }

  #spawned(event: EspalierEvent<"subagent.spawned">): void {
    const { agentPath, childPath, childDepth, depth } = event;
    this.#count(childPath);
    law(childDepth === depth + 1, "T3: a child is one deeper");
    const { maxDepth, maxBreadthPerParent, maxTotalSubagents } = this.#world.limits;
    law(childDepth <= maxDepth, "T3: depth");
    law((this.#breadth.get(agentPath) ?? 0) <= maxBreadthPerParent, "T3: breadth");
    law(this.#total <= maxTotalSubagents, "T3: total");
    for (const path of pathsAbove(childPath)) {
      const limits = roleAt(this.#world, path)?.limits ?? {};
      law(childDepth <= (limits.maxDepth ?? Infinity), `X16: depth below ${path}`);
      const breadth = this.#breadth.get(agentPath) ?? 0;
      law(breadth <= (limits.maxBreadthPerParent ?? Infinity), `X16: breadth below ${path}`);
      const below = this.#below.get(path) ?? 0;
      law(below <= (limits.maxTotalSubagents ?? Infinity), `X16: total below ${path}`);
    }
    same(event.subagentsByDepth, this.#byDepth, "counts by depth as they grow");
    const lists = event.inherited.removedTools.filter(({ rule }) => rule !== "no_depth_left");
    this.#denied.set(childPath, new Set(lists.map(({ toolName }) => toolName)));
  }

  #count(path: string): void {
    const [parent = "", ...others] = pathsAbove(path);
    const depth = others.length + 1;
    this.#total += 1;
    this.#breadth.set(parent, (this.#breadth.get(parent) ?? 0) + 1);
    for (const above of [parent, ...others])
      this.#below.set(above, (this.#below.get(above) ?? 0) + 1);
    this.#byDepth[depth] = (this.#byDepth[depth] ?? 0) + 1;
  }

  /** A refusal names a limit that is reached by started subagents and those ahead in its reply. */
  #refused({ error, agentPath, depth, callId }: EspalierEvent<"subagent.refused">): void {
    const { code, current = -1, maximum = Infinity } = error;
    this.#refusals[code] = (this.#refusals[code] ?? 0) + 1;
    if (code === "depth_limit") law(depth >= maximum, "T3: depth_limit with room left");
    if (code !== "breadth_limit" && code !== "total_limit") return;
    law(current === maximum, `T3: ${code} at ${current} of ${maximum}`);
    const ahead = this.#ahead(callId);
    const places = code === "breadth_limit" ? this.#breadths(agentPath) : this.#totals(agentPath);
    const isReached = places.some(
      ([started, limit]) => limit === maximum && started <= limit && started + ahead >= limit,
    );
    law(isReached, `T3: ${code} with room left`);
  }

  /**
   * The started and the permitted number below the agent, by the run and by each role on the path.
   */
  #breadths(agentPath: string): readonly Place[] {
    const breadth = this.#breadth.get(agentPath) ?? 0;
    const roles = [agentPath, ...pathsAbove(agentPath)].map((path) => roleAt(this.#world, path));
    return [this.#world, ...roles].map((one) => [breadth, one?.limits.maxBreadthPerParent]);
  }

  /** The started and the permitted number in the run, and below each agent on the path. */
  #totals(agentPath: string): readonly Place[] {
    const below = [agentPath, ...pathsAbove(agentPath)].map((path): Place => [
      this.#below.get(path) ?? 0,
      roleAt(this.#world, path)?.limits.maxTotalSubagents,
    ]);
    return [[this.#total, this.#world.limits.maxTotalSubagents], ...below];
  }

  /**
   * Calls of the same reply, ahead of this one, that request a subagent each and have no outcome
   * yet.
   */
  #ahead(callId: string | null): number {
    const [, role, asked, place] = /^role(\d+)\.(\d+)\.(\d+)$/u.exec(callId ?? "") ?? [];
    const act = this.#world.roles[Number(role)]?.script[Number(asked) - 1];
    if (act?.type !== "calls" || !SPAWNING.has(act.calls[Number(place)]?.type)) return 0;
    return act.calls
      .slice(0, Number(place))
      .filter(
        ({ type }, index) =>
          SPAWNING.has(type) && !this.#settled.has(`role${role}.${asked}.${index}`),
      ).length;
  }

  /** T4: no agent is offered a tool that is denied above. */
  #offered({ agentPath, toolNames }: EspalierEvent<"model.requested">): void {
    for (const toolName of toolNames)
      law(!this.#isRemoved(agentPath, toolName), `T4: ${agentPath} is offered ${toolName}`);
  }

  /** T4: no agent runs a tool that is denied above, by lists or by guards. */
  #used({ agentPath, toolName }: EspalierEvent<"tool.ended">): void {
    law(!this.#isRemoved(agentPath, toolName), `T4: ${agentPath} runs ${toolName}`);
    const forbidding = [agentPath, ...pathsAbove(agentPath)].find((path) =>
      roleAt(this.#world, path)?.guards.some(
        ({ tool, says }) => tool === toolName && says !== "ask",
      ),
    );
    law(forbidding === undefined, `T4: ${agentPath} runs ${toolName}, which ${forbidding} forbids`);
  }

  #isRemoved(agentPath: string, toolName: string): boolean {
    if (toolName === FINISH_TOOL_NAME) return false;
    const above = pathsAbove(agentPath);
    if ([agentPath, ...above].some((path) => this.#denied.get(path)?.has(toolName))) return true;
    return above.some((path) => {
      const role = roleAt(this.#world, path);
      const allowed: readonly string[] | undefined = role?.allowedTools;
      const denied: readonly string[] = role?.deniedTools ?? [];
      return denied.includes(toolName) || allowed?.includes(toolName) === false;
    });
  }
}

/** Subagents that a fork has from its origin. */
export function keptPaths({ origin, events, results }: PlayedRun): readonly string[] {
  if (origin === undefined) return [];
  const spawned = new Set(
    events.flatMap((event) => (event.type === "subagent.spawned" ? [event.childPath] : [])),
  );
  return (results[0]?.agents ?? []).flatMap(({ agentPath, depth }) =>
    depth === 0 || spawned.has(agentPath) ? [] : [agentPath],
  );
}

/** From the parent up to the root. */
function pathsAbove(path: string): readonly string[] {
  const parts = path.split("/").slice(0, -1);
  return parts.map((_part, index) => parts.slice(0, parts.length - index).join("/"));
}
