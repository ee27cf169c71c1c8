// Answers requests of servers to their client. Requests for data (elicitation) go to the approver
// of the run; all others are declined with a reason.

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

/** Call during which a server sends a request. */
export type ElicitingCaller = Pick<ToolContext, "ask" | "runId">;

/**
 * Asks the approver of the run, and returns an answer that fits the requested schema. Declines at
 * once without a call. Throws a `ProtocolError` for a schema that cannot be checked.
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
    // Only requested properties are accepted.
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
      // The content fits the protocol, because it fits the schema.
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

/** Answers requests for which the client declares no capability. */
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

/** Error code of the protocol for sampling that a user refuses. */
const DECLINED = -1;
const NO_SAMPLING =
  "Declined: this client does not run a model for servers. Return the data as the result of the tool: the agent that called the tool reads it.";

/** Returns the value with the default values of its missing properties. */
function fillDefaults({ properties }: JsonObject, value: JsonValue): JsonValue {
  if (!isJsonObject(value) || properties === undefined || !isJsonObject(properties)) return value;
  const filled = Object.entries(properties).flatMap(([name, property]) =>
    isJsonObject(property) && property["default"] !== undefined && !Object.hasOwn(value, name)
      ? [[name, property["default"]] as const]
      : [],
  );
  return { ...value, ...Object.fromEntries(filled) };
}

// Checks structured results against the output schema of their tool. Both come from the server, so
// they are checked like arguments: in bounded time and without running patterns. (The SDK's own
// validator runs patterns as RegExp, and compiles a schema at every call.) Owns the cache of
// checks.

const MAX_LEVELS = 1_000;
const NOT_SOUND = {
  parameter: "",
  expected: `JSON of at most ${MAX_LEVELS} levels`,
  received: "another value",
};

type OutputCheck = (value: JsonValue) => readonly ArgumentProblem[];

/** The validator of the SDK's client. */
export class OutputChecks implements jsonSchemaValidator {
  readonly #checks = new WeakMap<JsonSchemaType, OutputCheck>();

  /** Throws `invalid_argument` for a schema that cannot be checked. */
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
