// Parts for tests of limits and fallbacks: models with limits, and failing replies.

import type { ModelErrorCode } from "../../src/kernel/error.ts";
import type { Model } from "../../src/model/model.ts";
import { ModelError, type ModelErrorOptions } from "../../src/model/model-error.ts";
import type { ModelLimits } from "../../src/model/model-limits.ts";
import { defineAgent, type AgentDefinition } from "../../src/agent/define-agent.ts";
import type { AgentRole } from "../../src/agent/agent-role.ts";
import type { ScriptedReply } from "../../src/testing/scripted-model.ts";

export function limited<Kind extends Model>(model: Kind, limits: ModelLimits): Kind {
  return Object.assign(model, { limits });
}

/** A role that does no more than its model says. */
export function roleOf(model: Model, more: Partial<AgentDefinition> = {}): AgentRole {
  return defineAgent({ name: "solo", instructions: "You work.", model, ...more });
}

/** A request that fails. */
export function failing(
  code: ModelErrorCode,
  more: Omit<ModelErrorOptions, "code" | "message"> = {},
): ScriptedReply {
  return { error: new ModelError({ code, message: `${code}.`, ...more }) };
}
