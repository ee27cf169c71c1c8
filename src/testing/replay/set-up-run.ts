// The run of a replay before its first step: the recorded root, or all agents as they were, under the real loop, tree, ledger and policies.

import { isRecord } from "../../kernel/json.ts";
import { stateFromPersisted } from "../../agent/agent-snapshot.ts";
import { instructionsFor, type AgentRole } from "../../agent/agent-role.ts";
import { continuedParts, readyToContinue } from "../../orchestrator/run/continue-run.ts";
import type { JournalRecord } from "../../orchestrator/durability/journal-record.ts";
import { RunJournal, type MakeEffects } from "../../orchestrator/durability/run-journal.ts";
import { forkedParts } from "../../orchestrator/run/fork.ts";
import type { LedParts } from "../../orchestrator/run/live-run.ts";
import { startedParts } from "../../orchestrator/run/start.ts";
import type { OrchestratorOptions } from "../../orchestrator/tree/orchestrator-options.ts";
import { registryOf, settingsOf } from "../../orchestrator/tree/settings.ts";
import { rootRole } from "../../orchestrator/run/check-continuation.ts";
import { RoleRegistry } from "../../orchestrator/tree/role-registry.ts";
import { RunSession } from "../../orchestrator/sessions/run-session.ts";
import { spendLimitsOf, tighterLimits } from "../../policies/budget.ts";
import type { ManualClock } from "../manual-clock.ts";
import { idsOf, type ReplayScript } from "./replay-script.ts";
import { fakeSessionStore } from "./fake-session-store.ts";
import type { Beginning, ForkStart, ContinuedStart, Segment, Start } from "./segment.ts";

/** What is replayed, and with what. */
export interface Replayable {
  readonly script: ReplayScript;
  readonly beginning: Beginning;
  readonly segment: Segment;
  /** Of the whole recording. */
  readonly records: readonly JournalRecord[];
  readonly role: AgentRole;
  readonly context: unknown;
  /** What the run had besides its roles. */
  readonly means: Pick<
    OrchestratorOptions,
    "roles" | "hooks" | "guards" | "prices" | "sinks" | "hookTimeoutMs" | "graceMs"
  >;
}

export interface SetUpParts extends Replayable {
  readonly clock: ManualClock;
  readonly effects: MakeEffects;
  /** Is given what the replay writes. */
  readonly append: (record: JournalRecord) => void;
}

export function setUpRun(parts: SetUpParts): LedParts {
  const { beginning } = parts;
  switch (beginning.type) {
    case "started":
      return startAnew(parts, beginning);
    case "forked":
      return forkAgain(parts, beginning);
    case "resumed":
    case "recovered":
      return continueAgain(parts, beginning);
  }
}

/** With the clock and the ids of the recording. No approval handler: the answers are in the recording. */
function settingsFor(
  { clock, means, records, beginning }: SetUpParts,
  limits: OrchestratorOptions["limits"] & object,
  more: Pick<OrchestratorOptions, "store"> = {},
): ReturnType<typeof settingsOf> {
  const ids = idsOf(records, beginning);
  return settingsOf({ ...means, limits, clock, ids, unanswered: "pause", ...more });
}

/** The root as it was started. What its role allows now may be less than what was recorded. */
function startAnew(parts: SetUpParts, { head, rootRecord, opening }: Start): LedParts {
  const { clock, role, context, segment } = parts;
  const settings = settingsFor(parts, head.limits);
  const { ids } = settings;
  const registry = registryOf(settings, role);
  const { session: ref } = head;
  const store = fakeSessionStore(ref, segment.records);
  const session = ref && new RunSession(ref, { store, clock, ids });
  const journal = (): RunJournal => journalOf(parts);
  const { agent, account } = rootRecord;
  const limitsMs = [account.timeLimitMs, role.budget.wallTimeMs].flatMap((ms) => ms ?? []);
  const root = {
    role,
    task: agent.task,
    instructions: instructionsFor(role, context),
    metadata: agent.metadata,
    history: ref && historyIn(opening),
    limits: tighterLimits(account.limits, spendLimitsOf(role.budget)),
    wallTimeMs: limitsMs.length === 0 ? undefined : Math.min(...limitsMs),
    deadlineAtMs: account.fixedDeadlineAtMs ?? undefined,
  };
  return startedParts(settings, { registry, onPiece: undefined, context, session, journal }, root);
}

function forkAgain(parts: SetUpParts, { run, message, forkedFrom }: ForkStart): LedParts {
  const settings = settingsFor(parts, run.limits);
  const role = rootRole(run, parts.role, settings.roles);
  const registry = new RoleRegistry(role, settings, { isReplacing: true });
  const journal = (): RunJournal => journalOf(parts);
  return forkedParts(settings, { run, registry, message, forkedFrom, journal }, parts);
}

/** By the code of a resume. */
function continueAgain(parts: SetUpParts, beginning: ContinuedStart): LedParts {
  const { role, context, segment } = parts;
  const { run, folded, answers, grants } = beginning;
  const store = fakeSessionStore(run.session, segment.records); // The run is not persisted.
  const settings = settingsFor(parts, run.limits, { store });
  const given = { answers, wasCutOff: folded?.status === "open", areAllNeeded: false };
  const ready = readyToContinue(settings, run, { role, context, grants }, given);
  const { failure } = segment.records.find((record) => record.type === "recovered") ?? {};
  return continuedParts(settings, run, ready, { journal: journalOf(parts), folded, failure });
}

function journalOf({ append, effects }: SetUpParts): RunJournal {
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

/** What the session had before: all but the instructions. */
function historyIn(opening: unknown) {
  if (!isRecord(opening)) return undefined;
  const { messages, tags } = stateFromPersisted(opening).conversation;
  return { messages: messages.slice(1), tags: tags.slice(1) };
}
