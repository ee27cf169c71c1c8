// How a new run starts: everything is checked before anything is made.

import { checkText, misdefinition } from "../../kernel/check.ts";
import type { JsonObject } from "../../kernel/json.ts";
import { checkRole, instructionsFor, type AgentRole } from "../../agent/agent-role.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { spendLimitsOf, tighterLimits } from "../../policies/budget.ts";
import { EVENT_SCHEMA_VERSION } from "../../protocol/event-bodies.ts";
import type { EventBody } from "../../protocol/event.ts";
import { newJournal } from "../durability/open-journal.ts";
import { startingSession } from "../sessions/sessions.ts";
import { createAgent } from "../tree/create-agent.ts";
import { registryOf, type Settings } from "../tree/settings.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";
import { Supervisor } from "../tree/supervisor.ts";
import { checkToolLists } from "./check-tool-lists.ts";
import { frozenMetadata } from "./metadata.ts";
import { LiveRun } from "./run.ts";
import { checkStartOptions, type StartOptions } from "./start-options.ts";
import { warnOfUnknownToolNames } from "./unknown-tool-names.ts";

/** Starts a run; see `Orchestrator.start` for what it throws before anything is made. */
export function startRun(
  settings: Settings,
  role: AgentRole,
  task: string,
  options: StartOptions,
): LiveRun {
  checkRole("role", role);
  checkTask(task);
  checkStartOptions(options);
  const { budget = {}, deadlineAtMs, onText, context } = options;
  const metadata = options.metadata === undefined ? NO_METADATA : frozenMetadata(options.metadata);
  const registry = registryOf(settings, role);
  registry.assertReady(role, budget);
  if (registry.hasToolLists) checkToolLists(registry, role);
  if (registry.hasGuardsOrHooks || settings.guards.length > 0 || settings.hooks.length > 0)
    warnOfUnknownToolNames(registry, settings);
  const instructions = instructionsFor(role, context);
  const session = options.session === undefined ? undefined : startingSession(options.session);
  const { store, clock, limits } = settings;
  const supervisor = new Supervisor(settings, {
    registry,
    onText,
    context,
    session,
    journal: (runId) => {
      const title = `${role.name}: ${task}`;
      return store && newJournal({ store, clock }, { runId, limits, title, session: session?.ref });
    },
  });
  const { run } = supervisor;
  const root = createAgent(run, {
    ...AS_ROOT,
    role,
    task,
    instructions,
    metadata,
    agentPath: role.name,
    depth: 0,
    parent: undefined,
    inherited: [],
    history: session?.opening,
    limits: tighterLimits(spendLimitsOf(role.budget), spendLimitsOf(budget)),
    wallTimeMs: earlier(role.budget.wallTimeMs, budget.wallTimeMs),
    deadlineAtMs,
  });
  run.journal?.created(root, {
    account: run.ledger.account(root.identity.agentId),
    isBackground: false,
  });
  session?.begin(run.runId);
  return new LiveRun(supervisor, root, { ...NO_HISTORY, event: () => started(run, root) });
}

function checkTask(task: unknown): void {
  if (typeof task === "object" && task !== null) {
    const advice =
      "Say in words what is to be done. A history that it follows upon is a session: start(role, task, { session }).";
    throw misdefinition("task", "text", task, advice);
  }
  checkText("task", task);
}

const NO_METADATA: JsonObject = Object.freeze({});
export const NO_HISTORY = { pauses: 0, answered: [] } as const;
export const AS_ROOT = { spawnCallId: undefined, spawnStepId: undefined } as const;

function earlier(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.min(left, right);
}

/** The first event of a run. */
export function started(run: RunRuntime, root: AgentRuntime): EventBody<"run.started"> {
  return { type: "run.started", ...runStartFacts(run, root) };
}

/** What the event says with which a run begins, or continues. */
export function runStartFacts(
  { tree, session }: RunRuntime,
  { role, task, account }: AgentRuntime,
) {
  return {
    schemaVersion: EVENT_SCHEMA_VERSION,
    role: role.name,
    task,
    limits: tree.limits,
    budget: account.remaining(),
    ...(session === undefined ? {} : { sessionId: session.ref.sessionId }),
  } as const;
}
