// RunMetrics: metrics of runs and agents, from the same events as their spans. Owns the counts of
// open runs, agents and calls.
// 1. Nothing here throws, even if a meter throws: an error in a metric removes no span.
// 2. Tokens are counted when the ledger charges them, once per model call, including calls that
//    hooks repeat and calls that were lost in a crash. So the counters agree with the usage of the
//    run. If its store fails, charged usage that was not persisted is counted again after the
//    recovery: at-least-once.
// 3. Durations are measured when spans end, once per span: a pause ends a span.
// 4. Gauges are balanced: agents and approvals are subtracted at the end or pause around them, or
//    when the run is released to another process.
// 5. A run looks up its meter when it starts or resumes. Without a meter, nothing is counted.

import {
  createNoopMeter,
  metrics,
  type Attributes,
  type Meter,
  type MetricOptions,
} from "@opentelemetry/api";

import { getErrorMessage } from "../../kernel/error.ts";
import { callListener, warnOnce } from "../../kernel/warn-once.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { AgentId, RunId, QuestionId } from "../../protocol/ids.ts";
import type {
  Abandonment,
  SpanClosing,
  SpanMoment,
  SpanNote,
  SpanOpening,
} from "../../protocol/span-tree.ts";
import { addUsage, subtractUsage, type Usage, NO_USAGE, toAmounts } from "../../protocol/usage.ts";
import { ERROR_TYPE, ESPALIER, GEN_AI, OPERATION, OUTCOME } from "../gen-ai-attributes.ts";
import {
  findFailure,
  findOutcomeName,
  describeStart,
  type SpanEnd,
} from "../spans/span-attributes.ts";
import {
  TOKEN_TYPE,
  UNKNOWN,
  UNKNOWN_MODALITY,
  type Metric,
  METRICS,
  OTHER,
  type MetricDefinition,
} from "./metric-names.ts";
import { OWN_PACKAGE } from "../../kernel/own-package.ts";
import { checkBoolean, checkMethods } from "../../kernel/argument-checks.ts";

/** A span to be measured. */
interface MeasuredSpan {
  readonly opening: SpanOpening;
  /** Time and place of its start. */
  readonly moment: SpanMoment;
  /** Role of its agent. */
  readonly role: string;
}

interface MeasuredRun {
  readonly instruments: Instruments;
  readonly agents: Map<AgentId, AgentTally>;
  /** Usage that was charged for agents before they continued. */
  readonly early: Map<AgentId, Usage>;
}

export class RunMetrics {
  readonly #instruments: MeteredInstruments;
  readonly #runs = new Map<RunId, MeasuredRun>();

  /** @throws EspalierError `invalid_argument` if an option is invalid. */
  constructor(options: MetricsOptions = {}) {
    checkMetricsOptions(options);
    this.#instruments = new MeteredInstruments(options);
  }

  /** Records the start of a span. */
  openSpan(span: MeasuredSpan): void {
    this.#runSafely(() => this.#open(span));
  }

  /** Records an event within a span. */
  recordEvent({ role }: MeasuredSpan, body: SpanNote, { scope }: SpanMoment): void {
    const run = this.#runs.get(scope.runId);
    if (run !== undefined) this.#runSafely(() => recordSpanNote(run, role, body, scope.agentId));
  }

  /** Records the end of a span, by its own event or by the end of its parent. */
  closeSpan(span: MeasuredSpan, end: SpanClosing | Abandonment, { atMs }: SpanMoment): void {
    const run = this.#runs.get(span.moment.scope.runId);
    if (run !== undefined) this.#runSafely(() => this.#close(run, span, end, atMs));
  }

  /** Number of runs that are measured. */
  get openRuns(): number {
    return this.#runs.size;
  }

  #open({ opening, moment }: MeasuredSpan): void {
    const { runId, agentId, parentAgentId } = moment.scope;
    if (opening.type === "run.started" || opening.type === "run.resumed") {
      const instruments = this.#instruments.find();
      if (instruments === undefined) return;
      this.#runs.set(runId, { instruments, agents: new Map(), early: new Map() });
    }
    const run = this.#runs.get(runId);
    if (run === undefined) return;
    if (opening.type !== "agent.started" && opening.type !== "agent.resumed") return;
    const parent = parentAgentId === null ? undefined : run.agents.get(parentAgentId);
    const agent = new AgentTally(run.instruments, opening, parent);
    run.agents.set(agentId, agent);
    const usage = run.early.get(agentId);
    if (usage === undefined) return;
    run.early.delete(agentId);
    agent.countEarlier(usage);
    measureUsage(run.instruments, agent.caller, usage);
  }

  /**
   * Records the end of a span. A span with the end `released` has no duration: another process may
   * continue the run.
   */
  #close(run: MeasuredRun, span: MeasuredSpan, end: SpanClosing | Abandonment, atMs: number): void {
    const { runId, agentId } = span.moment.scope;
    const { type } = span.opening;
    const agent = run.agents.get(agentId);
    if (type === "run.started" || type === "run.resumed") {
      this.#runs.delete(runId);
      // Usage that was charged for agents that never continued.
      const caller = {
        [GEN_AI.operation]: OPERATION.model,
        [GEN_AI.provider]: UNKNOWN,
        [GEN_AI.requestModel]: UNKNOWN,
        [GEN_AI.agentName]: UNKNOWN,
      };
      for (const usage of run.early.values()) measureUsage(run.instruments, caller, usage);
    }
    if (type === "agent.started" || type === "agent.resumed") {
      run.agents.delete(agentId);
      agent?.leave();
    }
    if (end === "released") return;
    measureEnd(run.instruments, span, end, atMs);
    if (typeof end !== "string" && end.type === "agent.ended") agent?.measureBudget(end);
  }

  #runSafely(work: () => void): void {
    callListener(this, work, (why) => `Metrics have gaps, because measuring failed: ${why}`);
  }
}

function recordSpanNote(run: MeasuredRun, role: string, body: SpanNote, agentId: AgentId): void {
  const agent = run.agents.get(agentId);
  switch (body.type) {
    case "budget.settled": {
      const { usage, otherModels = [] } = body;
      if (agent === undefined) {
        // Usage of calls lost in a crash is charged before their agent continues.
        const before = run.early.get(agentId);
        run.early.set(agentId, before === undefined ? usage : addUsage(before, usage));
        return;
      }
      agent.charge(usage);
      let rest = usage;
      for (const { provider, model, usage: used } of otherModels) {
        const caller = { [GEN_AI.provider]: provider, [GEN_AI.requestModel]: model };
        measureUsage(run.instruments, { ...agent.caller, ...caller }, used);
        rest = subtractUsage(rest, used);
      }
      measureUsage(run.instruments, agent.caller, rest);
      return;
    }
    case "step.completed":
      agent?.chargeTools(body.usage.toolCalls);
      return;
    case "subagent.spawned":
      run.instruments.measure("spawnedAgents", 1, { [GEN_AI.agentName]: body.role });
      return;
    case "question.asked":
      if (body.kind === "approval") agent?.ask(body);
      return;
    case "question.answered":
      agent?.settleQuestion(body.questionId);
      // Only approvals are measured.
      if (body.answer !== "approved" && body.answer !== "denied") return;
      run.instruments.measure("approvalWait", Math.max(0, body.waitedMs) / 1_000, {
        [GEN_AI.agentName]: role,
        [GEN_AI.toolName]: body.toolName,
        // The end of its agent is not a decision.
        [ESPALIER.outcome]: body.source === "end" ? OUTCOME.abandoned : body.answer,
      });
      return;
    default:
  }
}

function measureEnd(
  instruments: Instruments,
  { opening, moment, role }: MeasuredSpan,
  end: SpanEnd,
  atMs: number,
): void {
  const seconds = Math.max(0, Math.round((atMs - moment.atMs) * 1_000)) / 1_000_000;
  const event = typeof end === "string" ? undefined : end;
  const repliedBy = event?.type === "model.replied" ? event.repliedBy : undefined;
  const dimensions: Dimensions = {
    ...describeStart(opening, moment.scope).attributes,
    // Model of a fallback that replied in place of the first one.
    ...(repliedBy && {
      [GEN_AI.provider]: repliedBy.provider,
      [GEN_AI.requestModel]: repliedBy.model,
    }),
    [GEN_AI.agentName]: role,
    [ESPALIER.outcome]: findOutcomeName(end),
    [ERROR_TYPE]: findFailure(end),
  };
  for (const metric of DURATIONS[opening.type]) instruments.measure(metric, seconds, dimensions);
  if (event === undefined || !("queuedMs" in event)) return;
  instruments.measure("queueWait", event.queuedMs / 1_000, dimensions);
  if (event.type !== "model.replied" && event.type !== "model.failed") return;
  const { inputTokens, outputTokens } = event.usage;
  const [input, output] = [TOKEN_TYPE.input, TOKEN_TYPE.output];
  instruments.measure("operationInputTokens", inputTokens, dimensions);
  instruments.measure("operationOutputTokens", outputTokens, dimensions);
  instruments.measure("legacyTokens", inputTokens, { ...dimensions, [GEN_AI.tokenType]: input });
  instruments.measure("legacyTokens", outputTokens, { ...dimensions, [GEN_AI.tokenType]: output });
}

/** Duration metrics by the opening event of a span. */
const DURATIONS: Readonly<Record<SpanOpening["type"], readonly Metric[]>> = {
  "run.started": ["workflowDuration"],
  "run.resumed": ["workflowDuration"],
  "agent.started": ["agentDuration"],
  "agent.resumed": ["agentDuration"],
  "model.requested": ["inferenceDuration", "legacyDuration"],
  "tool.started": ["toolDuration"],
  "tool.resumed": ["toolDuration"],
  "tool.rejected": ["toolDuration"],
};

/** Records charged tokens. A call that was never sent is ignored. */
function measureUsage(instruments: Instruments, caller: Dimensions, usage: Usage): void {
  if (usage.modelCalls === 0 && usage.totalTokens === 0) return;
  const dimensions = { ...caller, [GEN_AI.tokenModality]: UNKNOWN_MODALITY };
  instruments.measure("inputTokens", usage.inputTokens, dimensions);
  instruments.measure("outputTokens", usage.outputTokens, dimensions);
  instruments.measure("cacheReadTokens", usage.cachedInputTokens, dimensions);
  instruments.measure("reasoningTokens", usage.reasoningTokens, dimensions);
}

// AgentTally: counts of an agent since its start or resume. Owns these counts.

type AgentStart = EventBody<"agent.started" | "agent.resumed">;

class AgentTally {
  /** Attributes of its model calls. */
  readonly caller: Dimensions;
  readonly #budget: AgentStart["budget"];
  readonly #parent: AgentTally | undefined;
  readonly #instruments: Instruments;
  readonly #pending = new Map<QuestionId, Dimensions>();
  #modelCalls = 0;
  #toolCalls = 0;
  /** Usage of the agent and its descendants since its start or resume. */
  #spent: Usage = NO_USAGE;

  /** Starts or continues counting. `parent` is the agent that spawned it, if that is active. */
  constructor(instruments: Instruments, opening: AgentStart, parent: AgentTally | undefined) {
    const { role, provider, model, budget } = opening;
    this.#instruments = instruments;
    this.caller = {
      [GEN_AI.operation]: OPERATION.model,
      [GEN_AI.provider]: provider,
      [GEN_AI.requestModel]: model,
      [GEN_AI.agentName]: role,
    };
    this.#budget = budget;
    this.#parent = parent;
    instruments.measure("activeAgents", 1, this.caller);
  }

  /**
   * Counts model calls that were booked before the agent continued. They are not part of its budget
   * since.
   */
  countEarlier(usage: Usage): void {
    this.#modelCalls += usage.modelCalls;
  }

  /** Records a charged model call. */
  charge(usage: Usage): void {
    this.#modelCalls += usage.modelCalls;
    this.#spend(usage);
  }

  /** Adds the tool calls of a completed step. */
  chargeTools(toolCalls: number): void {
    this.#toolCalls += toolCalls;
    this.#spend({ ...NO_USAGE, toolCalls });
  }

  ask({ questionId, toolName }: EventBody<"question.asked">): void {
    if (this.#pending.has(questionId)) return;
    const dimensions = { ...this.caller, [GEN_AI.toolName]: toolName };
    this.#pending.set(questionId, dimensions);
    this.#instruments.measure("pendingApprovals", 1, dimensions);
  }

  /** Records an answer. A question from before a pause was never added here. */
  settleQuestion(questionId: QuestionId): void {
    const dimensions = this.#pending.get(questionId);
    if (dimensions === undefined) return;
    this.#pending.delete(questionId);
    this.#instruments.measure("pendingApprovals", -1, dimensions);
  }

  /** Ends the counting in this process and balances the gauges. */
  leave(): void {
    for (const questionId of this.#pending.keys()) this.settleQuestion(questionId);
    this.#instruments.measure("activeAgents", -1, this.caller);
    this.#instruments.measure("agentInferenceCalls", this.#modelCalls, this.caller);
    this.#instruments.measure("agentToolCalls", this.#toolCalls, this.caller);
  }

  #spend(usage: Usage): void {
    this.#spent = addUsage(this.#spent, usage);
    if (this.#parent !== undefined) this.#parent.#spend(usage);
  }

  /**
   * Records the used part of each limit. Usage before this segment counts as well, as the limit
   * does.
   */
  measureBudget({ status, usage }: EventBody<"agent.ended">): void {
    const used: Readonly<Record<string, number>> = toAmounts(usage.total);
    const spent: Readonly<Record<string, number>> = toAmounts(this.#spent);
    for (const [axis, left] of Object.entries(this.#budget)) {
      const [amount, since] = [used[axis], spent[axis]];
      if (amount === undefined || since === undefined) continue;
      const limit = left + Math.max(0, amount - since);
      if (limit > 0)
        this.#instruments.measure("budgetUtilization", amount / limit, {
          ...this.caller,
          [ESPALIER.budgetAxis]: axis,
          [ESPALIER.outcome]: status,
        });
    }
  }
}

// Instruments: the instruments of a meter, with a bound on attribute values. Owns the values seen
// so far. Calls only that meter.
// 1. Nothing here throws. If a meter throws, it causes one warning, and that measurement is
//    missing.
// 2. An attribute has at most `MAX_VALUES` values: models may invent any number of names, and a
//    backend stores a series for each.

/** Maximum number of values of an attribute. All further values become `_OTHER`. */
export const MAX_VALUES = 200;

/** Maximum length of a value, in characters. */
const LONGEST_VALUE = 256;

/** Attributes of a measurement. A metric records only its declared attributes. */
type Dimensions = Readonly<Attributes>;

type TakeValue = (value: number, attributes: Attributes) => void;

class Instruments {
  readonly #meter: Meter;
  readonly #hasLegacy: boolean;
  /** Measuring functions, created at first use. `undefined` if creation failed. */
  readonly #measures = new Map<Metric, TakeValue | undefined>();
  readonly #values = new Map<string, Set<string>>();

  constructor(meter: Meter, hasLegacy: boolean) {
    this.#meter = meter;
    this.#hasLegacy = hasLegacy;
  }

  /**
   * Adds to a counter, or records in a histogram. Ignores metrics with old names unless they are
   * enabled.
   */
  measure(metric: Metric, value: number, dimensions: Dimensions = {}): void {
    const measure = this.#getMeasure(metric);
    if (measure === undefined || !Number.isFinite(value)) return;
    const attributes: Record<string, string> = {};
    for (const name of METRICS[metric].attributes) {
      const value = dimensions[name];
      if (typeof value !== "string") continue;
      // A known value stays known, so that gauges are balanced under the same name.
      const values = this.#values.get(name) ?? new Set();
      this.#values.set(name, values);
      if (values.size < MAX_VALUES && value.length <= LONGEST_VALUE) values.add(value);
      attributes[name] = values.has(value) ? value : OTHER;
    }
    this.#runSafely(() => measure(value, attributes));
  }

  #getMeasure(metric: Metric): TakeValue | undefined {
    const definition: MetricDefinition = METRICS[metric];
    if (definition.isLegacy === true && !this.#hasLegacy) return undefined;
    if (!this.#measures.has(metric)) {
      this.#measures.set(metric, undefined);
      this.#runSafely(() => this.#measures.set(metric, this.#makeMeasure(definition)));
    }
    return this.#measures.get(metric);
  }

  #makeMeasure({ name, kind, unit, description, boundaries }: MetricDefinition): TakeValue {
    const options: MetricOptions = { unit, description };
    if (kind === "histogram") {
      const advice = boundaries === undefined ? {} : { explicitBucketBoundaries: [...boundaries] };
      const histogram = this.#meter.createHistogram(name, { ...options, advice });
      return (value, attributes) => histogram.record(value, attributes);
    }
    const counter =
      kind === "counter"
        ? this.#meter.createCounter(name, options)
        : this.#meter.createUpDownCounter(name, options);
    return (value, attributes) => counter.add(value, attributes);
  }

  #runSafely(work: () => void): void {
    callListener(this.#meter, work, (why) => `A meter threw (${why}); its metrics have gaps.`);
  }
}

/** Instruments of the current meter. Owns one set of instruments per meter. */
export class MeteredInstruments {
  readonly #meter: Meter | undefined;
  readonly #hasLegacy: boolean;
  readonly #byMeter = new WeakMap<Meter, Instruments>();

  /** `meter` defaults to that of the registered provider at the time of a measurement. */
  constructor({ meter, legacyMetrics = false }: MetricsOptions = {}) {
    this.#meter = meter;
    this.#hasLegacy = legacyMetrics;
  }

  /** Returns the instruments, or `undefined` without a recording meter. Never throws. */
  find(): Instruments | undefined {
    const meter = this.#meter ?? findRegisteredMeter();
    if (meter === undefined || meter === createNoopMeter()) return undefined;
    const instruments = this.#byMeter.get(meter) ?? new Instruments(meter, this.#hasLegacy);
    this.#byMeter.set(meter, instruments);
    return instruments;
  }
}

/** Returns the meter `espalier` of the registered provider. `undefined` if it throws. */
function findRegisteredMeter(): Meter | undefined {
  const provider = metrics.getMeterProvider();
  try {
    return provider.getMeter(OWN_PACKAGE.name, OWN_PACKAGE.version);
  } catch (cause) {
    warnOnce(provider, `A meter provider threw (${getErrorMessage(cause)}); nothing is measured.`);
    return undefined;
  }
}

/** Options for the metrics of runs. `docs/metrics.md` lists the metrics. */
export interface MetricsOptions {
  /**
   * Meter that records the metrics. `createNoopMeter()` of `@opentelemetry/api` disables them.
   *
   * @default the meter `espalier` of the provider that is registered globally when a run starts or
   * resumes
   *
   * @example
   * ```ts
   * import { createNoopMeter } from "@opentelemetry/api";
   *
   * const orchestrator = new Orchestrator({
   *   tracing: openTelemetry({ meter: createNoopMeter() }),
   * });
   * ```
   */
  readonly meter?: Meter;
  /**
   * Whether metrics are also recorded under their names in version 1.41 of the semantic
   * conventions, for older dashboards.
   *
   * @default false
   */
  readonly legacyMetrics?: boolean;
}

const METHODS = ["createCounter", "createUpDownCounter", "createHistogram"];

/** Throws `invalid_argument` if an option is invalid. */
function checkMetricsOptions({ meter, legacyMetrics }: MetricsOptions): void {
  if (meter !== undefined) checkMethods("openTelemetry.meter", meter, METHODS);
  const advice = "Leave it out for the newest names only.";
  if (legacyMetrics !== undefined)
    checkBoolean("openTelemetry.legacyMetrics", legacyMetrics, advice);
}
