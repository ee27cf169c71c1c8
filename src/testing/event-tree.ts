// The events of a run as a text tree for snapshot tests.

import { checkIterable } from "../kernel/argument-checks.ts";
import type { EspalierEvent } from "../protocol/event.ts";
import type { AgentId } from "../protocol/ids.ts";

interface LabeledBranch {
  label: string;
  readonly below: LabeledBranch[];
}

/**
 * Formats the events of a run as a text tree, for snapshot tests, without a line break at its end.
 * Agents show status, reason and tokens; below them are their steps and pauses. Below a step are
 * its failed attempts, questions and tool calls, and subagents below the call that started them.
 *
 * @example
 * ```ts
 * const sink = new RecordingSink();
 * const model = new ScriptedModel([says("12 euros.")]);
 * const lead = defineAgent({ name: "lead", instructions: "Find prices.", model });
 * await new Orchestrator({ sinks: [sink] }).start(lead, "What do pears cost?").result;
 * console.log(formatEventTree(sink.events));
 * // lead completed (completed) 1 steps, 15 of 15 tokens
 * // └─ step 1 answered
 * ```
 */
export function formatEventTree(events: readonly EspalierEvent[]): string {
  checkIterable("formatEventTree events", events, "Pass the events of a run.");
  const tree: Drawing = { roots: [], agents: new Map(), open: new Map() };
  for (const event of events) draw(tree, event);
  return tree.roots.flatMap((root) => drawBranchLines(root)).join("\n");
}

interface Drawing {
  readonly roots: LabeledBranch[];
  readonly agents: Map<AgentId, LabeledBranch>;
  /** Steps and calls by execution and id, and questions by id. */
  readonly open: Map<string, LabeledBranch>;
}

function draw(tree: Drawing, event: EspalierEvent): void {
  const here = tree.open.get(buildStepKey(event));
  const agent = tree.agents.get(event.agentId);
  // A process that resumes a run has no event of the step that was open.
  const step = tree.open.get(`${event.executionId} ${event.stepId}`) ?? agent;
  switch (event.type) {
    case "agent.resumed":
      if (agent === undefined)
        tree.agents.set(event.agentId, addBranch(event.agentPath, findSpawningCall(tree, event)));
      break;
    case "agent.started":
      tree.agents.set(event.agentId, addBranch(event.agentPath, findSpawningCall(tree, event)));
      break;
    case "step.started":
      tree.open.set(buildStepKey(event), addBranch(`step ${event.number}`, agent));
      break;
    case "tool.started":
      tree.open.set(buildStepKey(event), addBranch(event.toolName, step));
      break;
    case "question.asked": {
      const { questionId, toolName, kind } = event;
      tree.open.set(questionId, addBranch(`${toolName} asked (${kind})`, step));
      break;
    }
    case "question.answered": {
      const branch = tree.open.get(event.questionId) ?? addBranch(event.toolName, step);
      describe(branch, `${event.answer} (${event.source})`);
      break;
    }
    case "tool.rejected":
      addBranch(`${event.toolName} ${event.outcome} (${event.error.code})`, step);
      break;
    case "tool.ended":
      describe(
        here,
        event.error === undefined ? event.outcome : `${event.outcome} (${event.error.code})`,
      );
      break;
    case "model.replied":
      describe(here, event.toolCallCount === 0 ? "answered" : `asked for ${event.toolCallCount}`);
      break;
    case "model.retried":
      addBranch(`attempt ${event.attempt} failed (${event.error.code})`, here);
      break;
    case "model.failed":
      describe(here, event.error.code);
      break;
    case "agent.paused":
      addBranch(`paused (${event.reason.code})`, agent);
      break;
    case "agent.ended": {
      const { own, total } = event.usage;
      const tokens = `${own.totalTokens} of ${total.totalTokens} tokens`;
      describe(agent, `${event.status} (${event.reason.code}) ${event.stepCount} steps, ${tokens}`);
      break;
    }
    default:
      break;
  }

  function addBranch(label: string, above: LabeledBranch | undefined): LabeledBranch {
    const grown: LabeledBranch = { label, below: [] };
    (above?.below ?? tree.roots).push(grown);
    return grown;
  }
}

/** Returns the call that spawned an agent, or the parent if that call is unknown. */
function findSpawningCall(
  tree: Drawing,
  start: EspalierEvent & { readonly type: "agent.resumed" | "agent.started" },
): LabeledBranch | undefined {
  const { parentAgentId } = start;
  const parent = parentAgentId === null ? undefined : tree.agents.get(parentAgentId);
  const steps = parent === undefined ? [] : [parent, ...parent.below];
  for (const [key, call] of tree.open) {
    const isParents = steps.some((step) => step.below.includes(call));
    if (isParents && key.endsWith(` ${start.spawnCallId}`)) return call;
  }
  return parent;
}

function buildStepKey(event: EspalierEvent): string {
  return `${event.executionId} ${event.callId ?? event.stepId}`;
}

function describe(branch: LabeledBranch | undefined, words: string): void {
  if (branch !== undefined) branch.label += ` ${words}`;
}

function drawBranchLines(branch: LabeledBranch): readonly string[] {
  const { below } = branch;
  const rows = below.flatMap((child, index) => {
    const isLast = index === below.length - 1;
    const [first, rest] = isLast ? ["└─ ", "   "] : ["├─ ", "│  "];
    return drawBranchLines(child).map((line, row) => `${row === 0 ? first : rest}${line}`);
  });
  return [branch.label, ...rows];
}
