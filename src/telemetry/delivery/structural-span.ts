import type { Attributes } from "@opentelemetry/api";

import { ESPALIER, GEN_AI, OPERATION } from "../gen-ai-attributes.ts";

/**
 * Whether a span holds the tree together: a run, an agent, a call that spawns one, an approval.
 * Without it, all that is below has no parent.
 */
export function isStructural(attributes: Attributes): boolean {
  const operation = attributes[GEN_AI.operation];
  if (operation === OPERATION.workflow || operation === OPERATION.agent) return true;
  if (attributes[ESPALIER.approvalId] !== undefined) return true;
  return operation === OPERATION.tool && attributes[ESPALIER.toolKind] === "delegation";
}
