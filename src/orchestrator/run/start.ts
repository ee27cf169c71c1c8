// How a new run starts: everything is checked before anything is made.

import type { JsonObject } from "../../kernel/json.ts";
import { instructionsFor, type AgentRole } from "../../agent/agent-role.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { spendLimitsOf, tighterLimits } from "../../policies/budget.ts";
import { EVENT_SCHEMA_VERSION, type EventBody } from "../../protocol/event.ts";
import type { RunId, SessionId } from "../../protocol/ids.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import type { SessionRef } from "../sessions/session-ref.ts";
import { startingSession } from "../sessions/sessions.ts";
import { createAgent } from "../tree/create-agent.ts";
import type { Settings } from "../tree/orchestrator-options.ts";
import { RoleRegistry } from "../tree/role-registry.ts";
import type { RunRuntime } from "../tree/run-runtime.ts";
import { Supervisor } from "../tree/supervisor.ts";
import { checkToolLists } from "./check-tool-lists.ts";
import { frozenMetadata, type StartOptions } from "./run-options.ts";
import { LiveRun } from "./run.ts";
import { warnOfStrayToolNames } from "./stray-tool-names.ts";

/** What is to run. */
export interface RunRequest {
  readonly role: AgentRole;
  readonly task: string;
  readonly options: StartOptions;
  /** Makes the journal of the run, where runs are kept. */
  readonly journal: (runId: RunId, session: SessionRef | undefined) => RunJournal | undefined;
}

/** Starts a run; see `Orchestrator.start` for what it throws before anything is made. */
export function startRun(settings: Settings, request: RunRequest): LiveRun {
  const { role, task, options, journal } = request;
  const { budget = {}, deadlineAtMs, onText, context } = options;
  const metadata = options.metadata === undefined ? NO_METADATA : frozenMetadata(options.metadata);
  const registry = new RoleRegistry(role, settings.roles);
  registry.assertReady(role, budget);
  checkToolLists(registry, role);
  warnOfStrayToolNames(registry, settings);
  const instructions = instructionsFor(role, context);
  const session = startingSession(options.session);
  const supervisor = new Supervisor(settings, {
    registry,
    onText,
    context,
    session,
    journal: (runId) => journal(runId, session?.ref),
  });
  const { run: runtime } = supervisor;
  const root = createAgent(runtime, {
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
  runtime.journal?.created(root, {
    account: runtime.ledger.account(root.identity.agentId),
    isBackground: false,
  });
  session?.begin(runtime.runId);
  return new LiveRun(supervisor, root, { ...NO_HISTORY, event: () => started(runtime, root) });
}

const NO_METADATA: JsonObject = Object.freeze({});
export const NO_HISTORY = { pauses: 0, answered: [] } as const;
export const AS_ROOT = { spawnCallId: undefined, spawnStepId: undefined } as const;

function earlier(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.min(left, right);
}

/** The first event of a run. */
export function started(run: RunRuntime, root: AgentRuntime): EventBody<"run.started"> {
  const { tree } = run;
  return {
    type: "run.started",
    schemaVersion: EVENT_SCHEMA_VERSION,
    role: root.role.name,
    task: root.task,
    limits: tree.limits,
    budget: root.account.remaining(),
    ...sessionOf(run),
  };
}

/** The session of a run, for the event with which it begins. */
export function sessionOf({ session }: RunRuntime): { readonly sessionId?: SessionId } {
  return session === undefined ? {} : { sessionId: session.ref.sessionId };
}
