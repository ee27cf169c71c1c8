// AgentTally: what has been counted of one agent since it began, or continued. Owns the counts.

import type { EventBody } from "../../protocol/event.ts";
import type { QuestionId } from "../../protocol/ids.ts";
import { addUsage, NO_USAGE, toAmounts, type Usage } from "../../protocol/usage.ts";
import { ESPALIER, GEN_AI, OPERATION } from "../gen-ai-attributes.ts";
import type { Dimensions, Instruments } from "./instruments.ts";

type AgentOpening = EventBody<"agent.started" | "agent.resumed">;

export class AgentTally {
  /** What is distinguished in its model calls. */
  readonly caller: Dimensions;
  readonly #budget: AgentOpening["budget"];
  readonly #parent: AgentTally | undefined;
  readonly #instruments: Instruments;
  readonly #pending = new Map<QuestionId, Dimensions>();
  #modelCalls = 0;
  #toolCalls = 0;
  /** By it and by all below it, since it began or continued. */
  #spent: Usage = NO_USAGE;

  /** It begins, or continues. `parent`: the agent that started it, if that is open. */
  constructor(instruments: Instruments, opening: AgentOpening, parent: AgentTally | undefined) {
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

  /** Model calls that were booked before it continued: they are not of what it could spend since. */
  countEarlier(usage: Usage): void {
    this.#modelCalls += usage.modelCalls;
  }

  /** A model call was booked. */
  charge(usage: Usage): void {
    this.#modelCalls += usage.modelCalls;
    this.#spend(usage);
  }

  /** A step is complete, and with it so many tool calls. */
  chargeTools(toolCalls: number): void {
    this.#toolCalls += toolCalls;
    this.#spend({ ...NO_USAGE, toolCalls });
  }

  ask({ questionId, toolName }: EventBody<"question.asked">["question"]): void {
    if (this.#pending.has(questionId)) return;
    const dimensions = { ...this.caller, [GEN_AI.toolName]: toolName };
    this.#pending.set(questionId, dimensions);
    this.#instruments.measure("pendingApprovals", 1, dimensions);
  }

  /** Nothing to come down for a question that was asked before a pause. */
  hearAnswer(questionId: QuestionId): void {
    const dimensions = this.#pending.get(questionId);
    if (dimensions === undefined) return;
    this.#pending.delete(questionId);
    this.#instruments.measure("pendingApprovals", -1, dimensions);
  }

  /** Nothing more of it happens in this process: what went up comes down. */
  leave(): void {
    for (const questionId of this.#pending.keys()) this.hearAnswer(questionId);
    this.#instruments.measure("activeAgents", -1, this.caller);
    this.#instruments.measure("agentInferenceCalls", this.#modelCalls, this.caller);
    this.#instruments.measure("agentToolCalls", this.#toolCalls, this.caller);
  }

  #spend(usage: Usage): void {
    this.#spent = addUsage(this.#spent, usage);
    if (this.#parent !== undefined) this.#parent.#spend(usage);
  }

  /** What was used before this segment belongs to the limit as to the use: pauses change nothing. */
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
