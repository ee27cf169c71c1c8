// Orchestrator: the facade. Checks what it is given, at once and whole, then hands out runs.

import { isDeepStrictEqual } from "node:util";

import {
  checkAmount,
  checkCount,
  checkKeys,
  checkList,
  checkMethods,
  checkText,
  defaultAdvice,
  mismatch,
} from "../kernel/check.ts";
import { systemClock, type Clock } from "../kernel/clock.ts";
import { randomIds, type IdSource } from "../kernel/id-source.ts";
import { deepFreeze, type JsonObject } from "../kernel/json.ts";
import { checkRole, type AgentRole } from "../agent/agent-role.ts";
import { checkRetryPolicy, type RetryPolicy } from "../model/retry.ts";
import type { EventSink, Tracing } from "../protocol/event-sink.ts";
import { EVENT_SCHEMA_VERSION, type EventBody } from "../protocol/event.ts";
import { RunIdSchema } from "../protocol/ids.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import { checkBudget, spendLimitsOf, tighterLimits, type Budget } from "../policies/budget.ts";
import { subagentLimits, type SubagentLimits } from "../policies/subagent-limits.ts";
import {
  questionDesk,
  type Approver,
  type QuestionDesk,
  type Unanswered,
} from "../agent/approver.ts";
import { checkHooks, type Hook } from "../hooks/hook.ts";
import { hookSet, joinHooks } from "../hooks/hook-set.ts";
import type { Answer } from "../protocol/question.ts";
import { checkGuards, namedGuards, type NamedGuard, type ToolGuard } from "../tools/tool-guard.ts";
import { toolsOf } from "./agent-assembly.ts";
import type { AgentNode } from "./agent-node.ts";
import { BudgetLedger } from "./budget-ledger.ts";
import { checkAnswers } from "./check-answers.ts";
import { concluded, lateEnds } from "./conclude.ts";
import { hasObserver, observerSink } from "./observer-sink.ts";
import { restore, roleOf, type PauseFacts } from "./pause-run.ts";
import { readPausedRun, type PausedRun } from "./paused-run.ts";
import { alreadyResumed, assertReady, rootRole } from "./resumption.ts";
import { EventRecorder } from "./event-recorder.ts";
import { localTracing } from "./local-tracing.ts";
import { RoleRegistry } from "./role-registry.ts";
import { Run } from "./run.ts";
import type { RunShared, TextPiece } from "./run-shared.ts";
import { RunTree } from "./run-tree.ts";
import { DEFAULT_CONCURRENCY, scheduler, type Concurrency } from "./scheduler.ts";
import { bringToLife, live } from "./supervisor.ts";

/** What holds for all runs of an orchestrator. Everything has a default. */
export interface OrchestratorOptions {
  /** Bounds on the shape of each tree. Default 3 / 5 / 10. */
  readonly limits?: Partial<SubagentLimits>;
  /** How much of one tree goes on at once. Default 32 model calls, 32 tool calls. */
  readonly concurrency?: Partial<Concurrency>;
  /** How model calls are repeated. Default: 3 attempts, doubling from 500 ms. */
  readonly retry?: RetryPolicy;
  /** How long a tool or model that ignores its signal is waited for. Default 5,000 ms. */
  readonly graceMs?: number;
  /** Roles that others refer to by name and that no `subagents` list holds as a value, and the roots of runs that are to be resumed. */
  readonly roles?: readonly AgentRole[];
  /** What watches and changes all agents, before the hooks of their roles. */
  readonly hooks?: readonly Hook[];
  /** What says of each tool call of any agent whether it may run, before the guards of roles. */
  readonly guards?: readonly ToolGuard[];
  /** How long a hook, a guard, a stop condition or a check whether an approval is needed may take. Default 60,000 ms. */
  readonly hookTimeoutMs?: number;
  /** Answers questions about calls while the run waits. Default: nobody; the run pauses. */
  readonly approver?: Approver;
  /** After this time a question that nobody answered counts as denied, a call that is executed elsewhere as failed. Default: never. */
  readonly answerTimeoutMs?: number;
  /** What becomes of questions that no approver answers: `pause` the run (default), or `deny`, where nobody can be asked. */
  readonly unanswered?: Unanswered;
  readonly sinks?: readonly EventSink[];
  /** Default: no spans, but events carry trace ids all the same. See `espalier/otel`. */
  readonly tracing?: Tracing;
  readonly clock?: Clock;
  readonly ids?: IdSource;
}

/** What holds for one run. */
export interface StartOptions {
  /** Over the whole tree, on top of the root role's own. */
  readonly budget?: Budget;
  /** Plain data for tools, checked to survive JSON; subagents inherit what the context policy hands on. */
  readonly metadata?: object;
  /** Milliseconds since the epoch at which the run must have ended, next to `budget.wallTimeMs`. */
  readonly deadlineAtMs?: number;
  /** Called with each piece of text of any agent, as it arrives. Makes model calls stream. */
  readonly onText?: (piece: TextPiece) => void;
}

/** What goes with a resumption. */
export interface ResumeOptions {
  /** The root's role, if it is not among the orchestrator's `roles`. */
  readonly role?: AgentRole;
  /** As in `StartOptions`. */
  readonly onText?: (piece: TextPiece) => void;
}

const DEFAULT_GRACE_MS = 5_000;
const DEFAULT_HOOK_TIMEOUT_MS = 60_000;

const OPTION_FIELDS = [
  "limits",
  "concurrency",
  "retry",
  "graceMs",
  "roles",
  "hooks",
  "guards",
  "hookTimeoutMs",
  "approver",
  "answerTimeoutMs",
  "unanswered",
  "sinks",
  "tracing",
  "clock",
  "ids",
];
const START_FIELDS = ["budget", "metadata", "deadlineAtMs", "onText"];

/** Runs trees of agents. Holds nothing of its runs but which pauses were gone on from; one orchestrator serves any number of them at once. */
export class Orchestrator {
  readonly #limits: SubagentLimits;
  readonly #concurrency: Concurrency;
  readonly #retry: RetryPolicy;
  readonly #graceMs: number;
  readonly #roles: readonly AgentRole[];
  readonly #hooks: readonly Hook[];
  readonly #guards: readonly NamedGuard[];
  readonly #hookTimeoutMs: number;
  readonly #desk: QuestionDesk;
  /** Pauses that were gone on from: what was approved once is not run twice (X17). */
  readonly #resumed = new Set<string>();
  readonly #sinks: readonly EventSink[];
  readonly #tracing: Tracing;
  readonly #clock: Clock;
  readonly #ids: IdSource;

  /** @throws EspalierError `invalid_option`, naming the option, what was expected and what came. */
  constructor(options: OrchestratorOptions = {}) {
    checkKeys("options", options, OPTION_FIELDS);
    const { limits = {}, concurrency = {}, retry = {}, graceMs = DEFAULT_GRACE_MS } = options;
    const { roles = [], sinks = [], tracing = localTracing() } = options;
    const { clock = systemClock, ids = randomIds } = options;
    this.#limits = subagentLimits("limits", limits);
    this.#concurrency = concurrencyOf(concurrency);
    checkRetryPolicy("retry", retry);
    this.#retry = Object.freeze({ ...retry });
    checkAmount("graceMs", graceMs, defaultAdvice(DEFAULT_GRACE_MS));
    this.#graceMs = graceMs;
    checkEach("roles", roles, checkRole);
    this.#roles = [...roles];
    const { hooks = [], hookTimeoutMs = DEFAULT_HOOK_TIMEOUT_MS } = options;
    checkHooks("hooks", hooks);
    this.#hooks = [...hooks];
    const { guards = [] } = options;
    checkGuards("guards", guards);
    this.#guards = Object.freeze(namedGuards("orchestrator", guards));
    checkAmount("hookTimeoutMs", hookTimeoutMs, defaultAdvice(DEFAULT_HOOK_TIMEOUT_MS));
    this.#hookTimeoutMs = hookTimeoutMs;
    const { approver, answerTimeoutMs, unanswered } = options;
    this.#desk = questionDesk({ approver, answerTimeoutMs, unanswered });
    checkEach("sinks", sinks, (field, sink) => checkMethods(field, sink, ["take"]));
    this.#sinks = [...sinks];
    checkMethods("tracing", tracing, ["place", "within"]);
    this.#tracing = tracing;
    checkMethods("clock", clock, ["nowMs", "setTimer"]);
    this.#clock = clock;
    checkMethods("ids", ids, ["next"]);
    this.#ids = ids;
  }

  /**
   * Starts a run: `role` at the root, told to do `task`. It begins in the next tick.
   *
   * @throws EspalierError before anything has started, if the roles do not fit together (`unknown_subagent`, `duplicate_role`), a
   * model cannot work (`missing_api_key`), a cost limit covers an unknown price (`price_unknown`), or an option is not usable.
   */
  start(role: AgentRole, task: string, options: StartOptions = {}): Run {
    checkRole("role", role);
    checkText("task", task);
    checkKeys("start options", options, START_FIELDS);
    const { budget = {}, deadlineAtMs, onText } = options;
    checkBudget("budget", budget);
    if (deadlineAtMs !== undefined) checkAmount("deadlineAtMs", deadlineAtMs);
    if (onText !== undefined) checkMethods("start options", options, ["onText"]);
    const metadata = frozenMetadata(options.metadata === undefined ? {} : options.metadata);
    const registry = new RoleRegistry(role, this.#roles);
    registry.assertReady(role, budget);
    registry.warnOfStrayGuards();
    const scope = this.#scope({ registry, onText });
    const { limits } = scope.tree;
    const root = bringToLife(scope, {
      role,
      task,
      metadata,
      agentPath: role.name,
      depth: 0,
      parent: undefined,
      spawnCallId: undefined,
      inherited: [],
      limits: tighterLimits(spendLimitsOf(role.budget), spendLimitsOf(budget)),
      wallTimeMs: earlier(role.budget.wallTimeMs, budget.wallTimeMs),
      deadlineAtMs,
    });
    return this.#run(scope, root, { pauses: 0, answered: [] }, () => ({
      type: "run.started",
      schemaVersion: EVENT_SCHEMA_VERSION,
      role: role.name,
      task,
      limits,
      budget: scope.ledger.remaining(root.identity.agentId),
    }));
  }

  /**
   * Goes on with a paused run, in this process or another: the same run and executions, with the answers to its open questions (R28).
   * `paused`: the `pausedRun` of a result, or its JSON text. The roles must be those that it was started with, by name.
   *
   * @throws EspalierError before anything has happened, and the paused run can still be resumed: `unsupported_version` or
   * `invalid_paused_run` if it cannot be read or its roles are not there; `invalid_answer` if an answer is missing, unknown, a
   * duplicate, of the wrong kind, for other arguments, late, or was given before; `already_resumed` if this orchestrator went on
   * from this pause before; and what `start` throws of roles and models.
   */
  resume(
    paused: PausedRun | string,
    answers: readonly Answer[] = [],
    options: ResumeOptions = {},
  ): Run {
    checkKeys("resume options", options, ["role", "onText"]);
    const { onText } = options;
    if (onText !== undefined) checkMethods("resume options", options, ["onText"]);
    if (options.role !== undefined) checkRole("resume options.role", options.role);
    const run = readPausedRun(paused);
    const registry = new RoleRegistry(rootRole(run, options.role, this.#roles), this.#roles);
    for (const agent of run.agents) roleOf({ registry }, agent);
    const nowMs = this.#clock.nowMs();
    const given = checkAnswers(run, answers, {
      isOverdue: ({ deadlineAtMs }) => deadlineAtMs !== null && nowMs >= deadlineAtMs,
      toolsOf: (agent) => toolsOf(roleOf({ registry }, agent), registry),
    });
    assertReady(run, registry);
    const pause = `${run.runId} ${run.pauses}`;
    if (this.#resumed.has(pause)) throw alreadyResumed(run);
    const scope = this.#scope({ registry, onText, run, answers: given });
    const root = restore(scope, run);
    this.#resumed.add(pause);
    const asked = run.questions.map(({ questionId }) => questionId);
    const history = { pauses: run.pauses, answered: [...run.answered, ...asked] };
    return this.#run(scope, root, history, () => ({
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
    }));
  }

  /** The handle on a run, from its beginning or from a pause. */
  #run(
    scope: RunShared,
    root: AgentNode,
    history: Pick<PauseFacts, "pauses" | "answered">,
    opening: () => EventBody<"run.started" | "run.resumed">,
  ): Run {
    const { runId, tree, recorder } = scope;
    const place = { ...root.identity, executionId: null, stepId: null, callId: null };
    let traceId = "";
    let lateBefore = Infinity;
    return new Run({
      runId,
      root,
      tree,
      subscribe: (sink) => recorder.subscribe(sink),
      begin: () => {
        ({ traceId } = recorder.record(place, opening()));
        return live(scope, root);
      },
      goOn: () => {
        const late = lateEnds(tree);
        const hasFewer = late < lateBefore;
        lateBefore = late;
        return late > 0 && hasFewer ? live(scope, root) : undefined;
      },
      conclude: () => concluded(scope, root, { ...history, traceId }),
    });
  }

  #scope(given: {
    readonly registry: RoleRegistry;
    readonly onText: StartOptions["onText"];
    readonly run?: PausedRun;
    readonly answers?: RunShared["answers"];
  }): RunShared {
    const { registry, onText, run, answers = new Map() } = given;
    const clock = this.#clock;
    const tree = new RunTree(run?.limits ?? this.#limits, run);
    const hooksOf = once((role: AgentRole) => hookSet(joinHooks(this.#hooks, role.hooks)));
    const isWatched = [this.#hooks, ...[...registry.all].map(({ hooks }) => hooks)].some(
      hasObserver,
    );
    const observers = isWatched ? [observerSink(tree, hooksOf)] : [];
    return {
      runId: run?.runId ?? RunIdSchema.parse(this.#ids.next("run")),
      tree,
      ledger: new BudgetLedger(clock),
      slots: scheduler(this.#concurrency),
      recorder: new EventRecorder({
        clock,
        tracing: this.#tracing,
        sinks: [...this.#sinks, ...observers],
        eventCount: run?.eventCount ?? 0,
      }),
      registry,
      clock,
      ids: this.#ids,
      graceMs: this.#graceMs,
      retry: this.#retry,
      hookTimeoutMs: this.#hookTimeoutMs,
      desk: this.#desk,
      guards: this.#guards,
      answers,
      onText,
      toolsOf: once((role: AgentRole) => toolsOf(role, registry)),
      hooksOf,
    };
  }
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

function frozenMetadata(metadata: unknown): JsonObject {
  const advice =
    "Hand in plain data: text, numbers, true, false, null, lists and objects of these.";
  try {
    const parsed = JsonObjectSchema.safeParse(JSON.parse(JSON.stringify(metadata)));
    if (parsed.success && isDeepStrictEqual(parsed.data, metadata)) return deepFreeze(parsed.data);
  } catch {
    // A cycle, a depth or a getter that JSON cannot take.
  }
  throw mismatch("metadata", "an object of JSON values", metadata, advice);
}

function checkEach(
  field: string,
  list: unknown,
  check: (field: string, value: unknown) => void,
): void {
  checkList(field, list);
  if (Array.isArray(list))
    for (const [index, value] of list.entries()) check(`${field}[${index}]`, value);
}

function concurrencyOf(given: Partial<Concurrency>): Concurrency {
  checkKeys("concurrency", given, Object.keys(DEFAULT_CONCURRENCY));
  for (const [name, limit] of Object.entries(given)) {
    if (limit === undefined) continue;
    checkCount(`concurrency.${name}`, limit);
    if (limit === 0)
      throw mismatch(`concurrency.${name}`, "at least 1", limit, "With none nothing could run.");
  }
  return Object.freeze({
    modelCalls: given.modelCalls ?? DEFAULT_CONCURRENCY.modelCalls,
    toolCalls: given.toolCalls ?? DEFAULT_CONCURRENCY.toolCalls,
  });
}
