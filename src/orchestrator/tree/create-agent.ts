// Creates agents, and continues ended agents for another execution. Atomic: if it fails, nothing
// has changed.

import { EspalierError } from "../../kernel/error.ts";
import { deepFreeze } from "../../kernel/json.ts";
import { freezeInTests } from "../../kernel/freeze-shared.ts";
import type { Model } from "../../model/model.ts";
import { readModel } from "../../model/model-properties.ts";
import type { AgentRole } from "../../agent/agent-role.ts";
import { NO_PREFIX, createPendingState } from "../../agent/agent-state.ts";
import { appendMessages, type TaggedHistory } from "../../agent/message-tags.ts";
import { continueExecution } from "../../agent/transition.ts";
import { parseId, type CallId, type ExecutionId, type StepId } from "../../protocol/ids.ts";
import type { MessageContent } from "../../protocol/message-content.ts";
import type { Message, UserMessage } from "../../protocol/message.ts";
import type { SpendLimits } from "../../policies/budget.ts";
import { AgentRuntime, type NewAgentFacts } from "../../agent/agent-runtime.ts";
import type { RunRuntime } from "./run-runtime.ts";
import type { SessionHistory } from "../sessions/session-changes.ts";

/** Facts from which an agent is created. */
export interface NewAgent {
  readonly facts: NewAgentFacts;
  /** The agent that starts it. Absent for the root. */
  readonly parent?: AgentRuntime;
  /** Instructions of its role, from `resolveInstructions`. */
  readonly instructions: string;
  readonly inherited?: readonly Message[];
  /** Messages from before it was created, with their origins. */
  readonly history?: SessionHistory | undefined;
  readonly spendLimits: SpendLimits;
  readonly timeMs: number | undefined;
  readonly deadlineAtMs?: number | undefined;
}

/**
 * Returns the model of a role for another agent, and looks up its price. Both call user code, which
 * may throw, so call this before anything changes.
 */
export function resolveModel({ settings }: RunRuntime, role: AgentRole): Model {
  const model = readModel(role.name, role.model);
  settings.priceOf(model);
  return model;
}

/** Creates an agent: ids, account, runtime. */
export function createAgent(run: RunRuntime, input: NewAgent): AgentRuntime {
  const { facts, parent, spendLimits: limits, timeMs, deadlineAtMs } = input;
  const { role, agentPath } = facts;
  const { ids, ledger, tree } = run;
  const model = resolveModel(run, role);
  const agentId = parseId<"AgentId">(ids.next("agent", agentPath));
  const executionId = parseId<"ExecutionId">(ids.next("execution", `${agentPath} 1`));
  const { reserve } = run.registry.getParts(role);
  const opening = { agentId, agentPath, limits, reserve, timeMs, deadlineAtMs };
  const account = ledger.open(opening, parent?.account);
  let agent: AgentRuntime | undefined;
  try {
    const state = createPendingState({ ...createOpening(input, executionId), prefix: NO_PREFIX });
    agent = new AgentRuntime(run, parent, facts, { agentId, executionId, model, state, account });
    tree.add(agent);
    return agent;
  } catch (cause) {
    if (agent !== undefined) tree.remove(agent);
    ledger.forget(agentId);
    throw cause;
  }
}

const NONE: readonly never[] = Object.freeze([]);
const NOTHING_SAID: TaggedHistory = deepFreeze({ messages: [], tags: [], dropped: [], added: 0 });

/** Returns the messages before the task. Inherited messages get new ids. */
function createOpening(
  { facts: { role }, instructions, inherited = NONE, history }: NewAgent,
  executionId: ExecutionId,
): TaggedHistory {
  const place = { executionId, stepNumber: 0 };
  const instructed = appendMessages(NOTHING_SAID, [getSystemMessage(role, instructions)], place);
  if (history === undefined) return appendMessages(instructed, inherited, place);
  const messages = [...instructed.messages, ...history.messages];
  const tags = [...instructed.tags, ...history.tags];
  return appendMessages({ ...instructed, messages, tags }, inherited, place);
}

const systemMessages = new WeakMap<AgentRole, Message>();

/**
 * Returns the system message, one object for all agents of a role with the same instructions, so
 * that its token count and its wire form are memoised.
 */
function getSystemMessage(role: AgentRole, text: string): Message {
  const known = systemMessages.get(role);
  if (known?.text === text) return known;
  const message = freezeInTests<Message>({ role: "system", text, origin: "instructions" });
  systemMessages.set(role, message);
  return message;
}

/** Next execution of an agent that has ended. */
export interface NextExecution {
  readonly task: MessageContent;
  /** Instructions of its role, from `resolveInstructions`. */
  readonly instructions: string;
  /**
   * Message that opens the execution: a task, steering or a notice. `undefined` if the agent
   * continues where it stopped.
   */
  readonly message: UserMessage | undefined;
  readonly spawnCallId?: CallId | undefined;
  readonly spawnStepId?: StepId | undefined;
}

/**
 * Continues an agent that has ended, with its history, for another execution: the same agent,
 * account and path. Idle time does not count towards any limit.
 */
export function continueAgent(
  run: RunRuntime,
  ended: AgentRuntime,
  next: NextExecution,
): AgentRuntime {
  const { clock, ids, ledger, tree } = run;
  const { settled, identity, role, toolLimits } = ended;
  const { agentId, parentAgentId, agentPath } = identity;
  if (settled === undefined || settled.status === "paused")
    throw new EspalierError({
      code: "internal_error",
      message: `${agentPath} has not ended. This is a bug in espalier.`,
    });
  const model = resolveModel(run, role);
  const { task, instructions, message, spawnCallId, spawnStepId } = next;
  const execution = ended.execution + 1;
  const executionId = parseId<"ExecutionId">(ids.next("execution", `${agentPath} ${execution}`));
  const messages = message === undefined ? [] : [message];
  const state = continueExecution(settled, { executionId, instructions, messages });
  const nowMs = clock.nowMs();
  ledger.getAccount(agentId).excludeTime(nowMs - (settled.telemetry.endedAtMs ?? nowMs));
  const agent = new AgentRuntime(
    run,
    // The parent may have been continued itself since it started this agent.
    parentAgentId === null ? undefined : tree.find(parentAgentId),
    { ...ended.facts, role, agentPath, toolLimits, task, spawnCallId, spawnStepId },
    {
      agentId,
      executionId,
      model,
      state,
      account: ended.account,
      before: {
        firstStartedAtMs: ended.firstStartedAtMs,
        childCount: ended.childCount,
        subagentsBelow: ended.subagentsBelow,
        ordinals: ended.ordinals,
        execution,
        isDetached: false,
      },
    },
  );
  for (const child of ended.children) agent.addChild(child);
  tree.add(agent);
  return agent;
}
