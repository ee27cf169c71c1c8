// How an agent comes to life: for the first time, or once more after it has ended. Either all of it happens, or nothing.

import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze, type JsonObject } from "../../kernel/json.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { NO_PREFIX, pendingState } from "../../agent/agent-state.ts";
import { withAdded, type TaggedHistory } from "../../agent/message-tags.ts";
import { transition } from "../../agent/transition.ts";
import {
  AgentIdSchema,
  ExecutionIdSchema,
  type CallId,
  type ExecutionId,
  type StepId,
} from "../../protocol/ids.ts";
import type { Message, UserMessage } from "../../protocol/message.ts";
import type { RoleDraft } from "../../protocol/subagent.ts";
import { NO_TOOL_LIMITS, type ToolLimits } from "../../protocol/tool-rule.ts";
import { spendLimitsOf, type SpendLimits } from "../../policies/budget.ts";
import { AgentNode, type AgentNodeOptions } from "./agent-node.ts";
import type { RunShared } from "./run-shared.ts";
import type { Opening } from "../sessions/session-changes.ts";

/** What an agent starts from. */
export interface Birth {
  readonly role: AgentRole;
  readonly task: string;
  readonly agentPath: string;
  readonly depth: number;
  readonly parent: AgentNode | undefined;
  readonly spawnCallId: CallId | undefined;
  readonly spawnStepId: StepId | undefined;
  readonly inherited: readonly Message[];
  /** What was said before it lived, with where it came from. Default: nothing. */
  readonly history?: Opening | undefined;
  readonly metadata: JsonObject;
  readonly limits: SpendLimits;
  readonly wallTimeMs: number | undefined;
  readonly deadlineAtMs?: number | undefined;
  /** Default: none. */
  readonly toolLimits?: ToolLimits;
  readonly draft?: RoleDraft | undefined;
}

/** Sets an agent up: ids, account, deadline. */
export function bringToLife(scope: RunShared, birth: Birth): AgentNode {
  const { role, task, metadata, parent, agentPath, depth, spawnCallId, spawnStepId } = birth;
  const { clock, ids, ledger, runId, tree } = scope;
  const agentId = AgentIdSchema.parse(ids.next("agent", agentPath));
  const executionId = ExecutionIdSchema.parse(ids.next("execution", `${agentPath} 1`));
  const parentAgentId = parent?.identity.agentId ?? null;
  const identity = Object.freeze({ runId, agentId, parentAgentId, agentPath, depth, executionId });
  const { limits, wallTimeMs, deadlineAtMs } = birth;
  const reserve = spendLimitsOf(role.delegation.reserve);
  const options: AgentNodeOptions = {
    identity,
    role,
    task,
    metadata,
    parent,
    spawnCallId,
    spawnStepId,
    state: pendingState({ ...openingOf(birth, executionId), prefix: NO_PREFIX }),
    clock,
    ledger,
    pauseSignal: tree.pauseSignal,
    limits: parent?.limits ?? tree.limits,
    toolLimits: birth.toolLimits ?? NO_TOOL_LIMITS,
    draft: birth.draft,
    deadlines: scope.journal,
  };
  ledger.open(
    { agentId, path: agentPath, limits, reserve, wallTimeMs, deadlineAtMs },
    parentAgentId,
  );
  let node: AgentNode | undefined;
  try {
    node = new AgentNode(options);
    tree.add(node);
    return node;
  } catch (cause) {
    if (node !== undefined) tree.remove(node);
    ledger.forget(agentId);
    throw cause;
  }
}

const NOTHING_SAID: TaggedHistory = deepFreeze({ messages: [], tags: [], leftOut: [], added: 0 });

/** What the agent is told before its task. What is inherited becomes its own, under new ids. */
function openingOf({ role, inherited, history }: Birth, executionId: ExecutionId): TaggedHistory {
  const place = { executionId, stepNumber: 0 };
  const text = role.instructions;
  const instructed = withAdded(
    NOTHING_SAID,
    [{ role: "system", text, origin: "instructions" }],
    place,
  );
  if (history === undefined) return withAdded(instructed, inherited, place);
  const messages = [...instructed.messages, ...history.messages];
  const tags = [...instructed.tags, ...history.tags];
  return withAdded({ ...instructed, messages, tags }, inherited, place);
}

/** What an agent that has ended does next. */
export interface Return {
  readonly task: string;
  /** What it is told; undefined: nothing, it goes on from where it was. */
  readonly message: UserMessage | undefined;
  readonly spawnCallId: CallId | undefined;
  readonly spawnStepId: StepId | undefined;
}

/**
 * Brings an agent that has ended back with its history, for one more execution: the same agent, account and path. The time in which it
 * was idle counts for nobody.
 */
export function bringBack(scope: RunShared, ended: AgentNode, next: Return): AgentNode {
  const { clock, ids, ledger, tree } = scope;
  const { rested, identity, role, metadata } = ended;
  if (rested === undefined || rested.status === "paused")
    throw new EspalierError({
      code: "internal_error",
      message: `${identity.agentPath} has not ended. This is a bug in espalier.`,
    });
  // The parent may have been brought back itself since it started this one.
  const parent = identity.parentAgentId === null ? undefined : tree.find(identity.parentAgentId);
  const { task, message, spawnCallId, spawnStepId } = next;
  const place = `${identity.agentPath} ${ended.execution + 1}`;
  const executionId = ExecutionIdSchema.parse(ids.next("execution", place));
  const messages = message === undefined ? [] : [message];
  const state = transition(rested, { type: "nextExecution", messages });
  if (state.status !== "pending") throw new Error("A next execution is pending.");
  const nowMs = clock.nowMs();
  const { agentId } = identity;
  ledger.standStill(agentId, nowMs - (rested.telemetry.endedAtMs ?? nowMs));
  const node = new AgentNode({
    identity: Object.freeze({ ...identity, executionId }),
    role,
    task,
    metadata,
    parent,
    spawnCallId,
    spawnStepId,
    state,
    clock,
    ledger,
    pauseSignal: tree.pauseSignal,
    limits: parent?.limits ?? tree.limits,
    toolLimits: ended.toolLimits,
    draft: ended.draft,
    deadlines: scope.journal,
    before: {
      startedAtMs: ended.startedAtMs,
      children: ended.breadth,
      subagentsBelow: ended.subagentsBelow,
      ordinals: ended.ordinals,
      execution: ended.execution + 1,
      isDetached: false,
    },
  });
  for (const child of ended.subagents) node.enlist(child);
  tree.add(node);
  return node;
}
