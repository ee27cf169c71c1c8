// The run of a replay before its first step: the recorded root, led by the real loop, tree, ledger and policies.

import { isRecord } from "../../kernel/json.ts";
import { stateFromKept } from "../../agent/kept-state.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { bringToLife } from "../../orchestrator/birth.ts";
import type { JournalRecord } from "../../orchestrator/journal/journal-record.ts";
import { RunJournal, type EffectKeeper } from "../../orchestrator/journal/run-journal.ts";
import { leadRun, NO_HISTORY, started } from "../../orchestrator/lead-run.ts";
import { settingsOf, type OrchestratorOptions } from "../../orchestrator/orchestrator-options.ts";
import { RoleRegistry } from "../../orchestrator/role-registry.ts";
import type { Run } from "../../orchestrator/run.ts";
import { runScope } from "../../orchestrator/run-scope.ts";
import type { RunShared } from "../../orchestrator/run-shared.ts";
import type { AgentNode } from "../../orchestrator/agent-node.ts";
import { RunSession } from "../../orchestrator/session/run-session.ts";
import { spendLimitsOf, tighterLimits } from "../../policies/budget.ts";
import { memoryStore } from "../../store/memory-store.ts";
import type { ManualClock } from "../manual-clock.ts";
import { idsOf, type Score } from "./score.ts";

/** What the run had besides its roles. */
export type Means = Pick<
  OrchestratorOptions,
  "roles" | "hooks" | "guards" | "sinks" | "hookTimeoutMs" | "graceMs"
>;

export interface SetParts {
  readonly score: Score;
  readonly records: readonly JournalRecord[];
  readonly clock: ManualClock;
  readonly role: AgentRole;
  readonly means: Means;
  readonly keeperOf: (node: AgentNode) => EffectKeeper;
  /** Is given what the replay writes. */
  readonly append: (record: JournalRecord) => void;
}

export function setStage(parts: SetParts): { readonly scope: RunShared; readonly run: Run } {
  const { score, clock, role, means, keeperOf, append, records } = parts;
  const { head } = score;
  const ids = idsOf(records);
  const { limits } = head;
  const settings = settingsOf({ ...means, limits, clock, ids, unanswered: "pause" });
  const registry = new RoleRegistry(role, settings.roles);
  const session =
    head.session === undefined
      ? undefined
      : RunSession.again(head.session, { store: memoryStore({ clock }), clock, ids });
  const writer = {
    append,
    broken: new Promise<never>(() => undefined),
    kept: () => Promise.resolve(),
    close: () => Promise.resolve(),
    abandon: () => undefined,
  };
  const journal = (): RunJournal => new RunJournal(writer, keeperOf);
  const scope = runScope(settings, { registry, onText: undefined, session, journal });
  const root = rootOf(scope, parts);
  scope.journal?.born(root, {
    account: scope.ledger.account(root.identity.agentId),
    isBackground: false,
  });
  const run = leadRun(scope, root, NO_HISTORY, { event: () => started(scope, root) });
  return { scope, run };
}

/** The root as it was started. What its role allows now may be less than what was recorded. */
function rootOf(scope: RunShared, { score, role }: SetParts): AgentNode {
  const { agent, account } = score.birth;
  const limitsMs = [account.timeLimitMs, role.budget.wallTimeMs].flatMap((ms) => ms ?? []);
  return bringToLife(scope, {
    role,
    task: agent.task,
    metadata: agent.metadata,
    agentPath: role.name,
    depth: 0,
    parent: undefined,
    spawnCallId: undefined,
    spawnStepId: undefined,
    inherited: [],
    history: historyOf(score),
    limits: tighterLimits(account.limits, spendLimitsOf(role.budget)),
    wallTimeMs: limitsMs.length === 0 ? undefined : Math.min(...limitsMs),
    deadlineAtMs: account.fixedDeadlineAtMs ?? undefined,
  });
}

/** What the session had before: all but the instructions. */
function historyOf({ head, opening }: Score) {
  if (head.session === undefined || !isRecord(opening)) return undefined;
  const { messages, tags } = stateFromKept(opening).conversation;
  return { messages: messages.slice(1), tags: tags.slice(1) };
}
