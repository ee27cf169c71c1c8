import { z } from "zod";

import { isRecord } from "../../src/kernel/json.ts";

const BodySchema = z.object({
  messages: z.array(
    z.object({
      role: z.string(),
      tool_calls: z
        .array(z.object({ id: z.string(), function: z.object({ arguments: z.string() }) }))
        .optional(),
      tool_call_id: z.string().optional(),
    }),
  ),
});

/**
 * Finds the faults for which a provider refuses messages: calls whose results do not follow at
 * once, results without a call, and arguments that are not a JSON object (llama.cpp answers these
 * with status 500).
 */
export function wireProblems(body: unknown): readonly string[] {
  const parsed = BodySchema.safeParse(body);
  const messages = parsed.success ? parsed.data.messages : [];
  const problems: string[] = [];
  let open: readonly string[] = [];
  for (const [index, message] of messages.entries()) {
    if (message.role === "tool") {
      if (!open.includes(message.tool_call_id ?? ""))
        problems.push(`message ${index} answers no call`);
      open = open.filter((id) => id !== message.tool_call_id);
      continue;
    }
    if (open.length > 0)
      problems.push(`calls ${open.join(", ")} are unanswered before message ${index}`);
    open = message.tool_calls?.map((call) => call.id) ?? [];
    for (const call of message.tool_calls ?? []) {
      if (!isJsonObject(call.function.arguments))
        problems.push(`the arguments of ${call.id} are no JSON object`);
    }
  }
  if (open.length > 0) problems.push(`calls ${open.join(", ")} are unanswered`);
  return problems;
}

function isJsonObject(text: string): boolean {
  try {
    return isRecord(JSON.parse(text));
  } catch {
    return false;
  }
}
