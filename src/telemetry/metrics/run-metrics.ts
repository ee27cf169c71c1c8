// RunMetrics: what a run and its agents did, in numbers, from the same events as its spans.
// Owns what has been counted of each run, agent and call that is open.
// 1. Nothing here throws, whatever a meter does: a fault in a number takes no span away.
// 2. Tokens are counted when they are booked in the ledger, which is once for each model call: also
//    if a hook made several of one, and if one was lost with its process. So the counters agree
//    with the usage of the run (X18). If its store fails under a run, what was booked and could not
//    be kept is counted, and again when the run is recovered: then it is counted at least once.
// 3. Durations are measured where spans end, as often as there are spans: a pause ends them.
// 4. What goes up comes down: agents and approvals at the end or the pause around them, or when the
//    run is left to another process.
// 5. A run looks for a meter when it begins, or continues, and keeps it. Without one, nothing is kept.

import { messageOf } from "../../kernel/error.ts";
import { warnOnce } from "../../kernel/warn-once.ts";
import type { EventBody } from "../../protocol/event.ts";
import type { AgentId, RunId } from "../../protocol/ids.ts";
import type {
  Abandonment,
  SpanClosing,
  SpanMoment,
  SpanNote,
  SpanOpening,
} from "../../protocol/span-tree.ts";
import { addUsage, subtractUsage, type Usage } from "../../protocol/usage.ts";
import { AgentTally } from "./agent-tally.ts";
import { GEN_AI } from "../gen-ai-attributes.ts";
import { MeteredInstruments, type Instruments } from "./instruments.ts";
import {
  measureApproval,
  measureModelCall,
  measureRun,
  measureToolCall,
  measureUsage,
} from "./measurements.ts";
import { UNKNOWN } from "./metric-names.ts";
import { checkMetricsOptions, type MetricsOptions } from "./metrics-options.ts";

/** What becomes a span. */
export interface MeasuredSpan {
  readonly opening: SpanOpening;
  /** When and where it began. */
  readonly moment: SpanMoment;
  /** Of the agent that does it. */
  readonly role: string;
}

interface OpenRun {
  readonly instruments: Instruments;
  readonly agents: Map<AgentId, AgentTally>;
  /** What was booked for agents that had not continued yet. */
  readonly early: Map<AgentId, Usage>;
}

export class RunMetrics {
  readonly #instruments: MeteredInstruments;
  readonly #runs = new Map<RunId, OpenRun>();

  /** @throws EspalierError `invalid_option` for an option that cannot be used. */
  constructor(options: MetricsOptions = {}) {
    checkMetricsOptions(options);
    this.#instruments = new MeteredInstruments(options);
  }

  /** A span begins. */
  opened(span: MeasuredSpan): void {
    this.#attempt(() => this.#open(span));
  }

  /** Something happened within a span. */
  noted({ role }: MeasuredSpan, body: SpanNote, { scope }: SpanMoment): void {
    const run = this.#runs.get(scope.runId);
    if (run !== undefined) this.#attempt(() => note(run, role, body, scope.agentId));
  }

  /** A span ends, with an event of its own or with the span around it. */
  closed(span: MeasuredSpan, end: SpanClosing | Abandonment, { atMs }: SpanMoment): void {
    const run = this.#runs.get(span.moment.scope.runId);
    if (run !== undefined) this.#attempt(() => this.#close(run, span, end, atMs));
  }

  /** How many runs are measured. */
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

  /** What is `left` has no end here, so it has no duration: another process may continue with the run. */
  #close(
    run: OpenRun,
    { opening, moment, role }: MeasuredSpan,
    end: SpanClosing | Abandonment,
    atMs: number,
  ): void {
    const { instruments, agents } = run;
    const { runId, agentId } = moment.scope;
    const seconds = Math.max(0, Math.round((atMs - moment.atMs) * 1_000)) / 1_000_000;
    const duration = end === "left" ? undefined : { seconds, end };
    switch (opening.type) {
      case "run.started":
      case "run.resumed":
        this.#runs.delete(runId);
        chargeNobody(run);
        if (duration !== undefined) measureRun(instruments, role, duration);
        return;
      case "agent.started":
      case "agent.resumed": {
        const agent = agents.get(agentId);
        agents.delete(agentId);
        agent?.leave();
        if (duration !== undefined) agent?.measure(duration);
        return;
      }
      case "model.requested": {
        const { provider, model } = answeringModel(end) ?? opening;
        if (duration !== undefined)
          measureModelCall(instruments, { role, provider, model }, duration);
        return;
      }
      case "tool.started":
      case "tool.resumed":
      case "tool.rejected":
        if (duration !== undefined) measureToolCall(instruments, opening, role, duration);
    }
  }

  #attempt(work: () => void): void {
    try {
      work();
    } catch (cause) {
      warnOnce(this, `Metrics have gaps, since they could not be measured: ${messageOf(cause)}`);
    }
  }
}

function note(run: OpenRun, role: string, body: SpanNote, agentId: AgentId): void {
  const agent = run.agents.get(agentId);
  switch (body.type) {
    case "budget.settled":
      charge(run, agentId, body);
      return;
    case "step.completed":
      agent?.chargeTools(body.usage.toolCalls);
      return;
    case "subagent.spawned":
      run.instruments.measure("spawnedAgents", 1, { [GEN_AI.agentName]: body.role });
      return;
    case "question.asked":
      if (body.question.kind === "approval") agent?.ask(body.question);
      return;
    case "question.answered":
      agent?.hearAnswer(body.questionId);
      measureApproval(run.instruments, role, body);
      return;
    default:
  }
}

/** The model of a fallback that answered in the place of the first. */
function answeringModel(
  end: SpanClosing | Abandonment,
): EventBody<"model.replied">["answeredBy"] | undefined {
  return typeof end !== "string" && end.type === "model.replied" ? end.answeredBy : undefined;
}

/** What was lost with a process is booked before its agent continues. */
function charge(
  run: OpenRun,
  agentId: AgentId,
  { usage, otherModels = [] }: EventBody<"budget.settled">,
): void {
  const agent = run.agents.get(agentId);
  if (agent === undefined) {
    const before = run.early.get(agentId);
    run.early.set(agentId, before === undefined ? usage : addUsage(before, usage));
    return;
  }
  agent.charge(usage);
  let rest = usage;
  for (const { provider, model, usage: used } of otherModels) {
    measureUsage(run.instruments, { ...agent.caller, provider, model }, used);
    rest = subtractUsage(rest, used);
  }
  measureUsage(run.instruments, agent.caller, rest);
}

/** What was booked for agents that never continued. */
function chargeNobody({ instruments, early }: OpenRun): void {
  const unknown = { role: UNKNOWN, provider: UNKNOWN, model: UNKNOWN };
  for (const usage of early.values()) measureUsage(instruments, unknown, usage);
}
