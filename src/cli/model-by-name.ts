// Creates the model for a name in a role file, `--model` or ESPALIER_MODEL.
// `ai-sdk:<provider>/<id>` uses a package of the AI SDK. Any other name is the id of a model at the
// server of OpenAI, or of OPENAI_BASE_URL.

import { EspalierError, openai, type Model } from "espalier";
import { aiSdkModel, sameOriginFetch } from "espalier/ai-sdk";

import type { Shell } from "./shell.ts";
import { findErrorCode } from "./exit-codes.ts";

const PREFIX = "ai-sdk:";
const FORM = /^(?<provider>[a-z0-9][a-z0-9-]*)\/(?<id>.+)$/;

/**
 * Variables with the keys of providers. Other providers report a missing key themselves, at the
 * first call.
 */
const KEY_VARIABLES: ReadonlyMap<string, string> = new Map([
  ["anthropic", "ANTHROPIC_API_KEY"],
  ["cohere", "COHERE_API_KEY"],
  ["deepseek", "DEEPSEEK_API_KEY"],
  ["google", "GOOGLE_GENERATIVE_AI_API_KEY"],
  ["groq", "GROQ_API_KEY"],
  ["mistral", "MISTRAL_API_KEY"],
  ["openai", "OPENAI_API_KEY"],
  ["perplexity", "PERPLEXITY_API_KEY"],
  ["xai", "XAI_API_KEY"],
]);

/**
 * Returns why this model cannot be called, as far as the environment shows it. `undefined` without
 * a known problem.
 */
export function findModelProblem(name: string, env: Shell["env"]): string | undefined {
  const has = (variable: string): boolean => (env[variable] ?? "").trim() !== "";
  if (name.startsWith(PREFIX)) {
    const sdk = parseSdkModelName(name);
    if (sdk === undefined) return describeModelNameForm(name);
    const variable = KEY_VARIABLES.get(sdk.provider);
    if (variable === undefined || has(variable)) return undefined;
    return `ESPALIER_MODEL needs ${variable}, which is not set. Set it, or unset ESPALIER_MODEL to use the offline planner.`;
  }
  const names = ["OPENAI_API_KEY", "OPENAI_BASE_URL"];
  if (names.some(has)) return undefined;
  return `ESPALIER_MODEL needs ${names.join(" or ")}, but neither is set. Set one, for example OPENAI_BASE_URL=http://localhost:11434/v1, or unset ESPALIER_MODEL to use the offline planner.`;
}

/**
 * Returns the model with this name.
 *
 * @throws EspalierError `invalid_argument` if the name is invalid, or the package
 * of the provider creates no models, and `missing_package` if it is not installed.
 */
export async function createNamedModel(name: string): Promise<Model> {
  if (!name.startsWith(PREFIX)) return openai(name);
  const sdk = parseSdkModelName(name);
  if (sdk === undefined) throw createModelNameError(describeModelNameForm(name));
  const create = await loadSdkProvider(name, sdk.provider);
  return aiSdkModel(create(sdk.id));
}

function describeModelNameForm(name: string): string {
  return `Expected a model of the AI SDK to be named ${PREFIX}<provider>/<model>, got ${JSON.stringify(name)}. Write for example ${PREFIX}anthropic/claude-sonnet-5.`;
}

function parseSdkModelName(name: string) {
  if (!name.startsWith(PREFIX)) return undefined;
  const { provider, id } = FORM.exec(name.slice(PREFIX.length))?.groups ?? {};
  return provider === undefined || id === undefined ? undefined : { provider, id };
}

type CreateModel = (id: string) => Parameters<typeof aiSdkModel>[0];

/** Returns the provider of a package. It sends prompt and key to no other server. */
async function loadSdkProvider(name: string, provider: string): Promise<CreateModel> {
  const packageName = `@ai-sdk/${provider}`;
  const module = await importPackage(packageName, name);
  const wanted = `create${provider.replaceAll("-", "")}`;
  const keys = Object.keys(module);
  const key = keys.find((name) => name.toLowerCase() === wanted);
  // A package without a default provider needs unknown options to create one.
  const hasOwn = keys.some((name) => /^(?!create)[a-z]/.test(name));
  const createProvider: unknown = key === undefined ? undefined : Reflect.get(module, key);
  if (hasOwn && typeof createProvider === "function") {
    const create: unknown = Reflect.apply(createProvider, undefined, [{ fetch: sameOriginFetch }]);
    if (isCreateModel(create)) return create;
  }
  throw createModelNameError(
    `Expected ${packageName} to export a provider, got none. Create its model in your own program, with aiSdkModel().`,
  );
}

async function importPackage(packageName: string, name: string): Promise<object> {
  try {
    const module: unknown = await import(packageName);
    if (typeof module === "object" && module !== null) return module;
    throw createModelNameError(`Expected ${packageName} to be a module.`);
  } catch (cause) {
    if (findErrorCode(cause) !== "ERR_MODULE_NOT_FOUND") throw cause;
    throw new EspalierError({
      code: "missing_package",
      message: `The model ${name} needs the package ${packageName}, which is not installed. Run: npm install ${packageName}`,
    });
  }
}

/** `aiSdkModel` checks the result. */
function isCreateModel(value: unknown): value is CreateModel {
  return typeof value === "function";
}

function createModelNameError(message: string): EspalierError {
  return new EspalierError({ code: "invalid_argument", message });
}
