// Agents of which the task says what their model does: a line for each reply, in it the calls, `note a, sign b`. `sign` needs an approval.
// The text of a call is its id and its effect, in whichever worker; a test may hold it there.

import type { AgentRole } from "../agent/agent-role.ts";
import { defineAgent } from "../agent/define-agent.ts";
import type { ModelRequest } from "../model/model.ts";
import { z } from "zod";
import { defineTool } from "../tools/define-tool.ts";
import { says, ScriptedModel, type ScriptedReply } from "./scripted-model.ts";

const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };

/** Agents of all workers of a check, and what they have done. */
export class PlannedAgents {
  /** The effects that have come about, with the worker that had them: `a by worker`. */
  readonly effects: string[] = [];
  /** The effects that are under way, or were. */
  readonly begun: string[] = [];
  mostAtOnce = 0;
  readonly #gates = new Map<string, PromiseWithResolvers<void>>();
  readonly #changed: () => void;
  #underWay = 0;

  constructor(changed: () => void) {
    this.#changed = changed;
  }

  role(name: string, worker: string, isPriced: boolean): AgentRole {
    const model = new ScriptedModel(replyTo, isPriced ? { price: PRICE } : {});
    return defineAgent({
      name,
      instructions: "Do as the task says.",
      model,
      tools: [this.#tool("note", worker, false), this.#tool("sign", worker, true)],
    });
  }

  #tool(name: string, worker: string, needsApproval: boolean) {
    return defineTool({
      name,
      description: "Has an effect.",
      input: z.object({ text: z.string() }),
      needsApproval,
      execute: async ({ text }, { signal }) => {
        await this.#effect(text, worker, signal);
        return "done";
      },
    });
  }

  async #effect(text: string, worker: string, signal: AbortSignal): Promise<void> {
    this.begun.push(text);
    this.#underWay += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#underWay);
    this.#changed();
    const aborted = Promise.withResolvers<never>();
    const abort = (): void => aborted.reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    try {
      signal.throwIfAborted();
      await Promise.race([this.#gates.get(text)?.promise, aborted.promise]);
      signal.throwIfAborted();
      this.effects.push(`${text} by ${worker}`);
    } finally {
      signal.removeEventListener("abort", abort);
      this.#underWay -= 1;
      this.#changed();
    }
  }

  /** From now on these effects do not come about until they are let go. */
  hold(...texts: readonly string[]): void {
    for (const text of texts) this.#gates.set(text, Promise.withResolvers());
  }

  letGo(...texts: readonly string[]): void {
    for (const text of texts) this.#gates.get(text)?.resolve();
  }

  endAll(): void {
    this.letGo(...this.#gates.keys());
  }
}

function replyTo({ messages }: ModelRequest): ScriptedReply {
  const plan = messages.find(({ role }) => role === "user")?.text ?? "";
  const count = messages.filter(({ role }) => role === "assistant").length;
  const line = plan.split("\n")[count];
  if (line === undefined) return says("done");
  const calls = line.split(", ").map((call) => {
    const [name = "", text = ""] = call.split(" ");
    return { name, arguments: { text }, callId: text };
  });
  return { calls };
}
