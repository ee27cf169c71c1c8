// What servers ask of their client: data from people (elicitation), which the approver of the run gives; anything else is declined with a
// reason.

import {
  ProtocolError,
  ProtocolErrorCode,
  specTypeSchemas,
  type ElicitRequestParams,
  type ElicitResult,
  type JSONRPCRequest,
  type Result,
  type JsonSchemaType,
  type jsonSchemaValidator,
  type JsonSchemaValidator,
} from "@modelcontextprotocol/client";

import { getErrorMessage } from "../kernel/error.ts";
import { isJsonObject, type JsonObject, type JsonValue, cloneJson } from "../kernel/json.ts";
import { JsonObjectSchema } from "../protocol/json-value.ts";
import {
  describeProblemLines,
  type ArgumentProblem,
} from "../tools/arguments/argument-problems.ts";
import { createServerSchemaCheck } from "../tools/arguments/json-schema-input.ts";
import type { ToolContext } from "../tools/tool-context.ts";

/** The call in the middle of which a server asks. */
export type ElicitingCaller = Pick<ToolContext, "ask" | "runId">;

/**
 * Asks the approver of the run, and gives what fits the schema that the server asks for. Without a call it declines, and asks nothing.
 * Throws a `ProtocolError` for a schema that cannot be checked.
 */
export async function answerElicitation(
  server: string,
  params: ElicitRequestParams,
  caller: ElicitingCaller | undefined,
  signal: AbortSignal,
): Promise<ElicitResult> {
  if (params.mode === "url" || caller === undefined) return { action: "decline" };
  const { message } = params;
  const requestedSchema = JsonObjectSchema().parse(structuredClone(params.requestedSchema));
  let problemsOf: ReturnType<typeof createServerSchemaCheck>;
  try {
    // Nothing besides what was asked for.
    const schema = { ...requestedSchema, additionalProperties: false };
    problemsOf = createServerSchemaCheck("requestedSchema", schema);
  } catch (cause) {
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, getErrorMessage(cause));
  }
  const outcome = await caller.ask({
    reason: `The MCP server ${JSON.stringify(server)} asks: ${message}`,
    arguments: { message, requestedSchema },
    validate: (value) => {
      const problems = problemsOf(fillDefaults(requestedSchema, value));
      return problems.length === 0 ? undefined : describeProblemLines("value", problems).join("; ");
    },
    signal,
  });
  switch (outcome.type) {
    case "answered": {
      // Fits what the protocol allows, since the schema does.
      const content = fillDefaults(requestedSchema, outcome.value);
      const answer = { action: "accept", content };
      const read = specTypeSchemas.ElicitResult["~standard"].validate(answer);
      if (read.issues === undefined) return read.value;
      const { message: why = "No answer fits the requested schema." } = read.issues[0] ?? {};
      throw new ProtocolError(ProtocolErrorCode.InternalError, why);
    }
    case "declined":
      return { action: "decline" };
    case "unanswered":
      return { action: "cancel" };
  }
}

/** For what has no handler, and no capability of ours. */
export function refuseRequest({ method }: Pick<JSONRPCRequest, "method">): Promise<Result> {
  switch (method) {
    case "elicitation/create":
      return Promise.resolve({ action: "decline" });
    case "sampling/createMessage":
      return Promise.reject(new ProtocolError(DECLINED, NO_SAMPLING));
    default:
      return Promise.reject(
        new ProtocolError(
          ProtocolErrorCode.MethodNotFound,
          `This client does not serve ${method}.`,
        ),
      );
  }
}

/** The protocol's own for sampling that a user does not allow. */
const DECLINED = -1;
const NO_SAMPLING =
  "Declined: this client does not run a model for servers. Return the data as the result of the tool: the agent that called the tool reads it.";

/** What is left out has the value that the schema gives it. */
function fillDefaults({ properties }: JsonObject, value: JsonValue): JsonValue {
  if (!isJsonObject(value) || properties === undefined || !isJsonObject(properties)) return value;
  const filled = Object.entries(properties).flatMap(([name, property]) =>
    isJsonObject(property) && property["default"] !== undefined && !Object.hasOwn(value, name)
      ? [[name, property["default"]] as const]
      : [],
  );
  return { ...value, ...Object.fromEntries(filled) };
}

// OutputChecks: does the data that a tool gave fit the tool's own output schema? Both come from the server, so they are checked as
// arguments are: in bounded time, and patterns are not run. The SDK's own checker runs patterns on RegExp, and reads a schema anew at every call.
// Owns the checks that were made.

const MAX_LEVELS = 1_000;
const NOT_SOUND = {
  parameter: "",
  expected: `JSON of at most ${MAX_LEVELS} levels`,
  received: "another value",
};

type OutputCheck = (value: JsonValue) => readonly ArgumentProblem[];

/** For the SDK's client. */
export class OutputChecks implements jsonSchemaValidator {
  readonly #checks = new WeakMap<JsonSchemaType, OutputCheck>();

  /** Throws `invalid_definition` for a schema that cannot be checked. */
  getValidator<T>(schema: JsonSchemaType): JsonSchemaValidator<T> {
    const check = this.#checks.get(schema) ?? createServerSchemaCheck("outputSchema", schema);
    this.#checks.set(schema, check);
    let problems: readonly ArgumentProblem[] = [];
    const fits = (value: unknown): value is T => {
      const json = cloneJson(value, MAX_LEVELS);
      problems = json === undefined ? [NOT_SOUND] : check(json);
      return problems.length === 0;
    };
    return (value) =>
      fits(value)
        ? { valid: true, data: value, errorMessage: undefined }
        : {
            valid: false,
            data: undefined,
            errorMessage: describeProblemLines("data", problems).join("; "),
          };
  }
}
