// The beginning of a segment of a recording: the start of the run, or its persisted agents. The
// replay uses the real loop, tree, ledger and policies.

import { parsePersistedState } from "../../agent/agent-snapshot.ts";
import { resolveInstructions, type AgentRole } from "../../agent/agent-role.ts";
import type { IdSource } from "../../kernel/id-source.ts";
import { applyJsonDelta } from "../../kernel/json-delta.ts";
import { foldRecords } from "../../orchestrator/durability/fold-journal.ts";
import type { JournalRecord, RecordOf } from "../../orchestrator/durability/journal-record.ts";
import { parsePausedRun } from "../../orchestrator/durability/paused-run.ts";
import {
  restorePausedRun,
  type RestoredAgent,
  type RestoredRun,
} from "../../orchestrator/durability/restored-run.ts";
import type { RunJournal } from "../../orchestrator/durability/run-journal.ts";
import { resolveRootRole } from "../../orchestrator/run/check-roles.ts";
import { checkContinuation, restoreRun } from "../../orchestrator/run/restore-run.ts";
import { assembleRun, checkFork } from "../../orchestrator/run/prepare-run.ts";
import type { PreparedRun } from "../../orchestrator/run/live-run.ts";
import { RunSession } from "../../orchestrator/sessions/run-session.ts";
import { RoleRegistry } from "../../orchestrator/tree/role-registry.ts";
import {
  getRoleRegistry,
  type OrchestratorOptions,
  type Settings,
} from "../../orchestrator/tree/orchestrator-settings.ts";
import { toLedgerLimits, tightenLimits } from "../../policies/budget.ts";
import { EVENT_SCHEMAS } from "../../protocol/event-schemas.ts";
import { memoryStore } from "../../store/memory-store.ts";
import type { AgentPosition } from "./comparison.ts";
import type { Segment } from "./recording.ts";

/** The recorded run: its code, the options of its orchestrator, and its records. */
export interface Original {
  readonly role: AgentRole;
  readonly context?: unknown;
  /** Options of its orchestrator. */
  readonly means: OrchestratorOptions;
  /** All records of the recording. */
  readonly records: readonly JournalRecord[];
}

export interface Beginning {
  /** How the process obtained the run. */
  readonly type: "started" | "forked" | "resumed" | "recovered";
  readonly atMs: number;
  readonly limits: RestoredRun["limits"];
  readonly root: Pick<RestoredAgent, "agentId" | "agentPath" | "role">;
  /** Positions of the existing agents. */
  readonly positions: ReadonlyMap<string, AgentPosition>;
  /** Records of the answers and grants with which the run continues. */
  readonly inputs: readonly JournalRecord[];
  /** Creates the run with its agents. */
  readonly create: (settings: Settings, code: Original, journal: RunJournal) => PreparedRun;
}

/**
 * Returns the beginning. `undefined` if the recording ends before anything can be replayed. Throws
 * `invalid_journal` or `invalid_paused_run`.
 */
export async function findBeginning(segment: Segment): Promise<Beginning | undefined> {
  const { runId, records, before } = segment;
  const [head, restored] = records;
  const state = records.find((record) => record.type === "state");
  if (head?.type === "run" && restored?.type !== "restored") {
    const created = records.find((record) => record.type === "agent");
    return created && state && createStartBeginning(head, created, state);
  }
  const first = records.find((record) => record.type === "event");
  if (first === undefined) return undefined;
  const { type, atMs } = first.event;
  const paused = restored?.type === "restored" ? parsePausedRun(restored.run) : undefined;
  const folded = paused === undefined ? await foldRecords(runId, before) : undefined;
  const run = folded?.run ?? (paused && restorePausedRun(paused));
  const root = run?.agents[0];
  if (run === undefined || root === undefined) return undefined;
  const common = {
    atMs,
    limits: run.limits,
    root,
    positions: new Map(run.agents.map(readAgentPosition)),
  };
  if (folded === undefined && type === "run.started") {
    const create = state && createForkFunction(run, root, first, state);
    return create && { ...common, type: "forked", inputs: [], create };
  }
  const at = records.findIndex((record) => record === first || record.type === "execution");
  const inputs = records.slice(0, at).filter(({ type }) => type === "answers" || type === "ledger");
  const answers = inputs.flatMap((record) => (record.type === "answers" ? record.answers : []));
  const grants = inputs.flatMap((record) => {
    if (record.type !== "ledger" || record.done.operation !== "grant") return [];
    const { agentId, grant } = record.done;
    const { agentPath = "" } = run.agents.find((agent) => agent.agentId === agentId) ?? {};
    return { budget: grant.budget, by: grant.by, agentPath };
  });
  const arrival = { answers, wasCutOff: folded?.status === "open", areAllNeeded: false };
  const failure = head?.type === "recovered" ? head.failure : undefined;
  return {
    ...common,
    type: folded === undefined ? "resumed" : "recovered",
    inputs,
    create: (settings, { role, context }, journal) => {
      const ready = checkContinuation(settings, run, { role, context, grants }, arrival);
      return restoreRun(settings, run, ready, { journal, folded, failure });
    },
  };
}

/** Recreates the root. Its limits are the tighter of the recorded ones and those of its role. */
function createStartBeginning(
  head: RecordOf<"run">,
  { agent: root, account }: RecordOf<"agent">,
  { delta }: RecordOf<"state">,
): Beginning {
  const { messages, tags } = parsePersistedState(applyJsonDelta(undefined, delta)).conversation;
  const create: Beginning["create"] = (settings, { role, context }, journal) => {
    const registry = getRoleRegistry(settings, role);
    const session =
      head.session && new RunSession(head.session, { ...settings, store: memoryStore() });
    const { runId } = head;
    const newRun = { registry, onStreamPart: undefined, context, runId, session, journal };
    const limitsMs = [account.timeLimitMs, role.budget.timeMs].flatMap((ms) => ms ?? []);
    const newRoot = {
      facts: { role, task: root.task, metadata: root.metadata, agentPath: role.name },
      instructions: resolveInstructions(role, context),
      // The session contains all messages except the instructions.
      history: session && { messages: messages.slice(1), tags: tags.slice(1) },
      spendLimits: tightenLimits(account.limits, toLedgerLimits(role.budget)),
      timeMs: limitsMs.length === 0 ? undefined : Math.min(...limitsMs),
      deadlineAtMs: account.fixedDeadlineAtMs ?? undefined,
    };
    return assembleRun(settings, newRun, newRoot, { origin: { type: "run.started" } });
  };
  const common = { atMs: root.startedAtMs, limits: head.limits, root, positions: new Map() };
  return { ...common, type: "started", inputs: [], create };
}

/** Recreates a fork. In the journal the root already has the execution that the fork starts. */
function createForkFunction(
  paused: RestoredRun,
  root: RestoredAgent,
  { event }: RecordOf<"event">,
  { delta }: RecordOf<"state">,
): Beginning["create"] | undefined {
  const schema = EVENT_SCHEMAS["run.started"]().forkedFrom;
  const forkedFrom = schema.safeParse(event["forkedFrom"]).data;
  if (forkedFrom === undefined) return undefined;
  const { messages } = parsePersistedState(applyJsonDelta(root.state, delta)).conversation;
  const last = messages.at(-1);
  const isNew = messages.length > root.state.conversation.messages.length;
  const message = isNew && last?.role === "user" ? last : undefined;
  const agents = [{ ...root, execution: root.execution - 1 }, ...paused.agents.slice(1)];
  const run = { ...paused, agents };
  return (settings, code, journal) => {
    const ownRole = resolveRootRole(run, code.role, settings.roles);
    const registry = new RoleRegistry(ownRole, settings, { isReplacing: true });
    const ready = checkFork(run, registry, message, code);
    return restoreRun(settings, run, ready, { journal, forkedFrom });
  };
}

function readAgentPosition({ agentId, agentPath, state }: RestoredAgent): [string, AgentPosition] {
  const stepNumber = state.step?.number ?? state.log.steps.at(-1)?.number ?? 0;
  return [agentId, { agentPath, stepNumber }];
}

/** Returns the recorded ids by their purpose, and new ids for other purposes. */
export function collectIds(
  records: readonly JournalRecord[],
  positions: Beginning["positions"],
): IdSource {
  const ids = new Map<string, string>();
  const paths = new Map([...positions].map(([id, { agentPath }]) => [id, agentPath]));
  for (const record of records) {
    if (record.type === "run") ids.set("run", record.runId);
    if (record.type === "agent") {
      const { agentId, agentPath, executionId } = record.agent;
      paths.set(agentId, agentPath);
      ids.set(`agent ${agentPath}`, agentId).set(`execution ${agentPath} 1`, executionId);
    }
    if (record.type === "execution")
      ids.set(`execution ${paths.get(record.agentId)} ${record.execution}`, record.executionId);
  }
  let count = 0;
  return {
    next: (kind, place) => {
      count += 1;
      return ids.get([kind, place].join(" ").trim()) ?? `${kind}_replayed_${count}`;
    },
  };
}
