// Tools with which a model delegates: SpawnSubagent, and the tools for subagents in the background.
// SpawnSubagent is bound to a request, which its call carries out. The other tools use the public
// context of a delegation.

import { z } from "zod";

import { invariant } from "../../kernel/invariant.ts";
import { stringifyCanonical, omitUndefined, isRecord, type JsonValue } from "../../kernel/json.ts";
import {
  BACKGROUND_TOOL_NAMES,
  canStartSubagents,
  SPAWN_TOOL_NAME,
  type AgentRole,
} from "../../agent/agent-role.ts";
import type { DynamicRoleBounds } from "../../agent/dynamic-role-bounds.ts";
import { DynamicRoleSchema, type DynamicRole, type SpawnRequest } from "../../protocol/subagent.ts";
import { compileInput, type InferInput } from "../../tools/arguments/input-schema.ts";
import { createBinding, createDelegationTool } from "../../tools/make-tool.ts";
import type { DelegationTool } from "../../tools/tool.ts";
import type {
  DelegationContext,
  DelegationOutcome,
  SubagentInfo,
  SubagentRequest,
} from "../../tools/tool-context.ts";

/** Returns the delegation tools of a role. Empty for a role that may start no subagents. */
export function createSubagentTools(
  role: AgentRole,
  subagents: readonly AgentRole[],
): readonly DelegationTool[] {
  if (!canStartSubagents(role)) return [];
  const spawn = spawnSubagentTool(role, subagents);
  return role.delegation.background ? [spawn, ...createBackgroundTools()] : [spawn];
}

/**
 * Returns the tool of an agent that may spawn `roles`. Its schema lists the roles, but an unknown
 * name results in a refusal, not in a schema error.
 */
function spawnSubagentTool(role: AgentRole, roles: readonly AgentRole[]): DelegationTool {
  const lines = roles.map(({ name, description = "" }) => `- ${name}: ${description}`);
  const description = [
    "Delegates a part of your task to a subagent and returns its result.",
    "Call it several times in one reply to let subagents work in parallel.",
    ...(role.dynamicRoles === undefined
      ? []
      : ["With newRole you define the subagent's role yourself."]),
    ...(lines.length === 0 ? [] : ["Subagents:", ...lines]),
  ].join("\n");
  const schema = compileInput(SPAWN_TOOL_NAME, describeSpawnInput(role, roles), { coerces: true });
  const descriptor = {
    name: SPAWN_TOOL_NAME,
    description,
    inputSchema: schema.jsonSchema,
    ...PLAIN,
  };
  const bind = createBinding(schema, ({ value }) => createSubagentRequest(value));
  return Object.freeze({ ...descriptor, kind: "delegation", bind });
}

/** Creates a built-in tool, which uses only the public context of its calls. */
function createTool<Input extends z.ZodType>(
  name: string,
  description: string,
  input: Input,
  execute: (
    value: InferInput<Input>,
    context: DelegationContext,
  ) => DelegationOutcome | Promise<DelegationOutcome>,
): DelegationTool {
  const schema = compileInput(name, input, { coerces: true });
  const descriptor = { name, description, inputSchema: schema.jsonSchema, ...PLAIN };
  return createDelegationTool(descriptor, schema, execute);
}

const PLAIN = { settings: Object.freeze({}), sequential: false } as const;

/** Arguments of a delegation. The role determines which arguments a model is offered. */
interface SpawnArguments {
  /** Absent only with `continue`. */
  readonly role?: string | undefined;
  readonly task: string;
  readonly continue?: string | undefined;
  readonly includeResultsFrom?: readonly string[] | undefined;
  readonly background?: boolean | undefined;
  readonly newRole?: DynamicRole | undefined;
}

function describeSpawnInput(
  { dynamicRoles, delegation }: AgentRole,
  roles: readonly AgentRole[],
): z.ZodType<SpawnArguments> {
  const names = roles.map(({ name }) => name);
  const basics = z.object({
    role:
      dynamicRoles === undefined
        ? z.string().optional().meta({
            description: "Which subagent to start. Not needed with continue.",
            enum: names,
          })
        : z.string().min(1).optional().meta({
            description:
              "Which subagent to start, or a name for newRole. Not needed with continue.",
          }),
    task: z.string().min(1).meta({
      description:
        "The task of the subagent. Make it self-contained: the subagent sees nothing of your conversation unless configured.",
    }),
    continue: z.string().optional().meta({
      description:
        "Name of an ended subagent to continue with its history. Leave it out or empty to start a new one.",
    }),
    includeResultsFrom: z.array(z.string().min(1)).optional().meta({
      description: "Names of ended subagents whose results the subagent receives word for word.",
    }),
  });
  const background = z.boolean().optional().meta({
    description: "Do not wait: its result arrives as a message while you continue.",
  });
  const offered = delegation.background ? basics.extend({ background }) : basics;
  const whole =
    dynamicRoles === undefined
      ? offered
      : offered.extend({ newRole: createDynamicRoleSchema(dynamicRoles) });
  return whole.refine(
    ({ role, continue: childName }) => role !== undefined || isSubagentName(childName),
    {
      path: ["role"],
      message: "Set role to start a subagent, or continue to continue one.",
    },
  );
}

/**
 * Returns true if `continue` names a subagent. A model that fills in every field leaves it empty.
 */
export function isSubagentName(name: unknown): name is string {
  return typeof name === "string" && name.trim() !== "";
}

function createDynamicRoleSchema({ tools = [], models }: DynamicRoleBounds) {
  const toolNames = tools.map(({ name }) => name).join(", ") || "none";
  const modelNames = Object.keys(models).join(", ");
  return z
    .object({
      instructions: z.string().min(1).meta({ description: "Instructions of the subagent." }),
      tools: z
        .array(z.string())
        .exactOptional()
        .meta({
          description: `Names of the tools that it needs, out of: ${toolNames}. Default: all of them.`,
        }),
      model: z
        .string()
        .exactOptional()
        .meta({ description: `One of: ${modelNames}.` }),
      steps: z
        .int()
        .nonnegative()
        .exactOptional()
        .meta({ description: "Maximum number of steps." }),
    })
    .optional()
    .meta({ description: "A new role for this subagent." });
}

/**
 * Returns the subagent that these valid arguments of `SpawnSubagent` request. `undefined` if they
 * do not request a new one, or cannot be read.
 */
export function parseSpawnRequest(input: JsonValue): SpawnRequest | undefined {
  if (!isRecord(input)) return undefined;
  const { role, task, continue: childName, newRole: written } = input;
  if (isSubagentName(childName) || typeof role !== "string" || typeof task !== "string")
    return undefined;
  if (written === undefined) return { role, task };
  const roleDefinition = DynamicRoleSchema().safeParse(written).data;
  return roleDefinition && { role, task, roleDefinition };
}

function createSubagentRequest({
  role,
  task,
  continue: subagent,
  includeResultsFrom,
  background,
  newRole: roleDefinition,
}: SpawnArguments): SubagentRequest {
  const fields = { task, ...omitUndefined({ background, includeResultsFrom, roleDefinition }) };
  if (isSubagentName(subagent)) {
    const again = isSubagentName(role) ? { subagent, role } : { subagent };
    return { type: "continue", request: { ...again, ...fields } };
  }
  invariant(role !== undefined, "without continue the schema asks for a role");
  return { type: "spawn", request: { role, ...fields } };
}

const [LIST, WAIT, MESSAGE, CANCEL] = BACKGROUND_TOOL_NAMES;

const MS_PER_SECOND = 1_000;

let background: readonly DelegationTool[] | undefined;

/** Returns the tools, created for the first role that needs them. */
function createBackgroundTools(): readonly DelegationTool[] {
  const name = z
    .string()
    .min(1)
    .meta({ description: "Name of the subagent, such as researcher#1." });
  background ??= [
    createTool(
      LIST,
      "Lists the subagents that you have started, with the state of each.",
      z.object({}),
      (_input, { subagents }) => ({ type: "answered", text: formatSubagents(subagents.list()) }),
    ),
    createTool(
      WAIT,
      "Waits until background subagents have ended, and returns their results.",
      z.object({
        subagents: z.array(z.string().min(1)).min(1).optional().meta({
          description: "Names of the subagents. Default: all that run in the background.",
        }),
        timeoutSeconds: z.number().nonnegative().optional().meta({
          description: "Maximum time to wait. Default: until they have ended.",
        }),
      }),
      ({ subagents: awaited, timeoutSeconds }, { subagents }) =>
        subagents.wait({
          ...omitUndefined({ subagents: awaited }),
          ...(timeoutSeconds === undefined ? {} : { timeoutMs: timeoutSeconds * MS_PER_SECOND }),
        }),
    ),
    createTool(
      MESSAGE,
      "Sends a message to a running subagent, which reads it before its next step.",
      z.object({ subagent: name, message: z.string().min(1) }),
      ({ subagent, message }, { subagents }) => subagents.sendMessage(subagent, message),
    ),
    createTool(
      CANCEL,
      "Cancels a subagent and all its subagents, and returns its partial result.",
      z.object({ subagent: name, reason: z.string().min(1).optional() }),
      ({ subagent, reason }, { subagents }) => subagents.cancel(subagent, reason),
    ),
  ];
  return background;
}

function formatSubagents(subagents: readonly SubagentInfo[]): string {
  return stringifyCanonical(subagents.map(({ isBackground: _how, ...info }) => info));
}
