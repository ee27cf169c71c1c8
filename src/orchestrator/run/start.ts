// How a new run starts: everything is checked before anything is made.

import { misdefinition } from "../../kernel/check.ts";
import { isRecord, type JsonObject } from "../../kernel/json.ts";
import { instructionsFor, type AgentRole } from "../../agent/agent-role.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { spendLimitsOf, tighterLimits, type Budget } from "../../policies/budget.ts";
import { checkedContent, type MessageContent } from "../../protocol/message-content.ts";
import { idOf } from "../../protocol/ids.ts";
import type { Ownership } from "../../store/run-store.ts";
import { newJournal, titleOf } from "../durability/open-journal.ts";
import { startingSession } from "../sessions/sessions.ts";
import { createAgent, type NewAgent } from "../tree/create-agent.ts";
import type { RoleRegistry } from "../tree/role-registry.ts";
import { findStorage, registryOf, type Settings } from "../tree/settings.ts";
import type { NewRun } from "../tree/run-runtime.ts";
import { Supervisor } from "../tree/supervisor.ts";
import { checkToolLists, warnOfUnknownToolNames } from "./check-tool-lists.ts";
import { type StartOptions, frozenMetadata } from "./start-options.ts";
import { LiveRun, type RunBeginning, type LedParts } from "./live-run.ts";
import type { ReceivedMail } from "./run-mail.ts";

/** What a new run is asked for with. */
export interface NewStart {
  readonly role: AgentRole;
  readonly task: MessageContent;
  readonly options: StartOptions;
  /** Of its journal, which is there and empty. Default: it is made. */
  readonly ownership?: Ownership;
  /** What has come by mail before. */
  readonly mail?: readonly ReceivedMail[];
}

/** Starts a run with options that were checked; see `Orchestrator.start` for what it throws before anything is made. */
export function startRun(
  settings: Settings,
  { role, task: given, options, ownership, mail }: NewStart,
): LiveRun {
  const task = checkedTask(given);
  const { budget = {}, deadlineAtMs, onPiece, context, runId: chosen, traceparent } = options;
  const metadata = options.metadata === undefined ? NO_METADATA : frozenMetadata(options.metadata);
  const registry = checkedRoles(settings, role, budget);
  if (registry.hasGuardsOrHooks || settings.guards.length > 0 || settings.hooks.length > 0)
    warnOfUnknownToolNames(registry, settings);
  const instructions = instructionsFor(role, context);
  const session = options.session === undefined ? undefined : startingSession(options.session);
  const runId = idOf<"RunId">(chosen ?? settings.ids.next("run"));
  const storage = findStorage(settings);
  const head = { runId, limits: settings.limits, session: session?.ref, traceparent };
  const journal = storage && newJournal(storage, head, titleOf(role.name, task), ownership);
  const ofRole = registry.partsOf(role);
  const root = {
    role,
    task,
    agentPath: role.name,
    instructions,
    metadata,
    history: session?.opening,
    limits:
      options.budget === undefined
        ? ofRole.limits
        : tighterLimits(ofRole.limits, spendLimitsOf(budget)),
    wallTimeMs: earlier(role.budget.wallTimeMs, budget.wallTimeMs),
    deadlineAtMs,
  };
  const newRun = { registry, onPiece, context, runId, session, journal };
  // Under an id that the caller chose the store may have another run.
  const isRefusable = chosen !== undefined;
  const how = { isRefusable, traceparent, mail: mail && ([mail] as const) };
  return new LiveRun(startedParts(settings, newRun, root, how));
}

/** The roles of a run with this one at its root. Throws what `Orchestrator.start` throws of roles and models. */
export function checkedRoles(settings: Settings, root: AgentRole, budget: Budget): RoleRegistry {
  const registry = registryOf(settings, root);
  registry.assertReady(root, budget);
  if (registry.hasToolLists) checkToolLists(registry, root);
  return registry;
}

/** `traceparent`: the span of its caller. */
interface Outside extends Pick<RunBeginning, "mail" | "isRefusable"> {
  readonly traceparent?: string | undefined;
}

/** Creates the runtime of a run and its root agent. Returns the parts from which `LiveRun` runs them. */
export function startedParts(
  settings: Settings,
  newRun: NewRun,
  facts: NewAgent,
  { traceparent, ...how }: Outside,
): LedParts {
  const supervisor = new Supervisor(settings, newRun);
  const { run: runtime } = supervisor;
  let root: AgentRuntime;
  try {
    root = createAgent(runtime, facts);
  } catch (cause) {
    runtime.journal?.writer.abandon(); // Before its first record: the store knows nothing of the run.
    throw cause;
  }
  runtime.journal?.created(root, {
    account: runtime.ledger.account(root.identity.agentId),
    isBackground: false,
  });
  newRun.session?.begin(runtime.runId);
  const origin = {
    type: "run.started",
    ...(traceparent === undefined ? {} : { traceparent }),
  } as const;
  const beginning = { ...NO_HISTORY, ...how, origin };
  return { supervisor, root, beginning };
}

function checkedTask(task: unknown): MessageContent {
  const isHistory = Array.isArray(task) && task.some((one) => isRecord(one) && "role" in one);
  if (isHistory || isRecord(task)) {
    const advice =
      "Say in words what is to be done. A history that it follows upon is a session: start(role, task, { session }).";
    throw misdefinition("task", "text, or a list of parts", task, advice);
  }
  return checkedContent("task", task);
}

const NO_METADATA: JsonObject = Object.freeze({});
export const NO_HISTORY = { pauses: 0, answered: [] } as const;

function earlier(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.min(left, right);
}
