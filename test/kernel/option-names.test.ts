// Goal: a user of another library finds the option that replaces theirs, and the call that takes it.
// Method: a table of foreign and misplaced names, through the public calls, without types.

import { createOpenAI } from "@ai-sdk/openai";
import { expect } from "vitest";
import { z } from "zod";

import { defineAgent, defineTool, memoryStore, openai, Orchestrator } from "../../src/index.ts";
import { aiSdkModel } from "../../src/model/ai-sdk/ai-sdk-model.ts";
import { ScriptedModel } from "../../src/testing/scripted-model.ts";
import { proves } from "../harness/proves.ts";
import { rejectionOf } from "../support/thrown.ts";

const role = { name: "lead", instructions: "Lead.", model: new ScriptedModel([]) };
const tool = { name: "read", description: "Reads.", inputSchema: z.object({}), execute: () => "" };
const orchestrator = new Orchestrator({ store: memoryStore() });

/** Calls that take options, by the name that messages use for the call. */
const CALLS: Readonly<Record<string, (options: object) => unknown>> = {
  "defineAgent()": (options) => defineAgent({ ...role, ...options }),
  "defineTool()": (options) => defineTool({ ...tool, ...options }),
  "new Orchestrator()": (options) => new Orchestrator(options),
  "start()": (options) => orchestrator.start(defineAgent(role), "Go.", options),
  "resume()": (options) => orchestrator.resume("run", options),
  "openSession()": (options) => orchestrator.openSession("customer", options),
  "openai()": (options) => openai("gpt-5-mini", { apiKey: "key", ...options }),
  "aiSdkModel()": (options) => aiSdkModel(createOpenAI({ apiKey: "key" })("gpt-5-mini"), options),
  limits: (limits) => new Orchestrator({ limits }),
  budget: (budget) => orchestrator.start(defineAgent(role), "Go.", { budget }),
  modelSettings: (modelSettings) => defineAgent({ ...role, modelSettings }),
};

/** Advice for each name, by the call that is given the name. */
const ADVICE: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "defineAgent()": {
    // AI SDK
    system: "Use instructions.",
    prompt: "Use instructions.",
    maxSteps: "Use budget: { steps: … }.",
    maxRetries: "Pass retryPolicy: { maxAttempts: … } to new Orchestrator().",
    abortSignal: "Pass signal to start().",
    toolChoice: "Use modelSettings: { toolChoice: … }.",
    topP: "Use modelSettings: { topP: … }.",
    activeTools: "Use toolFilters.",
    prepareStep: "Use hooks.",
    providerOptions: "Pass providerOptions to aiSdkModel().",
    topK: "Pass providerOptions to aiSdkModel().",
    onStepFinish: "Read run.events(), such as the event step.completed.",
    onFinish: "Await run.result.",
    experimental_telemetry: "Pass tracing to new Orchestrator().",
    experimental_context: "Pass context to start().",
    experimental_output: "Use output.",
    experimental_activeTools: "Use toolFilters.",
    // OpenAI Agents
    handoffs: "Use subagents.",
    handoffDescription: "Use description.",
    outputType: "Use output.",
    maxTurns: "Use budget: { steps: … }.",
    inputGuardrails: "Use hooks.",
    mcpServers: "Pass the tools of connectMcp() to defineAgent().",
    toolUseBehavior: "Use stopWhen.",
    parallel_tool_calls: "Use modelSettings: { parallelToolCalls: … }.",
    reasoning: "Use modelSettings: { reasoning: … }.",
    reasoningEffort: "Use modelSettings: { reasoning: { effort: … } }.",
    // Mastra
    id: "Use name.",
    agents: "Use subagents.",
    workflows: "Write a function that starts runs, or a tool with defineDelegation().",
    memory: "Pass a session to start(): await orchestrator.openSession(id).",
    inputProcessors: "Use hooks.",
    requestContext: "Pass context to start().",
    // LangGraph
    recursionLimit: "Use budget: { steps: … }.",
    checkpointer: "Pass store to new Orchestrator().",
    interruptBefore: "Pass needsApproval to defineTool().",
    // Options of other calls
    timeoutMs: "Use budget: { timeMs: … }.",
    maxDepth: "Use limits: { maxDepth: … }.",
    context: "Pass context to start().",
    needsApproval: "Pass needsApproval to defineTool().",
    concurrency: "Pass concurrency to new Orchestrator().",
  },
  "defineTool()": {
    parameters: "Use inputSchema.",
    schema: "Use inputSchema.",
    outputSchema: "The result of a tool needs no schema.",
    toModelOutput: "Return toolResult({ text: …, structured: … }).",
    id: "Use name.",
    retries: "Use maxRetries.",
    timeout: "Use timeoutMs.",
    isEnabled: "Pass toolFilters to defineAgent().",
    returnDirect: "Pass stopWhen to defineAgent().",
    maxTurns: "Pass budget: { steps: … } to start() or defineAgent().",
  },
  "new Orchestrator()": {
    agents: "Use roles.",
    storage: "Use store.",
    checkpointer: "Use store.",
    memory: "Pass a session to start(): await orchestrator.openSession(id).",
    telemetry: "Use tracing.",
    maxConcurrency: "Use concurrency: { modelCalls: … }.",
    maxRetries: "Use retryPolicy: { maxAttempts: … }.",
    maxAgents: "Use limits: { maxTotalSubagents: … }.",
    maxCostUsd: "Pass budget: { costUsd: … } to start() or defineAgent().",
    timeoutMs: "Pass budget: { timeMs: … } to start() or defineAgent().",
    onEvent: "Use sinks.",
    apiKey: "Pass apiKey to openai().",
  },
  "start()": {
    messages: "Pass the new message to start() as its task. A session keeps earlier messages.",
    prompt: "Pass the new message to start() as its task. A session keeps earlier messages.",
    files: 'Add it to the task: start(role, [{ type: "text", text: … }, attachment]).',
    system: "Pass instructions to defineAgent().",
    temperature: "Pass temperature to defineAgent().",
    toolChoice: "Pass modelSettings: { toolChoice: … } to defineAgent().",
    stopWhen: "Pass stopWhen to defineAgent().",
    maxTurns: "Use budget: { steps: … }.",
    maxRetries: "Pass retryPolicy: { maxAttempts: … } to new Orchestrator().",
    timeoutMs: "Use budget: { timeMs: … }.",
    costUsd: "Use budget: { costUsd: … }.",
    abortSignal: "Use signal.",
    stream: "Read run.stream().",
    onChunk: "Use onStreamPart.",
    thread_id: "Pass a session to start(): await orchestrator.openSession(id).",
    sessionId: "Pass a session to start(): await orchestrator.openSession(id).",
    runtimeContext: "Use context.",
    state: "Use context.",
    checkpointer: "Pass store to new Orchestrator().",
    maxAgents: "Pass limits: { maxTotalSubagents: … } to new Orchestrator() or defineAgent().",
    answers: "Pass answers to resume().",
    structuredOutput: "Pass output to defineAgent().",
  },
  "resume()": { budget: "Use grants.", approvals: "Use answers." },
  "openSession()": {
    lastMessages: "Use retention: { maxMessages: … }.",
    maxExecutions: "Use retention: { maxExecutions: … }.",
    context: "Pass context to start().",
  },
  "openai()": {
    baseURL: "Use baseUrl.",
    defaultHeaders: "Use headers.",
    timeout: "Use timeoutMs.",
    maxRetries: "Pass retryPolicy: { maxAttempts: … } to new Orchestrator().",
    maxTokens: "Pass maxOutputTokens to defineAgent().",
    temperature: "Pass temperature to defineAgent().",
    reasoning_effort: "Use reasoning: { effort: … }.",
    requestsPerMinute: "Pass modelLimits({ requestsPerMinute: … }) to the model as its limits.",
    prices: "Use price.",
  },
  limits: {
    maxAgents: "Use maxTotalSubagents.",
    maxChildren: "Use maxBreadthPerParent.",
    maxSteps: "Pass budget: { steps: … } to start() or defineAgent().",
    concurrency: "Pass concurrency to new Orchestrator().",
  },
  budget: {
    maxTurns: "Use steps.",
    maxCostUsd: "Use costUsd.",
    timeoutMs: "Use timeMs.",
    maxOutputTokens: "Use outputTokens.",
    maxDepth: "Pass limits: { maxDepth: … } to new Orchestrator() or defineAgent().",
    _: "Correct the name.",
  },
  modelSettings: {
    temperature: "Pass temperature to defineAgent().",
    maxTokens: "Pass maxOutputTokens to defineAgent().",
    tool_choice: "Use toolChoice.",
    reasoningEffort: "Use reasoning: { effort: … }.",
    promptCacheKey: "Correct the name.",
  },
};

/** Returns the names that a call takes, and its advice for another name. */
async function refuse(call: string, name: string): Promise<{ known: string[]; advice: string }> {
  const { message } = await rejectionOf((async () => CALLS[call]?.({ [name]: 1 }))());
  const [, known = "", advice = ""] = / to be one of (.*), got "\w+"\. (.*)$/.exec(message) ?? [];
  return { known: known.split(", "), advice };
}

proves(
  ["D769"],
  "names the option, and the call that takes it, for a foreign or misplaced name",
  async () => {
    const said: Record<string, Record<string, string>> = {};
    for (const [call, names] of Object.entries(ADVICE)) {
      const advice: Record<string, string> = (said[call] = {});
      for (const name of Object.keys(names)) advice[name] = (await refuse(call, name)).advice;
    }
    expect(said).toEqual(ADVICE);
  },
);

proves(["D769"], "advises only options that the named call takes", async () => {
  const calls = Object.entries(ADVICE).flatMap(([call, names]) =>
    Object.values(names).flatMap((advice) => {
      const [, here, option, owners = ""] =
        /^(?:Use (\w+)|Pass (\w+)(?:: .*)? to (.*))/.exec(advice.replace(/\.$/, "")) ?? [];
      if (here !== undefined) return [{ owner: call, option: here }];
      return owners.split(" or ").map((owner) => ({ owner, option }));
    }),
  );
  const checkable = calls.filter(({ owner }) => owner in CALLS);
  expect(checkable.length).toBeGreaterThan(50);
  for (const { owner, option } of checkable)
    expect((await refuse(owner, "unknownName")).known, owner).toContain(option);
});
