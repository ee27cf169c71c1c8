// A question that must be answered before a run can continue, as it is shown. Pure.

import type { RunResult } from "../index.ts";
import { fit, singleLine } from "./terminal-text.ts";

type Question = RunResult["questions"][number];

/** A question as it is shown: its texts are short and harmless. */
export interface OpenQuestion extends Omit<Question, "arguments"> {
  readonly arguments: string;
}

const LONGEST_ARGUMENTS = 40;
const LONGEST_REASON = 160;

export function openQuestion(question: Question): OpenQuestion {
  return {
    ...question,
    agentPath: singleLine(question.agentPath),
    toolName: singleLine(question.toolName),
    arguments: shortText(JSON.stringify(question.arguments), LONGEST_ARGUMENTS),
    reason: shortText(question.reason, LONGEST_REASON),
  };
}

/** Arguments may be long: what would not be shown anyway is not looked at. */
function shortText(text: string, width: number): string {
  const start = text.slice(0, width * 4);
  return fit(singleLine(start) + (start === text ? "" : "…"), width);
}
