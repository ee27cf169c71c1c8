import type { AgentRole } from "../../src/agent/agent-role.ts";
import { defineAgent, type AgentDefinition } from "../../src/agent/define-agent.ts";
import {
  ScriptedModel,
  type ScriptedModelOptions,
  type ScriptStep,
} from "../../src/testing/scripted-model.ts";

/** A role without subagents over a scripted model, which tests may inspect. */
export interface Soloist {
  readonly role: AgentRole;
  readonly model: ScriptedModel;
}

export function soloist(
  script: readonly ScriptStep[],
  more: Partial<Omit<AgentDefinition, "model">> = {},
  options: ScriptedModelOptions = {},
): Soloist {
  const model = new ScriptedModel(script, { allowUnknownTools: true, ...options });
  return { model, role: defineAgent({ name: "solo", instructions: "Work.", ...more, model }) };
}
