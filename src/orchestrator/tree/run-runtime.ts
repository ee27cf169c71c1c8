// RunRuntime: a run, and the parts that its agents share. Owns the tree, the ledger, the recorder
// and the limiter of the run. Refers to its journal, if it has a store.

import { CancelSignal } from "../../kernel/cancel-signal.ts";
import { SteadyClock } from "../../kernel/clock.ts";
import { EspalierError } from "../../kernel/error.ts";
import type { IdSource } from "../../kernel/id-source.ts";
import { PendingAnswers } from "../../agent/pending-answers.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import type { AgentRun, AgentSupervisor } from "../../agent/run-ports.ts";
import { notify } from "../../hooks/run-chain.ts";
import type { MessageRetentionPolicy } from "../../policies/retention-policy.ts";
import type { AgentId, QuestionId, RunId } from "../../protocol/ids.ts";
import type { Answer } from "../../protocol/question.ts";
import type { EventBody, EventScope, EventSink } from "../../protocol/event.ts";
import type { ErrorRecord } from "../../protocol/stop.ts";
import type { LedgerWatch, ReachedThreshold } from "../../budget/lease.ts";
import { BudgetLedger } from "../../budget/ledger.ts";
import type { BudgetGrant } from "../../budget/ledger-grant.ts";
import type { RestoredRun } from "../durability/restored-run.ts";
import type { RunJournal } from "../durability/run-journal.ts";
import type { RunSession } from "../sessions/run-session.ts";
import { EventRecorder } from "../../run-services/event-recorder.ts";
import { GuardedTracing } from "../../run-services/guarded-tracing.ts";
import { RunLimiter } from "../../run-services/run-limiter.ts";
import { PartEmitter, type StreamPartListener } from "../../run-services/part-emitter.ts";
import type { Settings } from "./orchestrator-settings.ts";
import type { RoleRegistry } from "./role-registry.ts";
import { RunDefinitions } from "../../run-services/run-definitions.ts";
import { RunTree } from "./run-tree.ts";

/** Facts from which a run is created, besides the settings of its orchestrator. */
export interface NewRun {
  readonly registry: RoleRegistry;
  readonly onStreamPart: StreamPartListener | undefined;
  readonly context: unknown;
  readonly runId: RunId;
  /** Restored run that continues. Absent for a new one. */
  readonly restored?: RestoredRun;
  readonly answers?: ReadonlyMap<QuestionId, Answer>;
  /** Session of the run, if it has one. */
  readonly session?: RunSession | undefined;
  /** Absent if the run has no store. */
  readonly journal?: RunJournal | undefined;
}

/** Class `Supervisor`, which imports this file. */
type SupervisorClass = new (run: RunRuntime) => AgentSupervisor<AgentRuntime>;

export class RunRuntime implements AgentRun<AgentRuntime>, LedgerWatch {
  readonly runId: RunId;
  readonly settings: Settings;
  readonly registry: RoleRegistry;
  readonly clock: SteadyClock;
  readonly ids: IdSource;
  readonly tree: RunTree;
  readonly ledger: BudgetLedger;
  readonly recorder: EventRecorder;
  readonly limiter: RunLimiter;
  readonly definitions: RunDefinitions;
  readonly supervisor: AgentSupervisor<AgentRuntime>;
  readonly journal: RunJournal | undefined;
  readonly session: RunSession | undefined;
  readonly retention: MessageRetentionPolicy | undefined;
  /** `undefined` if the run has no store. */
  readonly onOperation: LedgerWatch["onOperation"];
  readonly pauseSignal = new CancelSignal();
  readonly answers: ReadonlyMap<QuestionId, Answer> | undefined;
  #pendingAnswers: PendingAnswers | undefined;
  isTimeWatched = false;
  /** Created for the first listener. */
  pieces: PartEmitter | undefined;
  readonly context: unknown;
  /**
   * First call that a `ScriptedModel` did not expect: an error of the test, which no agent, hook or
   * summary may catch.
   */
  mismatch: EspalierError | undefined;

  constructor(settings: Settings, newRun: NewRun, Supervisor: SupervisorClass) {
    const { registry, onStreamPart, context, restored, session, answers } = newRun;
    const { ids, tracing, limits } = settings;
    this.settings = settings;
    this.registry = registry;
    if (settings.onStreamPart !== undefined) this.openPieces().subscribe(settings.onStreamPart);
    if (onStreamPart !== undefined) this.openPieces().subscribe(onStreamPart);
    this.context = context;
    this.session = session;
    this.retention = session?.settings.retention;
    this.answers = answers;
    this.ids = ids;
    this.clock = new SteadyClock(settings.clock, restored?.pausedAtMs);
    this.runId = newRun.runId;
    this.journal = newRun.journal;
    this.tree = new RunTree(restored?.limits ?? limits, restored);
    this.recorder = new EventRecorder({
      clock: this.clock,
      tracing: tracing && new GuardedTracing(tracing, this.clock),
      activeScopes: () => this.tree.activeScopes,
      journal: this.journal,
      sinks:
        settings.hooks.length > 0 || registry.hasGuardsOrHooks
          ? [...settings.sinks, ...createObserverSinks(this)]
          : settings.sinks,
      eventCount: restored?.eventCount ?? 0,
    });
    this.journal?.writer.onPersisted((seq) => this.recorder.reportPersisted(this.runId, seq));
    const { journal } = this;
    this.onOperation = journal && ((done) => journal.append({ type: "ledger", done }));
    this.ledger = new BudgetLedger(this.clock, this);
    this.definitions = new RunDefinitions(restored?.definitions, this.journal);
    this.limiter = new RunLimiter(settings.concurrency, settings.throttle, this.journal);
    this.supervisor = new Supervisor(this);
  }

  openPieces(): PartEmitter {
    this.pieces ??= new PartEmitter();
    return this.pieces;
  }

  /** Records that a threshold of a limit was reached. */
  onThreshold({ agentId, ...reached }: ReachedThreshold): void {
    const owner = this.tree.find(agentId);
    if (owner === undefined) return;
    const scope = createScopeWithoutExecution(owner);
    this.recorder.record(scope, { type: "budget.threshold_reached", ...reached });
  }

  /**
   * Raises limits of an agent's account. Returns a function that records the grant. `field` names
   * the grant in errors.
   *
   * @throws EspalierError `invalid_argument` for an axis on which the account has no limit.
   */
  grantBudget(node: AgentRuntime, grant: BudgetGrant, field?: string): () => void {
    const { agentId, agentPath: accountPath } = node.identity;
    const { by, budget } = this.ledger.grant(agentId, grant, field);
    node.time?.resetTimer();
    const remaining = node.account.remaining();
    const granted = { type: "budget.granted", accountPath, budget, by, remaining } as const;
    return () => this.recorder.record(createScopeWithoutExecution(node), granted);
  }

  get pendingAnswers(): PendingAnswers {
    this.#pendingAnswers ??= new PendingAnswers();
    return this.#pendingAnswers;
  }

  watchTime(): void {
    if (this.isTimeWatched) return;
    this.isTimeWatched = true;
    for (const agent of this.tree.nodes) agent.watchTime();
  }

  countProblem(agentId: AgentId, body: EventBody): void {
    if (body.type === "subagent.refused") this.tree.countRefusal(body.error.code);
    if (body.type === "signal.raised" && body.signal.reason.code === "error")
      this.tree.noteFailure(agentId);
  }

  noteFailedCall(agentPath: string, error: ErrorRecord): void {
    if (error.data["error"] !== "script_mismatch") return;
    const message = `${agentPath}: ${error.message}`;
    this.mismatch ??= new EspalierError({ code: "script_mismatch", message, data: { agentPath } });
  }
}

/**
 * Returns the ids of an event about the run itself or an account, which belongs to no execution:
 * accounts outlive them. The event belongs to the account's agent, also if the agent has settled.
 */
export function createScopeWithoutExecution({ identity }: AgentRuntime): EventScope {
  return { ...identity, executionId: null, stepId: null, callId: null };
}

/**
 * Returns sinks that pass every event to the observers of the orchestrator and of its agent's role.
 * Empty without observers.
 */
function createObserverSinks(run: RunRuntime): readonly EventSink[] {
  const { settings, registry } = run;
  const hooks = [...settings.hooks, ...[...registry.all].flatMap((role) => role.hooks)];
  if (!hooks.some((hook) => hook.kind === "observe")) return [];
  const emit: EventSink["emit"] = (event) => {
    const node = run.tree.find(event.agentId);
    if (node !== undefined)
      notify(registry.getParts(node.role).hooks.observers(event.type), event, run.context);
  };
  return [{ emit }];
}
