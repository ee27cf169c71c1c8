// The roles of a world, created again for every process.

import { z } from "zod";

import type { AgentRole } from "../../../src/agent/agent-role.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { guardOf, modelOf, TOOLS, type Outside } from "./tree-foreign.ts";
import { hookOf } from "./tree-hooks.ts";
import { nameOf, type WorldRole } from "./tree-world.ts";

const OUTPUT = z.object({ value: z.number() });

/** Returns the role with this number. */
export function agentRole(role: WorldRole, index: number, outside: Outside): AgentRole {
  const { inherits, windowSize, tells, deniedTools, allowedTools } = role;
  // Tool lists without any subagent are refused.
  const lists = { deniedTools, ...(allowedTools === undefined ? {} : { allowedTools }) };
  const { background, parentEndPolicy, failurePolicy, share, reserve } = role;
  const name = nameOf(index);
  const model = modelOf(role, name, outside);
  return defineAgent({
    name,
    description: "Acts.",
    instructions: `Act as ${name}.`,
    model,
    tools: TOOLS,
    subagents: role.subagents.flatMap((isOne, other) => (isOne ? [nameOf(other)] : [])),
    budget: role.budget,
    limits: role.limits,
    maxOutputTokens: role.maxOutputTokens,
    guards: role.guards.map(guardOf),
    hooks: role.hooks.map((hook, at) => hookOf(hook, `${name}-${hook.point}-${at}`, outside)),
    showBudget: tells,
    delegation: {
      background,
      parentEndPolicy,
      failurePolicy,
      share,
      reserve,
      maxIdenticalDelegations: role.maxIdentical,
    },
    contextPolicy: {
      ...(inherits ? { inheritMessages: true, messageWindowSize: windowSize } : {}),
      inheritMetadata: inherits,
      includeSiblingResults: tells,
      includeParentConstraints: tells,
      includeFailedAttempts: tells,
      ...(role.subagents.includes(true) ? lists : {}),
    },
    wrapUp: role.wrapsUp,
    ...(role.hasDynamicRoles ? { dynamicRoles: { tools: [], models: { other: model } } } : {}),
    ...(role.compacts ? { compaction: { maxInputTokens: 100, keepMessages: 3 } } : {}),
    ...(role.hasOutput ? { output: OUTPUT } : {}),
  });
}
