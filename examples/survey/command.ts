// What the demo was asked to do: its arguments and its environment, checked before anything starts.

import { statSync, type Stats } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { EspalierError } from "espalier";
import { jaegerLinks } from "espalier/terminal";

import { modelProblem } from "./survey-model.ts";

export type Command =
  | { readonly kind: "help" }
  | { readonly kind: "invalid"; readonly message: string }
  | {
      readonly kind: "survey";
      readonly folder: string;
      readonly task: string;
      /** Undefined: the offline planner. */
      readonly modelName: string | undefined;
      readonly isTraced: boolean;
      /** Where the pages of Jaeger are; undefined: unknown, or there is no trace. */
      readonly jaegerUrl: string | undefined;
    };

export type Environment = Readonly<Record<string, string | undefined>>;

export const HELP = `\
Surveys a folder with a tree of agents: a lead hands parts to surveyors and writes a report.

  npm run demo                          surveys the source of espalier
  npm run demo -- <folder> ["<task>"]   surveys another folder; looks for the words that the task
                                        has in quotes

OPENAI_API_KEY, OPENAI_BASE_URL   the server to ask: OpenAI, or any that speaks Chat Completions;
                                  one of the two is enough
ESPALIER_OPENAI_API               responses, for a server that speaks that instead, or chat
ESPALIER_MODEL                    the model to use there; without all three, an offline planner
                                  works by fixed rules. ai-sdk:anthropic/claude-sonnet-5: that
                                  model over the package @ai-sdk/anthropic, if it is installed,
                                  with the key that it wants (ANTHROPIC_API_KEY)
OTEL_EXPORTER_OTLP_ENDPOINT       where to send the trace, as in http://localhost:4318
ESPALIER_JAEGER_URL               the Jaeger that shows it, for a link to the trace; without it
                                  http://localhost:16686 if the trace goes to this machine
NO_COLOR                          plain lines instead of a live tree

Ctrl-C cancels the survey and shows what there is; a second one ends at once.
Exit code: 0 completed; 1 failed; 2 wrong use; 3 stopped by a limit; 4 paused; 130 cancelled.`;

const DEFAULT_FOLDER = fileURLToPath(new URL("../../src", import.meta.url));
const DEFAULT_TASK = "What is each part for, and how do the parts fit together?";

export function readCommand(args: readonly string[], env: Environment): Command {
  const parsed = parse(args);
  if (typeof parsed === "string") return invalid(parsed);
  if (parsed.isHelp) return { kind: "help" };
  const [folder = DEFAULT_FOLDER, task = DEFAULT_TASK, ...rest] = parsed.positionals;
  if (rest.length > 0) {
    return invalid(
      `Expected a folder and a task, got ${args.length} arguments. Put the task in quotes.`,
    );
  }
  if (task.trim() === "")
    return invalid("Expected a task in words, got an empty one. Leave it out for the usual one.");
  const problem = folderProblem(folder);
  if (problem !== undefined) return invalid(problem);
  // Without a model's name there is none, whatever keys the shell has for other programs.
  const modelName = setting(env, "ESPALIER_MODEL");
  const missing = modelName === undefined ? undefined : modelProblem(modelName, env);
  if (missing !== undefined) return invalid(missing);
  const jaegerUrl = jaegerUrlOf(env);
  const urlProblem = jaegerUrl === undefined ? undefined : problemOf(jaegerUrl);
  if (urlProblem !== undefined) return invalid(`ESPALIER_JAEGER_URL: ${urlProblem}`);
  return {
    kind: "survey",
    folder: resolve(folder),
    task,
    modelName,
    isTraced: endpointOf(env) !== undefined,
    jaegerUrl,
  };
}

function invalid(message: string): Command {
  return { kind: "invalid", message };
}

interface Arguments {
  readonly positionals: readonly string[];
  readonly isHelp: boolean;
}

function parse(args: readonly string[]): Arguments | string {
  const { values, tokens } = parseArgs({
    args: [...args],
    options: { help: { type: "boolean", short: "h" } },
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  const unknown = tokens.find((token) => token.kind === "option" && token.name !== "help");
  if (unknown?.kind === "option") {
    const { rawName } = unknown;
    return `Expected no option but --help, got ${rawName}. Write ./${rawName} if it is a folder.`;
  }
  const positionals = tokens.flatMap((token) => (token.kind === "positional" ? [token.value] : []));
  return { positionals, isHelp: values["help"] !== undefined };
}

function folderProblem(folder: string): string | undefined {
  const name = JSON.stringify(folder);
  let stats: Stats | undefined;
  try {
    stats = statSync(folder, { throwIfNoEntry: false });
  } catch (cause) {
    return `Expected a folder that can be read, but ${name} cannot (${String(cause)}). Check its permissions.`;
  }
  if (stats === undefined) return `Expected a folder, but there is no ${name}. Check the path.`;
  return stats.isDirectory()
    ? undefined
    : `Expected a folder, but ${name} is none. Name the folder it lies in.`;
}

function endpointOf(env: Environment): string | undefined {
  return (
    setting(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ??
    setting(env, "OTEL_EXPORTER_OTLP_ENDPOINT")
  );
}

const THIS_MACHINE = /^(localhost|127(\.\d+){3}|\[::1\])$/;

function jaegerUrlOf(env: Environment): string | undefined {
  const endpoint = endpointOf(env);
  if (endpoint === undefined) return undefined;
  const isHere = URL.canParse(endpoint) && THIS_MACHINE.test(new URL(endpoint).hostname);
  return setting(env, "ESPALIER_JAEGER_URL") ?? (isHere ? "http://localhost:16686" : undefined);
}

function problemOf(jaegerUrl: string): string | undefined {
  try {
    jaegerLinks(jaegerUrl);
    return undefined;
  } catch (cause) {
    if (!EspalierError.is(cause)) throw cause;
    return cause.message;
  }
}

function setting(env: Environment, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === "" ? undefined : value;
}
