// Orchestrator: the facade. Checks what it is given, at once and whole, then hands out runs.

import { checkText } from "../kernel/check.ts";
import { Pace } from "../kernel/pace.ts";
import { checkRole, type AgentRole } from "../agent/agent-role.ts";
import { EVENT_SCHEMA_VERSION, type EventBody } from "../protocol/event.ts";
import { RunIdSchema } from "../protocol/ids.ts";
import { spendLimitsOf, tighterLimits } from "../policies/budget.ts";
import { hookSet, joinHooks } from "../hooks/hook-set.ts";
import type { Answer } from "../protocol/question.ts";
import { toolsOf } from "./agent-assembly.ts";
import type { AgentNode } from "./agent-node.ts";
import { bringBack, bringToLife } from "./birth.ts";
import { BudgetLedger } from "./budget-ledger.ts";
import { checkAnswers } from "./check-answers.ts";
import { checkToolLists } from "./check-tool-lists.ts";
import { concluded, lateEnds, resultOf } from "./conclude.ts";
import { EventRecorder } from "./event-recorder.ts";
import { forkedRun } from "./fork-run.ts";
import { hasObserver, observerSink } from "./observer-sink.ts";
import { settingsOf, type OrchestratorOptions, type Settings } from "./orchestrator-options.ts";
import { pausedRunOf, restore, rolesOf, type PauseFacts } from "./pause-run.ts";
import { readPausedRun, type PausedRun } from "./paused-run.ts";
import { alreadyResumed, assertReady, grantsFor, rootRole, stoppedNotice } from "./resumption.ts";
import { RoleRegistry } from "./role-registry.ts";
import { Run } from "./run.ts";
import {
  checkForkOptions,
  checkResumeOptions,
  checkStartOptions,
  frozenMetadata,
  type ForkOptions,
  type ResumeOptions,
  type StartOptions,
} from "./run-options.ts";
import type { RunShared } from "./run-shared.ts";
import { RunTree } from "./run-tree.ts";
import { scheduler } from "./scheduler.ts";
import { live, reviveDetached, settleDetached } from "./supervisor.ts";
import { grantBudget, tellThreshold } from "./tell-budget.ts";

/** Runs trees of agents. Holds nothing of its runs but which pauses were gone on from; one orchestrator serves any number of them at once. */
export class Orchestrator {
  readonly #settings: Settings;
  /** Pauses that were gone on from: what was approved once is not run twice (X17). */
  readonly #resumed = new Set<string>();

  /** @throws EspalierError `invalid_option`, naming the option, what was expected and what came. */
  constructor(options: OrchestratorOptions = {}) {
    this.#settings = settingsOf(options);
  }

  /**
   * Starts a run: `role` at the root, told to do `task`. It begins in the next tick.
   *
   * @throws EspalierError before anything has started, if the roles do not fit together (`unknown_subagent`, `duplicate_role`), a
   * model cannot work (`missing_api_key`), a cost limit covers an unknown price (`price_unknown`), a context policy names a tool that
   * nobody has (`unknown_tool`), or an option is not usable.
   */
  start(role: AgentRole, task: string, options: StartOptions = {}): Run {
    checkRole("role", role);
    checkText("task", task);
    checkStartOptions(options);
    const { budget = {}, deadlineAtMs, onText } = options;
    const metadata = frozenMetadata(options.metadata === undefined ? {} : options.metadata);
    const registry = new RoleRegistry(role, this.#settings.roles);
    registry.assertReady(role, budget);
    checkToolLists(registry, role);
    registry.warnOfStrayGuards();
    const scope = this.#scope({ registry, onText });
    const root = bringToLife(scope, {
      role,
      task,
      metadata,
      agentPath: role.name,
      depth: 0,
      parent: undefined,
      spawnCallId: undefined,
      spawnStepId: undefined,
      inherited: [],
      limits: tighterLimits(spendLimitsOf(role.budget), spendLimitsOf(budget)),
      wallTimeMs: earlier(role.budget.wallTimeMs, budget.wallTimeMs),
      deadlineAtMs,
    });
    return this.#run(scope, root, NO_HISTORY, { event: () => started(scope, root) });
  }

  /**
   * Goes on with a run at rest, in this process or another. A paused one: the same run and executions, with the answers to its open
   * questions (R28). One that a limit stopped: the same run with its history, as a further execution of its root, once more budget is
   * granted (X7). `stored`: the `pausedRun` of a result or the `snapshot()` of a run, or its JSON text. The roles must be those that it
   * was started with, by name.
   *
   * @throws EspalierError before anything has happened, and the run can still be resumed: `unsupported_version` or
   * `invalid_paused_run` if it cannot be read, has ended for good or its roles are not there; `invalid_answer` if an answer is missing,
   * unknown, a duplicate, of the wrong kind, for other arguments, late, or was given before; `already_resumed` if this orchestrator went
   * on from this pause before; `invalid_option` for a grant that cannot be made; and what `start` throws of roles and models.
   */
  resume(
    stored: PausedRun | string,
    answers: readonly Answer[] = [],
    options: ResumeOptions = {},
  ): Run {
    checkResumeOptions(options);
    const { onText, role, grants: asked = [] } = options;
    const run = readPausedRun(stored);
    const registry = new RoleRegistry(
      rootRole(run, role, this.#settings.roles),
      this.#settings.roles,
    );
    const roles = rolesOf(run, registry);
    const nowMs = this.#settings.clock.nowMs();
    const given = checkAnswers(run, answers, {
      isOverdue: ({ deadlineAtMs }) => deadlineAtMs !== null && nowMs >= deadlineAtMs,
      toolsOf: ({ agentId }) => toolsOf(roles.get(agentId) ?? registry.root, registry),
    });
    assertReady(run, registry);
    const grants = grantsFor(run, asked);
    const pause = `${run.runId} ${run.pauses}`;
    if (this.#resumed.has(pause)) throw alreadyResumed(run);
    const scope = this.#scope({ registry, onText, run, answers: given });
    const rested = restore(scope, run, roles);
    const tellGrants = grants.map(({ agentId, field, ...grant }) => {
      const node = scope.tree.find(agentId) ?? rested;
      return grantBudget(scope, node, grant, field);
    });
    const root = rested.hasEnded
      ? bringBack(scope, rested, { ...AS_ROOT, task: rested.task, message: stoppedNotice(run) })
      : rested;
    this.#resumed.add(pause);
    const questionIds = run.questions.map(({ questionId }) => questionId);
    const history = { pauses: run.pauses, answered: [...run.answered, ...questionIds] };
    const event = (): EventBody<"run.resumed"> => ({
      type: "run.resumed",
      schemaVersion: EVENT_SCHEMA_VERSION,
      role: root.role.name,
      task: root.task,
      limits: scope.tree.limits,
      budget: scope.ledger.remaining(root.identity.agentId),
      pauses: run.pauses,
      pausedMs: Math.max(0, nowMs - run.pausedAtMs),
      previousTraceId: run.traceId,
      answers: given.size,
    });
    const afterwards = (): void => {
      for (const tell of tellGrants) tell();
      reviveDetached(scope);
    };
    return this.#run(scope, root, history, { event, afterwards });
  }

  /**
   * Starts a run that goes on from a step of another one's root: with its history up to there and the subagents that it had started and
   * that have ended, under ids of its own. Nothing is spent yet, limits are those of the original, and the original stays as it was (X24).
   * `stored`: the `snapshot()` or the `pausedRun` of a run, or its JSON text.
   *
   * @throws EspalierError before anything has happened: `unsupported_version` or `invalid_paused_run` if it cannot be read or its roles
   * are not there; `invalid_option` if the root has no such step, or its history up to it was left out by a compaction; and what `start`
   * throws of roles and models.
   */
  fork(stored: PausedRun | string, options: ForkOptions = {}): Run {
    checkForkOptions(options);
    const { onText, role } = options;
    const original = readPausedRun(stored);
    const registry = new RoleRegistry(
      rootRole(original, role, this.#settings.roles),
      this.#settings.roles,
    );
    const { ids, clock } = this.#settings;
    const { run, message, forkedFrom } = forkedRun(original, options, { ids, clock });
    const roles = rolesOf(run, registry);
    assertReady(run, registry);
    const scope = this.#scope({ registry, onText, run });
    const rested = restore(scope, run, roles);
    const root = bringBack(scope, rested, { ...AS_ROOT, task: rested.task, message });
    return this.#run(scope, root, NO_HISTORY, {
      event: () => ({ ...started(scope, root), forkedFrom }),
    });
  }

  /** The handle on a run, from its beginning or from a rest. */
  #run(
    scope: RunShared,
    root: AgentNode,
    history: Pick<PauseFacts, "pauses" | "answered">,
    { event, afterwards = () => undefined }: Opening,
  ): Run {
    const { runId, tree, recorder } = scope;
    const place = { ...root.identity, executionId: null, stepId: null, callId: null };
    let traceId = "";
    const tried = new Set<AgentNode>();
    return new Run({
      runId,
      root,
      tree,
      subscribe: (sink) => recorder.subscribe(sink),
      begin: () => {
        ({ traceId } = recorder.record(place, event()));
        afterwards();
        return live(scope, root);
      },
      grant: (node, grant) => grantBudget(scope, node, grant),
      goOn: () => {
        if (root.hasEnded) return undefined;
        const late = lateEnds(tree).filter((node) => !tried.has(node));
        if (late.length === 0) return undefined;
        for (const node of late) tried.add(node);
        reviveDetached(scope, late);
        return live(scope, root);
      },
      detachedAtRest: () => (root.hasEnded ? settleDetached(scope) : tree.detachedAtRest()),
      conclude: () => concluded(scope, root, { ...history, traceId }),
      resultSoFar: () => resultOf(scope, traceId),
      snapshot: () => pausedRunOf(scope, { ...history, pauses: history.pauses + 1, traceId }),
    });
  }

  #scope(given: {
    readonly registry: RoleRegistry;
    readonly onText: StartOptions["onText"];
    readonly run?: PausedRun;
    readonly answers?: RunShared["answers"];
  }): RunShared {
    const { registry, onText, run, answers = new Map() } = given;
    const clock = this.#settings.clock;
    const tree = new RunTree(run?.limits ?? this.#settings.limits, run);
    const hooksOf = once((role: AgentRole) => hookSet(joinHooks(this.#settings.hooks, role.hooks)));
    const isWatched = [this.#settings.hooks, ...[...registry.all].map(({ hooks }) => hooks)].some(
      hasObserver,
    );
    const observers = isWatched ? [observerSink(tree, hooksOf)] : [];
    const recorder = new EventRecorder({
      clock,
      tracing: this.#settings.tracing,
      sinks: [...this.#settings.sinks, ...observers],
      eventCount: run?.eventCount ?? 0,
    });
    return {
      runId: run?.runId ?? RunIdSchema.parse(this.#settings.ids.next("run")),
      tree,
      ledger: new BudgetLedger(clock, (reached) => tellThreshold({ tree, recorder }, reached)),
      slots: scheduler(this.#settings.concurrency),
      pace: new Pace(SPAWNS_PER_TURN),
      recorder,
      registry,
      clock,
      ids: this.#settings.ids,
      graceMs: this.#settings.graceMs,
      retry: this.#settings.retry,
      hookTimeoutMs: this.#settings.hookTimeoutMs,
      desk: this.#settings.desk,
      guards: this.#settings.guards,
      answers,
      onText,
      toolsOf: once((role: AgentRole) => toolsOf(role, registry)),
      hooksOf,
    };
  }
}

/** How a run opens: its first event, and what is recorded right after it. */
interface Opening {
  readonly event: () => EventBody<"run.started" | "run.resumed">;
  readonly afterwards?: () => void;
}

/** Some ten milliseconds of work. */
const SPAWNS_PER_TURN = 64;

const NO_HISTORY = { pauses: 0, answered: [] } as const;
const AS_ROOT = { spawnCallId: undefined, spawnStepId: undefined } as const;

function started({ tree, ledger }: RunShared, root: AgentNode): EventBody<"run.started"> {
  return {
    type: "run.started",
    schemaVersion: EVENT_SCHEMA_VERSION,
    role: root.role.name,
    task: root.task,
    limits: tree.limits,
    budget: ledger.remaining(root.identity.agentId),
  };
}

/** Makes something for each role once. */
function once<Made>(make: (role: AgentRole) => Made): (role: AgentRole) => Made {
  const made = new Map<AgentRole, Made>();
  return (role) => {
    const known = made.get(role) ?? make(role);
    made.set(role, known);
    return known;
  };
}

function earlier(left: number | undefined, right: number | undefined): number | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  return Math.min(left, right);
}
