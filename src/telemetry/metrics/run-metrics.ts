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

import { assertNever } from "../../kernel/assert.ts";
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
import { addUsage, type Usage } from "../../protocol/usage.ts";
import { AgentTally } from "./agent-tally.ts";
import { GEN_AI, OPERATION } from "../gen-ai-attributes.ts";
import { MeteredInstruments, type Instruments } from "./instruments.ts";
import {
  endDimensions,
  measureApproval,
  measureModelCall,
  measureToolCall,
  measureUsage,
  type SpanEnd,
} from "./measurements.ts";
import { UNKNOWN } from "./metric-names.ts";
import { checkMetricsOptions, type MetricsOptions } from "./metrics-options.ts";

/** What becomes a span: the same object from its beginning to its end. */
export interface MeasuredSpan {
  readonly opening: SpanOpening;
  readonly startedAtMs: number;
  /** Of the agent that does it. */
  readonly role: string;
}

interface OpenRun {
  readonly runId: RunId;
  readonly role: string;
  readonly instruments: Instruments;
  readonly agents: Map<AgentId, AgentTally>;
  /** What was booked for agents that had not continued yet. */
  readonly early: Map<AgentId, Usage>;
}

/** What is known of a span that is open. */
interface Place {
  readonly run: OpenRun;
  /** Undefined for the run itself. */
  readonly agent: AgentTally | undefined;
}

export class RunMetrics {
  readonly #instruments: MeteredInstruments;
  readonly #runs = new Map<RunId, OpenRun>();
  readonly #places = new WeakMap<MeasuredSpan, Place>();

  /** @throws EspalierError `invalid_option` for an option that cannot be used. */
  constructor(options: MetricsOptions = {}) {
    checkMetricsOptions(options);
    this.#instruments = new MeteredInstruments(options);
  }

  /** A span begins. */
  opened(span: MeasuredSpan, moment: SpanMoment): void {
    this.#attempt(() => this.#open(span, moment));
  }

  /** Something happened within a span. */
  noted(span: MeasuredSpan, body: SpanNote, moment: SpanMoment): void {
    const place = this.#places.get(span);
    if (place !== undefined) this.#attempt(() => note(place, span, body, moment));
  }

  /** A span ends. */
  closed(span: MeasuredSpan, body: SpanClosing, moment: SpanMoment): void {
    const place = this.#places.get(span);
    if (place !== undefined) this.#attempt(() => this.#close(place, span, moment, body));
  }

  /** The span around this one ended, and its own end never came. */
  abandoned(span: MeasuredSpan, moment: SpanMoment, why: Abandonment): void {
    const place = this.#places.get(span);
    if (place === undefined) return;
    this.#attempt(() =>
      why === "left" ? this.#leave(place, span) : this.#close(place, span, moment, why),
    );
  }

  /** How many runs are measured. */
  get openRuns(): number {
    return this.#runs.size;
  }

  #open(span: MeasuredSpan, { scope }: SpanMoment): void {
    const { opening } = span;
    const { runId, agentId, parentAgentId } = scope;
    if (opening.type === "run.started" || opening.type === "run.resumed") {
      this.#openRun(span, opening, runId);
      return;
    }
    const run = this.#runs.get(runId);
    if (run === undefined) return;
    if (opening.type === "agent.started" || opening.type === "agent.resumed") {
      const parent = parentAgentId === null ? undefined : run.agents.get(parentAgentId);
      const agent = new AgentTally(run.instruments, { agentId, opening, parent });
      run.agents.set(agentId, agent);
      this.#places.set(span, { run, agent });
      chargeEarly(run, agent);
      return;
    }
    this.#places.set(span, { run, agent: run.agents.get(agentId) });
  }

  #openRun(
    span: MeasuredSpan,
    { role }: EventBody<"run.started" | "run.resumed">,
    runId: RunId,
  ): void {
    const instruments = this.#instruments.find();
    if (instruments === undefined) return;
    const run = { runId, role, instruments, agents: new Map(), early: new Map() };
    this.#runs.set(runId, run);
    this.#places.set(span, { run, agent: undefined });
  }

  #close({ run, agent }: Place, span: MeasuredSpan, { atMs }: SpanMoment, end: SpanEnd): void {
    const { opening, role, startedAtMs } = span;
    const seconds = Math.max(0, Math.round((atMs - startedAtMs) * 1_000)) / 1_000_000;
    this.#places.delete(span);
    switch (opening.type) {
      case "run.started":
      case "run.resumed":
        this.#runs.delete(run.runId);
        closeRun(run, seconds, end);
        return;
      case "agent.started":
      case "agent.resumed":
        if (agent === undefined) return;
        run.agents.delete(agent.agentId);
        agent.close(seconds, end);
        return;
      case "model.requested": {
        const { provider, model } = opening;
        measureModelCall(run.instruments, { role, provider, model }, { seconds, end });
        return;
      }
      case "tool.started":
      case "tool.resumed":
      case "tool.rejected":
        measureToolCall(run.instruments, { opening, role }, { seconds, end });
        return;
      default:
        assertNever(opening, "opening event");
    }
  }

  /** Its span has no end here, so it has no duration: another process may continue with the run. */
  #leave({ run, agent }: Place, span: MeasuredSpan): void {
    this.#places.delete(span);
    const { type } = span.opening;
    if (type === "run.started" || type === "run.resumed") {
      this.#runs.delete(run.runId);
      chargeNobody(run);
    }
    if (agent === undefined || (type !== "agent.started" && type !== "agent.resumed")) return;
    run.agents.delete(agent.agentId);
    agent.leave();
  }

  #attempt(work: () => void): void {
    try {
      work();
    } catch (cause) {
      warnOnce(this, `Metrics have gaps, since they could not be measured: ${messageOf(cause)}`);
    }
  }
}

function note({ run }: Place, { role }: MeasuredSpan, body: SpanNote, moment: SpanMoment): void {
  const { agentId } = moment.scope;
  const agent = run.agents.get(agentId);
  switch (body.type) {
    case "budget.settled":
      charge(run, agentId, body.usage);
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

/** What was lost with a process is booked before its agent continues. */
function charge(run: OpenRun, agentId: AgentId, usage: Usage): void {
  const agent = run.agents.get(agentId);
  if (agent === undefined) {
    const before = run.early.get(agentId);
    run.early.set(agentId, before === undefined ? usage : addUsage(before, usage));
    return;
  }
  agent.charge(usage);
  measureUsage(run.instruments, agent.caller, usage);
}

function chargeEarly(run: OpenRun, agent: AgentTally): void {
  const usage = run.early.get(agent.agentId);
  if (usage === undefined) return;
  run.early.delete(agent.agentId);
  agent.countEarlier(usage);
  measureUsage(run.instruments, agent.caller, usage);
}

function closeRun(run: OpenRun, seconds: number, end: SpanEnd): void {
  chargeNobody(run);
  run.instruments.measure("workflowDuration", seconds, {
    [GEN_AI.operation]: OPERATION.workflow,
    [GEN_AI.workflowName]: run.role,
    ...endDimensions(end),
  });
}

/** What was booked for agents that never continued. */
function chargeNobody({ instruments, early }: OpenRun): void {
  const unknown = { role: UNKNOWN, provider: UNKNOWN, model: UNKNOWN };
  for (const usage of early.values()) measureUsage(instruments, unknown, usage);
}
