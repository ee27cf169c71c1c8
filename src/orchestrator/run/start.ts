// Prepares a new run: checks everything before anything is created.

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
import type { PreparedRun } from "./live-run.ts";
import type { ReceivedMail } from "./run-mail.ts";

export interface NewStart {
  readonly role: AgentRole;
  readonly task: MessageContent;
  readonly options: StartOptions;
  /** The right to write its journal, which exists and is empty. Default: the journal is created. */
  readonly ownership?: Ownership;
  /** Mail that came before. */
  readonly mail?: readonly ReceivedMail[];
}

/** Returns the parts of a new run; see `Orchestrator.start` for what it throws before anything is created. */
export function prepareStart(
  settings: Settings,
  { role, task: given, options, ownership, mail }: NewStart,
): PreparedRun {
  const isHistory = Array.isArray(given) && given.some((one) => isRecord(one) && "role" in one);
  if (isHistory || isRecord(given)) {
    const advice =
      "Say in words what is to be done. A history that it follows upon is a session: start(role, task, { session }).";
    throw misdefinition("task", "text, or a list of parts", given, advice);
  }
  const task = checkedContent("task", given);
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
  return assembleRun(settings, newRun, root, how);
}

/** The roles of a run with this one at its root. Throws what `Orchestrator.start` throws of roles and models. */
export function checkedRoles(settings: Settings, root: AgentRole, budget: Budget): RoleRegistry {
  const registry = registryOf(settings, root);
  registry.assertReady(root, budget);
  if (registry.hasToolLists) checkToolLists(registry, root);
  return registry;
}

/** Creates the runtime of a run and its root agent. `traceparent`: the span of the caller. */
export function assembleRun(
  settings: Settings,
  newRun: NewRun,
  facts: NewAgent,
  how: Pick<PreparedRun, "mail" | "isRefusable"> & { readonly traceparent?: string | undefined },
): PreparedRun {
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
  const { traceparent, mail, isRefusable } = how;
  const origin = { type: "run.started", ...(traceparent && { traceparent }) } as const;
  return { ...NO_PAUSES, supervisor, root, mail, isRefusable, origin };
}

const NO_METADATA: JsonObject = Object.freeze({});
export const NO_PAUSES = { pauses: 0, answered: [] } as const;

function earlier(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.min(left, right);
}
