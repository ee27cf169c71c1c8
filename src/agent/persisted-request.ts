// The request of a step, made again from what is kept of it: the step's record, the history and the definitions of the run (R173). Pure.

import { EspalierError } from "../kernel/error.ts";
import { parseJson } from "../kernel/json.ts";
import type { ModelRequest } from "../model/model.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import { z } from "../protocol/late-zod.ts";
import type { StepContext } from "../protocol/step-context.ts";
import type { DefinitionTable } from "./run-ports.ts";
import { contextsOf, shownInStep, type PersistedSteps } from "./shown-messages.ts";

/** What a model was asked. */
export interface RebuiltRequest {
  /** The model that it went to. */
  readonly model: StepContext["model"];
  /** What it was asked. */
  readonly request: ModelRequest;
}

const OutputTextSchema = z.strictObject({
  name: z.string(),
  schema: JsonObjectSchema,
  strict: z.boolean(),
});

const ToolSpecsSchema = z.array(
  z.strictObject({
    name: z.string(),
    description: z.string(),
    inputSchema: JsonObjectSchema,
    strictSchema: z.boolean().exactOptional(),
  }),
);

/** The error for a step of whose request something is missing or damaged. */
export function missingOfStep(agentPath: string, stepNumber: number): EspalierError {
  return new EspalierError({
    code: "invalid_paused_run",
    message: `Expected everything that step ${stepNumber} of ${agentPath} was shown, got a run in which some of it is missing or damaged. Hand in the run whole, as it was stored; a fork does not have all of its origin.`,
    data: { agentPath, stepNumber },
  });
}

/**
 * The request of a step, as it went out first: a repeated attempt may have had a lower `maxOutputTokens`. Undefined if the agent took no
 * such step in its last execution, or if something of it is missing or damaged.
 */
export function persistedRequest(
  kept: PersistedSteps,
  stepNumber: number,
  textOf: DefinitionTable["textOf"],
): RebuiltRequest | undefined {
  const { context } = contextsOf(kept).findLast((step) => step.context.number === stepNumber) ?? {};
  const messages = shownInStep(kept, stepNumber, textOf);
  const toolsText = context === undefined ? undefined : textOf(context.toolsHash);
  if (context === undefined || messages === undefined || toolsText === undefined) return undefined;
  const { model, parameters, outputHash } = context;
  const outputText = outputHash === undefined ? "" : textOf(outputHash);
  if (outputText === undefined) return undefined;
  const tools = readText(ToolSpecsSchema, toolsText);
  if (tools === undefined) return undefined;
  const request = { messages, tools, ...parameters };
  if (outputText === "") return { model, request };
  const output = readText(OutputTextSchema, outputText);
  return output && { model, request: { ...request, output } };
}

/** Undefined: it is another text than the step had. */
function readText<Value>(schema: z.ZodType<Value>, text: string): Value | undefined {
  try {
    return schema.safeParse(parseJson(text)).data;
  } catch {
    return undefined;
  }
}
