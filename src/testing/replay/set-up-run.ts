// Sets up the run of a replay: the real loop, tree, ledger and policies, with the recorded agents.

import { stateFromPersisted } from "../../agent/agent-snapshot.ts";
import { instructionsFor, type AgentRole } from "../../agent/agent-role.ts";
import { continuedParts, readyToContinue } from "../../orchestrator/run/continue-run.ts";
import type { JournalRecord } from "../../orchestrator/durability/journal-record.ts";
import { RunJournal, type MakeEffects } from "../../orchestrator/durability/run-journal.ts";
import { readyToFork } from "../../orchestrator/run/fork.ts";
import type { LedParts } from "../../orchestrator/run/live-run.ts";
import { startedParts } from "../../orchestrator/run/start.ts";
import type { OrchestratorOptions } from "../../orchestrator/tree/orchestrator-options.ts";
import { registryOf, settingsOf, type Settings } from "../../orchestrator/tree/settings.ts";
import { rootRole } from "../../orchestrator/run/check-continuation.ts";
import { RoleRegistry } from "../../orchestrator/tree/role-registry.ts";
import { RunSession } from "../../orchestrator/sessions/run-session.ts";
import { spendLimitsOf, tighterLimits } from "../../policies/budget.ts";
import { memoryStore } from "../../store/memory-store.ts";
import type { ManualClock } from "../manual-clock.ts";
import { isGrant } from "./action.ts";
import type { Segment } from "./recording.ts";
import { idsOf, type Beginning, type ContinuedStart, type Start } from "./segment.ts";

/** Options of the orchestrator that a replay takes. */
export const MEANS = [
  "roles",
  "hooks",
  "guards",
  "prices",
  "hookTimeoutMs",
  "graceMs",
  "sinks",
] as const;

/** A segment, and the code of its run. */
export interface Replayable {
  readonly beginning: Beginning;
  readonly segment: Segment;
  /** All records of the recording. */
  readonly records: readonly JournalRecord[];
  readonly role: AgentRole;
  readonly context: unknown;
  readonly means: Pick<OrchestratorOptions, (typeof MEANS)[number]>;
}

export function setUpRun(parts: Replayable, clock: ManualClock, journal: RunJournal): LedParts {
  const { beginning, records, means, role } = parts;
  const { limits } = beginning.type === "started" ? beginning.head : beginning.run;
  const ids = idsOf(records, beginning);
  // The sessions of the user's are not written.
  const settings = settingsOf({ ...means, limits, clock, ids, store: memoryStore({ clock }) });
  if (beginning.type === "started") return startAgain(settings, parts, beginning, journal);
  if (beginning.type !== "forked") return continueAgain(settings, parts, beginning, journal);
  const own = rootRole(beginning.run, role, settings.roles);
  const registry = new RoleRegistry(own, settings, { isReplacing: true });
  const { run, message, forkedFrom } = beginning;
  const ready = readyToFork(run, registry, message, parts);
  return continuedParts(settings, run, ready, { journal, forkedFrom });
}

/** Creates the root. Its limits are the recorded ones, or those of its role if they are tighter. */
function startAgain(
  settings: Settings,
  { role, context }: Replayable,
  { head, root, account, opening }: Start,
  journal: RunJournal,
): LedParts {
  const registry = registryOf(settings, role);
  const session =
    head.session && new RunSession(head.session, { ...settings, store: memoryStore() });
  const { messages, tags } = stateFromPersisted(opening).conversation;
  const limitsMs = [account.timeLimitMs, role.budget.wallTimeMs].flatMap((ms) => ms ?? []);
  const newRun = { registry, onPiece: undefined, context, session, journal };
  const facts = {
    role,
    task: root.task,
    instructions: instructionsFor(role, context),
    metadata: root.metadata,
    // The session has all but the instructions.
    history: session && { messages: messages.slice(1), tags: tags.slice(1) },
    limits: tighterLimits(account.limits, spendLimitsOf(role.budget)),
    wallTimeMs: limitsMs.length === 0 ? undefined : Math.min(...limitsMs),
    deadlineAtMs: account.fixedDeadlineAtMs ?? undefined,
  };
  return startedParts(settings, newRun, facts, { isRefusable: false });
}

function continueAgain(
  settings: Settings,
  parts: Replayable,
  { run, folded, given }: ContinuedStart,
  journal: RunJournal,
): LedParts {
  const answers = given.flatMap((record) => (record.type === "answers" ? record.answers : []));
  const grants = given.filter(isGrant).map(({ done: { agentId, grant } }) => {
    const { agentPath = "" } = run.agents.find((agent) => agent.agentId === agentId) ?? {};
    return { budget: grant.budget, by: grant.by, agentPath };
  });
  const arrival = { answers, wasCutOff: folded?.status === "open", areAllNeeded: false };
  const ready = readyToContinue(settings, run, { ...parts, grants }, arrival);
  const { failure } = parts.segment.records.find((record) => record.type === "recovered") ?? {};
  return continuedParts(settings, run, ready, { journal, folded, failure });
}

/** Makes a journal that hands on its records and keeps nothing. */
export function replayJournal(
  append: (record: JournalRecord) => void,
  effects: MakeEffects,
): RunJournal {
  const writer = {
    append,
    noteProgress: () => undefined,
    broken: new Promise<never>(() => undefined),
    claimed: () => undefined,
    whenKept: () => undefined,
    hasGivenUp: false,
    isHeld: false,
    kept: () => Promise.resolve(),
    keptUnderWay: () => Promise.resolve(),
    unread: () => Promise.resolve([]),
    hold: () => false,
    resume: () => false,
    giveUp: () => Promise.resolve(false),
    close: () => Promise.resolve(),
    abandon: () => undefined,
  };
  return new RunJournal(writer, { effects, hasDeadlines: false });
}
