// The signals that limits of the budget give: one that forbids something further, and one that was passed by what had begun (C36).

import { defined, type JsonObject } from "../kernel/json.ts";
import { shownAxis, stopCodeOf } from "../policies/budget.ts";
import type { StopSignal } from "../protocol/stop.ts";
import type { BudgetRefusal, Overshoot } from "./account-view.ts";

/** The signal that a limit raises when it refuses something. */
export function budgetSignal(refusal: BudgetRefusal): StopSignal {
  const { asked, kept } = refusal;
  return signalOf(refusal, explanation(refusal), defined({ asked, kept }));
}

/** The record that a reply used more than was left of a limit. */
export function overshootSignal(passed: Overshoot): StopSignal {
  const { axis, accountPath, maximum, spent } = passed;
  const { name, unit } = shownAxis(axis);
  const message = `The ${name} budget of ${accountPath} allows ${maximum / unit}; ${spent / unit} are spent, since a reply used more than was left.`;
  return { ...signalOf(passed, message), isOvershoot: true };
}

function signalOf(
  { axis, accountPath, maximum, spent }: Pick<BudgetRefusal, keyof Overshoot>,
  message: string,
  more: JsonObject = {},
): StopSignal {
  const data = { axis, accountPath, maximum, current: spent, ...more };
  return { source: "budget", reason: { code: stopCodeOf(axis), message, data } };
}

function explanation(refusal: BudgetRefusal): string {
  const { axis, accountPath, maximum, spent, asked, kept } = refusal;
  if (axis === "wallTimeMs") return `The time limit of ${accountPath} is over.`;
  const { name, unit } = shownAxis(axis);
  const rest = kept === undefined ? "" : `, ${kept / unit} are kept for its own answer`;
  return `The ${name} budget of ${accountPath} allows ${maximum / unit}; ${spent / unit} are spent${rest} and ${asked / unit} more were asked for.`;
}
