// What an agent is told before all else: the text of its role, or what its role makes of the context of the run.

import { shown } from "../kernel/check.ts";
import { EspalierError, messageOf } from "../kernel/error.ts";
import type { AgentRole } from "./agent-role.ts";

/** The text for an execution that is about to begin; asked for once. Throws `instructions_failed`. */
export function instructionsFor(
  { name, instructions }: Pick<AgentRole, "name" | "instructions">,
  context: unknown,
): string {
  if (typeof instructions === "string") return instructions;
  let text: unknown;
  try {
    text = instructions(context);
  } catch (cause) {
    throw failed(name, `it threw: ${messageOf(cause)}`, cause);
  }
  if (typeof text === "string" && text.trim() !== "") return text;
  void Promise.resolve(text).catch(() => undefined); // A promise that is not waited for must not be rejected without an owner.
  throw failed(name, `it gave ${shown(text)}`, undefined);
}

function failed(role: string, what: string, cause: unknown): EspalierError {
  return new EspalierError({
    code: "instructions_failed",
    message: `Expected ${role}.instructions to give text that is not empty, but ${what}. Make it a function of the context that answers at once.`,
    data: { role },
    cause,
  });
}
