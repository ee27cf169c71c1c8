import type { Clock } from "../../kernel/clock.ts";
import type { IdSource } from "../../kernel/id-source.ts";
import type { Pace } from "../../kernel/pace.ts";
import type { AgentIdentity } from "../../agent/agent-context.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import type { QuestionDesk } from "../../agent/approver.ts";
import type { Slots } from "../../agent/local-options.ts";
import type { HookSet } from "../../hooks/hook-set.ts";
import type { RetryPolicy } from "../../model/retry.ts";
import type { QuestionId, RunId } from "../../protocol/ids.ts";
import type { Answer } from "../../protocol/question.ts";
import type { NamedGuard } from "../../tools/tool-guard.ts";
import type { ToolSet } from "../../tools/tool-set.ts";
import type { BudgetLedger } from "../budget/ledger.ts";
import type { EventRecorder } from "./event-recorder.ts";
import type { RunDefinitions } from "./run-definitions.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import type { RoleRegistry } from "./role-registry.ts";
import type { RunTree } from "./run-tree.ts";
import type { RunSession } from "../sessions/run-session.ts";

/** What the agents of one run share. */
export interface RunShared {
  readonly runId: RunId;
  readonly tree: RunTree;
  readonly ledger: BudgetLedger;
  readonly slots: Slots;
  readonly pace: Pace;
  readonly recorder: EventRecorder;
  /** Where the run is kept; undefined: nowhere. */
  readonly journal: RunJournal | undefined;
  readonly definitions: RunDefinitions;
  readonly registry: RoleRegistry;
  /** Its time stamps never go back: see `steadyClock`. */
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly graceMs: number;
  readonly retry: RetryPolicy;
  readonly hookTimeoutMs: number;
  readonly desk: QuestionDesk;
  /** The orchestrator's own; those of roles come after. */
  readonly guards: readonly NamedGuard[];
  /** The session on which the run was started. */
  readonly session: RunSession | undefined;
  /** The answers with which the run was resumed. */
  readonly answers: ReadonlyMap<QuestionId, Answer>;
  readonly onText: ((piece: TextPiece) => void) | undefined;
  /** The tools of a role, with the one by which it delegates if it may: built once for all its agents. */
  toolsOf(role: AgentRole): ToolSet;
  /** `CacheKey.role` of a role. */
  cacheKeyOf(role: AgentRole): string;
  /** The orchestrator's hooks and those of the role, compiled. */
  hooksOf(role: AgentRole): HookSet;
}

/** A piece of a model's text, as it arrives. Live only: no event, not kept. */
export interface TextPiece {
  readonly agentId: AgentIdentity["agentId"];
  readonly agentPath: string;
  readonly text: string;
}
