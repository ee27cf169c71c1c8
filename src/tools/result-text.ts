import { canonicalJson } from "../kernel/json.ts";

/** What the model is shown of a tool's result: text as it is, nothing as an empty text, the rest as JSON. Throws if it is no JSON. */
export function resultText(result: unknown): string {
  if (typeof result === "string") return result;
  if (result === undefined) return "";
  return canonicalJson(result);
}
