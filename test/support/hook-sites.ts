// Every place of a run where a hook can be called, over a small tree that reaches all of them: a
// lead with a tool and a child.

import {
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
} from "../../src/hooks/hook.ts";
import type { TransformPoint, HookContext } from "../../src/hooks/hook-points.ts";
import type { RunResult } from "../../src/orchestrator/run/run-result.ts";
import type { AgentReport } from "../../src/orchestrator/tree/agent-report.ts";
import { says, type ScriptedReply } from "../../src/testing/scripted-model.ts";
import type { FunctionTool } from "../../src/tools/tool.ts";
import type { ToolContext } from "../../src/tools/tool-context.ts";
import { spyTool } from "../harness/tools.ts";
import { calls, part, spawn, use, type Part } from "../harness/scripted-agents.ts";

/** Action of a hook at its place before the run continues. */
export type HookWork = (signal: AbortSignal) => unknown;

/** A place for a hook. */
export interface HookSite {
  /** As events and errors name it. */
  readonly point: string;
  /** Whose hook it is in the tree below. */
  readonly owner: "lead" | "child";
  /** True if `hookTimeoutMs` holds there. */
  readonly isTimed: boolean;
  hook(work: HookWork): Hook;
}

export const POINTS = [
  "userInput",
  "beforeModel",
  "beforeTool",
  "afterTool",
  "beforeCompaction",
  "subagentStart",
  "stop",
  "subagentStop",
] as const satisfies readonly TransformPoint[];

/** The eight points at which a hook may change something. */
const POINT_SITES: readonly HookSite[] = POINTS.map((point) => ({
  point,
  owner: ownerOf(point),
  isTimed: true,
  hook: (work) =>
    transform(
      point,
      async (_input: unknown, { signal }: HookContext) => {
        await work(signal);
        return undefined;
      },
      { name: `my ${point}` },
    ),
}));

/** The same places, and those of processors and wraps. */
export const SITES: readonly HookSite[] = [
  ...POINT_SITES,
  {
    point: "processStep",
    owner: "lead",
    isTimed: true,
    hook: (work) =>
      processStep(async (_step, { signal }) => void (await work(signal)), {
        name: "my processStep",
      }),
  },
  {
    point: "wrapModelCall",
    owner: "lead",
    isTimed: false,
    hook: (work) =>
      wrapModelCall(
        async ({ context }, next) => {
          await work(context.signal);
          return await next();
        },
        { name: "my wrapModelCall" },
      ),
  },
  {
    point: "wrapToolCall",
    owner: "lead",
    isTimed: false,
    hook: (work) =>
      wrapToolCall(
        async ({ context }, next) => {
          await work(context.signal);
          return await next();
        },
        { name: "my wrapToolCall" },
      ),
  },
];

/** Whose hook it has to be, so that the tree comes by it. */
export function ownerOf(point: string): "lead" | "child" {
  return point === "subagentStop" ? "child" : "lead";
}

/** A tree that comes by every site. */
export interface HookTree {
  readonly lead: Part;
  readonly child: Part;
  readonly work: FunctionTool & { readonly calls: readonly ToolContext[] };
}

/** Hooks of the two roles. */
export interface TreeHooks {
  readonly lead?: readonly Hook[];
  readonly child?: readonly Hook[];
}

export function hookTree(
  hooks: TreeHooks,
  first: ScriptedReply = calls(use("work"), spawn("child")),
): HookTree {
  const work = spyTool("work");
  const child = part("child", [says("Child.")], { hooks: hooks.child ?? [] });
  const lead = part("lead", [first, says("Done.")], {
    tools: [work],
    subagents: [child.role],
    hooks: hooks.lead ?? [],
    compaction: { maxInputTokens: 5 },
  });
  return { lead, child, work };
}

/** The tree with one hook where it belongs, which is come by once. */
export function treeWith(point: string, hook: Hook): HookTree {
  const hooks = { [ownerOf(point)]: [hook] };
  return point.includes("Tool") ? hookTree(hooks, calls(use("work"))) : hookTree(hooks);
}

/** The report of the agent whose hook it is. */
export function reportOf(result: RunResult, owner: HookSite["owner"]): AgentReport {
  const report = result.agents.find(({ role }) => role === owner);
  if (report === undefined) throw new Error(`There was no ${owner}.`);
  return report;
}

/** Never settles, whatever its signal says. */
export function hang(): Promise<never> {
  return new Promise(() => undefined);
}

/** Rejects when its signal is aborted, as a `fetch` that was given it does. */
export function heed(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const leave = (): void => reject(new Error("aborted", { cause: signal.reason }));
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
  });
}
