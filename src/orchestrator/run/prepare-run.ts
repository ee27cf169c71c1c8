// Prepares a new run, the resumption of a paused run, and a fork: checks everything before anything
// is created. A paused run of a caller is checked for contradictions and limited by the roles in
// code.

import { type AgentRole, resolveInstructions } from "../../agent/agent-role.ts";
import type { AgentRuntime } from "../../agent/agent-runtime.ts";
import { mismatch } from "../../kernel/argument-checks.ts";
import { isRecord, type JsonObject } from "../../kernel/json.ts";
import { type Budget, toLedgerLimits, tightenLimits } from "../../policies/budget.ts";
import { parseId } from "../../protocol/ids.ts";
import { copyContent, type MessageContent } from "../../protocol/message-content.ts";
import type { UserMessage } from "../../protocol/message.ts";
import type { Ownership } from "../../store/run-store.ts";
import {
  createAlreadyResumedError,
  startJournal,
  createResumedJournal,
  toRunTitle,
} from "../durability/open-journal.ts";
import { findContradiction } from "../durability/paused-run-checks.ts";
import { createInvalidSignatureError, isSigned } from "../durability/paused-run-signature.ts";
import {
  createPausedRunError,
  parsePausedRun,
  type PausedRun,
  type PausedRunRecord,
} from "../durability/paused-run.ts";
import { restorePausedRun, type RestoredRun } from "../durability/restored-run.ts";
import { startRunSession } from "../sessions/sessions.ts";
import { deriveRootToolLimits } from "../tree/child-context.ts";
import { createAgent, type NewAgent } from "../tree/create-agent.ts";
import { RoleRegistry } from "../tree/role-registry.ts";
import { type NewRun, RunRuntime } from "../tree/run-runtime.ts";
import { getRoleRegistry, type Settings } from "../tree/orchestrator-settings.ts";
import { Supervisor } from "../tree/supervisor.ts";
import {
  assertReady,
  checkOutputs,
  checkToolLists,
  findAgentRoles,
  resolveRootRole,
  warnOfUnknownToolNames,
} from "./check-roles.ts";
import { checkContinuation, type Continuation, restoreRun } from "./restore-run.ts";
import { createFork } from "./fork-run.ts";
import type { PreparedRun } from "./live-run.ts";
import { limitPausedRun } from "./limit-paused-run.ts";
import type { ReceivedMail } from "./run-mail.ts";
import {
  checkForkOptions,
  checkResumeOptions,
  type ForkOptions,
  freezeMetadata,
  type ResumeOptions,
  type StartOptions,
} from "./run-options.ts";
import { verifyWaitingCalls } from "./check-answers.ts";

export interface NewStart {
  readonly role: AgentRole;
  readonly task: MessageContent;
  readonly options: StartOptions;
  /** The right to write its existing, empty journal. By default the journal is created. */
  readonly ownership?: Ownership;
  /** Mail that arrived earlier. */
  readonly mail?: readonly ReceivedMail[];
}

const TASK_ADVICE =
  "Pass the task as text. To continue a history, use a session: start(role, task, { session }).";

/** Returns a new run. Throws before anything is created; see `Orchestrator.start`. */
export function prepareStart(
  settings: Settings,
  { role, task: content, options, ownership, mail }: NewStart,
): PreparedRun {
  const isHistory =
    Array.isArray(content) && content.some((item) => isRecord(item) && "role" in item);
  if (isHistory || isRecord(content))
    throw mismatch("task", "a string or an array of content parts", content, TASK_ADVICE);
  const task = copyContent("task", content);
  const { budget = {}, deadlineAtMs, onStreamPart, context, runId: chosen, traceparent } = options;
  const metadata = options.metadata === undefined ? NO_METADATA : freezeMetadata(options.metadata);
  const registry = openRoles(settings, role, budget);
  if (registry.hasGuardsOrHooks || settings.guards.length > 0 || settings.hooks.length > 0)
    warnOfUnknownToolNames(registry, settings);
  const instructions = resolveInstructions(role, context);
  const session = options.session === undefined ? undefined : startRunSession(options.session);
  const runId = parseId<"RunId">(chosen ?? settings.ids.next("run"));
  const { storage } = settings;
  const head = { runId, limits: settings.limits, session: session?.ref, traceparent };
  const journal = storage && startJournal(storage, head, toRunTitle(role.name, task), ownership);
  const { spendLimits: roleLimits } = registry.getParts(role);
  const root = {
    facts: { role, task, metadata, agentPath: role.name },
    instructions,
    history: session?.opening,
    spendLimits: options.budget ? tightenLimits(roleLimits, toLedgerLimits(budget)) : roleLimits,
    timeMs: takeShorter(role.budget.timeMs, budget.timeMs),
    deadlineAtMs,
  };
  const newRun = { registry, onStreamPart, context, runId, session, journal };
  const origin = { type: "run.started", ...(traceparent && { traceparent }) } as const;
  // With an id of the caller, the store may already have another run.
  return assembleRun(settings, newRun, root, { origin, isRefusable: chosen !== undefined, mail });
}

/**
 * Returns the roles of a run with this root. Throws like `Orchestrator.start` for roles and models.
 */
export function openRoles(settings: Settings, root: AgentRole, budget: Budget): RoleRegistry {
  const registry = getRoleRegistry(settings, root);
  registry.assertReady(root, budget);
  if (registry.hasToolLists) checkToolLists(registry, root);
  return registry;
}

/** Creates the runtime of a run and its root agent. */
export function assembleRun(
  settings: Settings,
  newRun: NewRun,
  newRoot: NewAgent,
  start: Pick<PreparedRun, "origin" | "isRefusable" | "mail">,
): PreparedRun {
  let run: RunRuntime;
  let root: AgentRuntime;
  try {
    run = new RunRuntime(settings, newRun, Supervisor);
    const isFlat = settings.limits.maxDepth === 0 || newRoot.facts.role.limits.maxDepth === 0;
    root = createAgent(run, isFlat ? withoutSpawnTools(run, newRoot) : newRoot);
  } catch (cause) {
    newRun.journal?.writer.abandon(); // Before its first record, so the store does not know the run.
    throw cause;
  }
  run.journal?.recordCreation(root, {
    account: root.account.snapshotAt(run.clock.nowMs()),
    isBackground: false,
  });
  newRun.session?.begin(run.runId);
  return { pauseCount: 0, answered: NO_ANSWERS, run, root, ...start };
}

/** Returns a root without the tools that start subagents, since the depth limit allows none. */
function withoutSpawnTools(run: RunRuntime, root: NewAgent): NewAgent {
  return { ...root, facts: { ...root.facts, toolLimits: deriveRootToolLimits(run, root.facts) } };
}

const NO_METADATA: JsonObject = Object.freeze({});
const NO_ANSWERS: readonly never[] = Object.freeze([]);

function takeShorter(left: number | undefined, right: number | undefined): number | undefined {
  return left === undefined || right === undefined ? (left ?? right) : Math.min(left, right);
}

/** Returns a run that is resumed. Throws before anything is created; see `Orchestrator.resume`. */
export function prepareResumption(
  settings: Settings,
  pausedRun: PausedRun,
  options: ResumeOptions,
): PreparedRun {
  checkResumeOptions(options);
  const { answers = [] } = options;
  const accepted = acceptPausedRun(settings, pausedRun);
  const registry = getRoleRegistry(
    settings,
    resolveRootRole(accepted, options.role, settings.roles),
  );
  const verified =
    settings.signer === undefined
      ? verifyWaitingCalls(accepted, findAgentRoles(accepted, registry), registry)
      : accepted;
  const paused = limitPausedRun(verified, registry, settings.limits);
  const run = restorePausedRun(paused);
  const ready = checkContinuation(settings, run, options, { answers, wasCutOff: false });
  const giveBack = takePause(run, settings.tracing); // If nothing happened, the caller may try again.
  const { storage } = settings;
  const journal = storage && createResumedJournal(storage, paused, { refused: giveBack });
  try {
    return restoreRun(settings, run, ready, { journal });
  } catch (cause) {
    giveBack();
    throw cause;
  }
}

/**
 * Pauses from which this process continued, with any orchestrator, so that an approved call does
 * not run twice. Trace ids of a given tracing may derive from run ids that repeat, so they count
 * for that tracing only. Others are random.
 */
const resumedBy = new WeakMap<object, Set<string>>();
const OWN_TRACING = {};

/**
 * Reserves the present pause of the run for this process. Returns a function that releases the
 * pause. `tracing` is that of the orchestrator. Throws `already_resumed`.
 */
function takePause(run: RestoredRun, tracing: object = OWN_TRACING): () => void {
  const { runId, pauseCount, traceId } = run;
  const pause = `${runId} ${pauseCount} ${traceId}`;
  const known = resumedBy.get(tracing) ?? new Set();
  if (known.has(pause)) throw createAlreadyResumedError(run);
  resumedBy.set(tracing, known.add(pause));
  return () => void known.delete(pause);
}

/** Returns a fork. Throws before anything is created; see `Orchestrator.fork`. */
export function prepareFork(
  settings: Settings,
  stored: PausedRun,
  options: ForkOptions,
): PreparedRun {
  checkForkOptions(options);
  const accepted = acceptPausedRun(settings, stored);
  const role = resolveRootRole(accepted, options.role, settings.roles);
  const isReplacing = options.role !== undefined;
  const registry = new RoleRegistry(role, settings, { isReplacing });
  const original = limitPausedRun(accepted, registry, settings.limits);
  const { run: paused, message, forkedFrom } = createFork(original, options, settings);
  const run = restorePausedRun(paused);
  assertReady(run, registry);
  const ready = checkFork(run, registry, message, options);
  const { storage } = settings;
  const journal = storage && createResumedJournal(storage, paused, { forkedFrom });
  return restoreRun(settings, run, ready, { journal, forkedFrom });
}

/**
 * Returns the validated fork, in which no agent is active yet. `message` is the message to its
 * root.
 */
export function checkFork(
  run: RestoredRun,
  registry: RoleRegistry,
  message: UserMessage | undefined,
  { onStreamPart, context }: Pick<ForkOptions, "onStreamPart" | "context">,
): Continuation {
  const roles = findAgentRoles(run, registry);
  checkOutputs(run, roles);
  const next = { instructions: resolveInstructions(registry.root, context), message };
  const noInput = {
    answers: new Map(),
    grants: [],
    mail: [],
    settledMail: new Map<number, undefined>(),
  };
  return { registry, roles, onStreamPart, context, next, session: undefined, ...noInput };
}

/**
 * Parses a paused run that a caller passes in. With a key its signature is verified, which makes
 * other checks unnecessary. Throws `unsupported_version`, `invalid_paused_run` or
 * `invalid_signature`.
 */
function acceptPausedRun({ signer }: Pick<Settings, "signer">, stored: PausedRun): PausedRunRecord {
  if (signer !== undefined) {
    if (isSigned(stored)) return parsePausedRun(signer.verify(stored));
    // For example a promise or the result: the error names that mistake instead of the signature.
    parsePausedRun(stored);
    throw createInvalidSignatureError("missing");
  }
  const run = parsePausedRun(stored);
  if (isSigned(run)) throw createInvalidSignatureError("unverifiable");
  const problem = findContradiction(run);
  if (problem !== undefined) throw createPausedRunError(problem);
  return run;
}
