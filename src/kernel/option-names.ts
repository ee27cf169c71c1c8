// Finds the option that an unknown name means. Owns the names that other libraries use for our
// options, and the call that takes each option.

import { isMisspelt, normalizeName } from "./misspelt.ts";

/** Names that other libraries use, by the path of our option. The first match applies. */
const COUNTERPARTS: Readonly<Record<string, string>> = {
  name: "id",
  description: "purpose handoffDescription",
  instructions: "system systemPrompt systemMessage prompt persona goal backstory",
  model: "modelName modelId defaultModel llm",
  output: "outputType schema responseFormat structuredOutput responseModel outputSchema",
  roles: "agents agent",
  subagents: "handoffs agents",
  inputSchema: "parameters input schema args arguments",
  execute: "handler run func fn call invoke",
  needsApproval: "requireApproval requiresApproval interruptBefore interruptOn",
  tools: "tool functions",
  toolFilters: "activeTools isEnabled",
  guards: "guardrails toolGuardrails",
  hooks: "prepareStep middleware inputGuardrails outputGuardrails inputProcessors outputProcessors",
  stopWhen: "toolUseBehavior returnDirect",
  maxOutputTokens: "maxTokens maxCompletionTokens",
  outputTokens: "maxOutputTokens",
  maxRetries: "retries attempts",
  maxAttempts: "attempts",
  timeoutMs: "timeout",
  "budget.steps": "maxSteps maxTurns maxIterations recursionLimit turns iterations",
  "budget.totalTokens": "tokens maxTokens maxTotalTokens tokenLimit",
  "budget.inputTokens": "maxInputTokens",
  "budget.costUsd": "cost usd dollars maxCost maxCostUsd maxBudgetUsd budgetUsd costLimit",
  "budget.toolCalls": "calls maxToolCalls",
  "budget.timeMs": "time timeout timeoutMs timeLimitMs maxTimeMs durationMs maxDurationMs",
  "limits.maxDepth": "depth",
  "limits.maxBreadthPerParent": "breadth maxBreadth maxChildren maxParallel",
  "limits.maxTotalSubagents": "maxAgents maxSubagents maxTotal",
  "concurrency.modelCalls": "maxConcurrency maxConcurrent concurrencyLimit",
  "retryPolicy.maxAttempts": "maxRetries retries attempts retry",
  "modelSettings.reasoning": "thinking",
  "modelSettings.reasoning.effort": "reasoningEffort",
  "modelSettings.toolChoice": "",
  "modelSettings.topP": "",
  "modelSettings.seed": "",
  "modelSettings.stopSequences": "stop",
  "modelSettings.verbosity": "",
  "modelSettings.parallelToolCalls": "",
  "retention.maxMessages": "lastMessages",
  "retention.maxExecutions": "",
  context: "runtimeContext requestContext state deps",
  signal: "abortSignal",
  metadata: "tags userId",
  deadlineAtMs: "deadline deadlineMs",
  store: "storage checkpointer checkpoint database",
  sinks: "onEvent logger",
  onStreamPart: "onText onToken onChunk onDelta",
  tracing: "telemetry observability tracer",
  grants: "budget grant",
  answers: "approvals decisions command",
  runId: "id",
  baseUrl: "apiBase endpoint",
  headers: "defaultHeaders organization project",
};

/** Names that no option replaces, by advice. */
const REPLACEMENTS: Readonly<Record<string, string>> = {
  "Pass a session to start(): await orchestrator.openSession(id).":
    "thread threadId sessionId conversationId previousResponseId resourceId memory",
  "Pass the new message to start() as its task. A session keeps earlier messages.":
    "messages history prompt input",
  "Read run.events(), such as the event step.completed.": "onStepFinish onStepEnd callbacks",
  "Await run.result.": "onFinish onEnd onComplete onError",
  "Read run.stream().": "stream streamMode",
  "Pass the tools of connectMcp() to defineAgent().": "mcp mcpServers",
  "Pass withFallback([…]) to defineAgent() as its model.": "fallback fallbackModel fallbacks",
  "Pass modelLimits({ requestsPerMinute: … }) to the model as its limits.":
    "requestsPerMinute tokensPerMinute maxConcurrentRequests rpm tpm",
  "Pass providerOptions to aiSdkModel().":
    "providerOptions providerData topK presencePenalty frequencyPenalty",
  "Write a function that starts runs, or a tool with defineDelegation().": "workflows workflow",
  "The result of a tool needs no schema.": "outputSchema",
  "Return toolResult({ text: …, structured: … }).": "toModelOutput",
  'Add it to the task: start(role, [{ type: "text", text: … }, attachment]).':
    "attachments files images",
};

/** Options by the call that takes them. */
const OWNERS: Readonly<Record<string, string>> = {
  "start() or defineAgent()": "budget",
  "start()": "session context signal metadata deadlineAtMs traceparent onStreamPart runId",
  "new Orchestrator() or defineAgent()": "limits hooks guards",
  "new Orchestrator()": `store roles retryPolicy concurrency maxConcurrentRuns approver sinks tracing
    answerTimeoutMs unansweredPolicy prices hookTimeoutMs`,
  "defineAgent()": `model instructions tools subagents output outputMode description stopWhen
    modelSettings temperature maxOutputTokens toolDefaults toolFilters contextPolicy delegation
    errorBudget showBudget wrapUp compaction sections`,
  "defineTool()": "inputSchema execute needsApproval sequential retryAfterCrash",
  "openSession()": "retention",
  "resume()": "answers",
  "openai()": "apiKey baseUrl headers proxy",
};

/** Returns advice that names the option of `known` that `name` means. */
export function adviseOnName(name: string, known: readonly string[]): string {
  return adviseOnCounterpart(name, known) ?? adviseOnSpelling(name, known) ?? "Correct the name.";
}

/** Does the same as `adviseOnName`, and also names options of other calls. */
export function adviseOnOption(name: string, known: readonly string[]): string {
  return (
    adviseOnCounterpart(name, known) ??
    listKeys(REPLACEMENTS, name)[0] ??
    adviseOnSpelling(name, known) ??
    adviseOnOwner(name) ??
    "Correct the name."
  );
}

function adviseOnCounterpart(name: string, known: readonly string[]): string | undefined {
  for (const path of listPaths(name)) {
    const start = path.findIndex((option) => known.includes(option));
    if (start !== -1) return `Use ${formatPath(path.slice(start))}.`;
  }
  return undefined;
}

function adviseOnSpelling(name: string, known: readonly string[]): string | undefined {
  const similar = known.find((option) => isAlmost(name, option) || isMisspelt(name, option));
  return similar && `Use ${similar}.`;
}

function adviseOnOwner(name: string): string | undefined {
  for (const path of listPaths(name)) {
    const [owner] = listKeys(OWNERS, path[0] ?? "");
    if (owner !== undefined) return `Pass ${formatPath(path)} to ${owner}.`;
  }
  return undefined;
}

/** Returns the paths of the options that a name can mean, likely ones first. */
function listPaths(name: string): readonly (readonly string[])[] {
  const owned = Object.values(OWNERS).flatMap((options) => options.split(/\s+/));
  const own = [...Object.keys(COUNTERPARTS), ...owned].filter((path) =>
    isSame(path.split(".").at(-1) ?? "", name),
  );
  return [...listKeys(COUNTERPARTS, name), ...own].map((path) => path.split("."));
}

/** Returns the keys of the entries that list the name. */
function listKeys(table: Readonly<Record<string, string>>, name: string): readonly string[] {
  return Object.keys(table).filter((key) =>
    table[key]?.split(/\s+/).some((option) => isSame(option, name)),
  );
}

/** Returns true for one name in two spellings, such as `toolChoice` and `tool_choice`. */
function isSame(option: string, name: string): boolean {
  const plain = normalizeName(name.replace(/^experimental_/, ""));
  return plain !== "" && normalizeName(option) === plain;
}

/** Formats a path as source code, such as `budget: { steps: … }`. */
function formatPath(path: readonly string[]): string {
  const [option, ...inner] = path;
  return inner.length === 0
    ? String(option)
    : `${option}: { ${formatPath(inner)}${inner.length === 1 ? ": …" : ""} }`;
}

/** Returns true for an option in another case, or without its last letters, such as its unit. */
function isAlmost(name: string, option: string): boolean {
  return option.length - name.length < 4 && option.toLowerCase().startsWith(name.toLowerCase());
}
