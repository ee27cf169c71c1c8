// Roles that the delegations of a reply name. Each of them counts as a possible member of the group
// of its reply.

import { isRecord } from "../../kernel/json.ts";
import type { ToolCall } from "../../protocol/message.ts";
import type { AgentRuntime } from "../agent-runtime.ts";
import { readArguments } from "./parsed-call.ts";

const NONE: readonly never[] = Object.freeze([]);

/**
 * Returns the role that a delegation names in `role`, or the role of the subagent that it
 * continues. Empty for other delegations.
 */
export function readRequestedRoles(input: unknown): readonly string[] {
  const { role, continue: childName } = isRecord(input) ? input : {};
  if (typeof role === "string") return [role];
  const [name = ""] = typeof childName === "string" ? childName.split("#") : [];
  return name === "" ? NONE : [name];
}

/** Returns the role that a call names as the model wrote it. Empty unless it is a delegation. */
export function readRolesOfCall(
  { tools }: Pick<AgentRuntime, "tools">,
  { toolName, argumentsText }: Pick<ToolCall, "toolName" | "argumentsText">,
): readonly string[] {
  if (tools.find(toolName)?.kind !== "delegation") return NONE;
  return readRequestedRoles(readArguments(argumentsText));
}
