// The hooks that see a call when its result is known.

import type { Chain } from "../../hooks/hook-set.ts";
import { errorRecord } from "../error-record.ts";
import { applyChain } from "./apply-chain.ts";
import { writtenArguments } from "./call-arguments.ts";
import type { CallOutcome } from "./call-outcome.ts";
import type { OpenCall } from "./open-call.ts";

/** Lets the hooks that follow a call see its result, and change what the model reads of it. */
export async function followUp<Outcome extends CallOutcome>(
  call: OpenCall,
  outcome: Outcome,
  chain: Chain<"afterTool">,
): Promise<Outcome> {
  const { agent, place, toolName, position } = call;
  if (agent.signal.aborted) return outcome;
  const { type, text } = outcome;
  const { callId } = position;
  try {
    const { patch } = await applyChain(agent, {
      point: "afterTool",
      chain,
      input: { toolName, callId, arguments: writtenArguments(call), outcome: type, text },
      place,
      at: position,
    });
    const { metadata } = patch;
    const noted = metadata === undefined ? {} : { metadata };
    const rewritten = patch.text === undefined ? {} : { text: patch.text, words: undefined };
    return { ...outcome, ...rewritten, ...noted };
  } catch (cause) {
    return agent.signal.aborted ? outcome : { ...outcome, failure: errorRecord(cause) };
  }
}
