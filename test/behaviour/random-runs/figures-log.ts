// The oracle of figures: every request that scripted models of a run received, and its consumption
// by the rules of docs/budgets.md. It shares no code with the implementation that sums usage.

/** The price of a model in micro-dollars per token; `undefined` if it has none. */
export interface Price {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
}

/** A model of the world. */
export interface ModelFacts {
  readonly id: string;
  readonly price: Price | undefined;
}

/** The consumption of one request, as its provider reports it or as it has to be estimated. */
export interface Consumed {
  readonly inputTokens: number;
  readonly cachedInputTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly isEstimated: boolean;
  readonly reportedMicroUsd?: number;
}

/** A request that a model received. `consumed` is `undefined` if nothing is charged. */
export interface LoggedRequest {
  readonly model: ModelFacts;
  readonly fromMs: number;
  toMs: number;
  end: "open" | "replied" | "failed" | "cancelled";
  consumed: Consumed | undefined;
  /** The delay before the next attempt that the error requests, in milliseconds. */
  retryAfterMs?: number;
}

/** A call: a `next()` of a hook, or the only call of a step. */
export interface LoggedCall {
  readonly payer: readonly ModelFacts[];
  readonly requests: LoggedRequest[];
}

/** A step of an agent. */
export interface LoggedStep {
  readonly number: number;
  readonly calls: LoggedCall[];
  /** Valid tool calls, if the reply is executed. */
  toolCalls: number;
}

/** An agent. */
export interface LoggedAgent {
  readonly role: string;
  readonly parent: string | undefined;
  readonly steps: LoggedStep[];
}

/** Figures as the views have them. */
export interface Figures {
  modelCalls: number;
  toolCalls: number;
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  totalTokens: number;
  costUsd: number | null;
  unpricedCalls: number;
  estimatedCalls: number;
}

const NOTHING: Figures = {
  modelCalls: 0,
  toolCalls: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  totalTokens: 0,
  costUsd: 0,
  unpricedCalls: 0,
  estimatedCalls: 0,
};

/** Returns the sum. A cost is null if no part of it is known. */
export function sumFigures(all: readonly Figures[]): Figures {
  const sum = { ...NOTHING };
  let costMicroUsd = 0;
  for (const one of all) {
    for (const field of FIELDS) if (field !== "costUsd") sum[field] += one[field];
    costMicroUsd += Math.round((one.costUsd ?? 0) * 1_000_000);
  }
  const isUnknown = costMicroUsd === 0 && sum.unpricedCalls > 0;
  return { ...sum, costUsd: isUnknown ? null : costMicroUsd / 1_000_000 };
}

const FIELDS = [
  "modelCalls",
  "toolCalls",
  "inputTokens",
  "cachedInputTokens",
  "outputTokens",
  "reasoningTokens",
  "totalTokens",
  "costUsd",
  "unpricedCalls",
  "estimatedCalls",
] as const;

/** Returns the figures of a usage that the oracle knows. */
export function pickFigures(usage: Readonly<Record<(typeof FIELDS)[number], number | null>>) {
  return Object.fromEntries(FIELDS.map((field) => [field, usage[field]]));
}

/** Returns the figures of a call. The cost of each model is rounded up once per call. */
function figuresOfCall({ payer, requests }: LoggedCall): Figures {
  const paid = requests.filter(({ consumed }) => consumed !== undefined);
  const models = [...new Set(paid.map(({ model }) => model))];
  const isUnpriced =
    paid.length === 0
      ? payer.some(({ price }) => price === undefined)
      : paid.some(
          ({ model, consumed }) =>
            model.price === undefined && consumed?.reportedMicroUsd === undefined,
        );
  const parts = models.map((model) =>
    consumedOf(
      model,
      paid.filter((request) => request.model === model),
    ),
  );
  const sum = sumFigures(parts);
  const unpricedCalls = isUnpriced ? 1 : 0;
  const costUsd = sum.costUsd === 0 && isUnpriced ? null : sum.costUsd;
  return { ...sum, modelCalls: 1, unpricedCalls, costUsd };
}

function consumedOf(model: ModelFacts, requests: readonly LoggedRequest[]): Figures {
  const sum = { ...NOTHING };
  let listed = 0;
  let reported = 0;
  for (const { consumed } of requests) {
    if (consumed === undefined) continue;
    const { inputTokens, cachedInputTokens, outputTokens, reasoningTokens } = consumed;
    sum.inputTokens += inputTokens;
    sum.cachedInputTokens += cachedInputTokens;
    sum.outputTokens += outputTokens;
    sum.reasoningTokens += reasoningTokens;
    sum.totalTokens += inputTokens + outputTokens;
    if (consumed.isEstimated) sum.estimatedCalls += 1;
    if (consumed.reportedMicroUsd !== undefined) reported += consumed.reportedMicroUsd;
    else if (model.price !== undefined)
      listed +=
        (inputTokens - cachedInputTokens) * model.price.input +
        cachedInputTokens * model.price.cached +
        outputTokens * model.price.output;
  }
  return { ...sum, costUsd: (reported + Math.ceil(listed)) / 1_000_000 };
}

export function figuresOfStep({ calls, toolCalls }: LoggedStep): Figures {
  return { ...sumFigures(calls.map(figuresOfCall)), toolCalls };
}

export function figuresOfAgent({ steps }: LoggedAgent): Figures {
  return sumFigures(steps.map(figuresOfStep));
}

/** Returns the figures of an agent and its descendants. */
export function figuresOfTree(agent: LoggedAgent, all: readonly LoggedAgent[]): Figures {
  const below = all.filter(({ parent }) => parent === agent.role);
  return sumFigures([figuresOfAgent(agent), ...below.map((child) => figuresOfTree(child, all))]);
}

/** Returns the failed attempts of all calls of a step. */
export function failedRequests({ calls }: LoggedStep): number {
  return calls.flatMap(({ requests }) => requests).filter(({ end }) => end === "failed").length;
}
