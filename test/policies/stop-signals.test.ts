// Goal: the highest of several stop signals wins whatever the order of arrival, and each reason has
// one status.
// Method: every order of every pair of codes, and random lists against a sort.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { getTerminalStatus, findWinningSignal } from "../../src/policies/stop-signals.ts";
import { STOP_CODES, type StopSignal } from "../../src/protocol/stop.ts";
import { proves } from "../harness/proves.ts";

/**
 * The documented order of the codes, written down a second time; `custom` is a code of a condition.
 */
const ORDER = [
  "error",
  "stop_requested",
  "cancelled",
  "input_refused",
  "step_limit",
  "token_limit",
  "time_limit",
  "cost_limit",
  "tool_call_limit",
  "retry_limit",
  "error_budget",
  "blocked",
  "tool_called",
  "step_count",
  "finish_reason",
  "completed",
] as const;

function signal(code: string, message = code): StopSignal {
  return { source: "loop", reason: { code, message, data: {} } };
}

test("ranks the codes in the documented order", () => {
  expect(STOP_CODES).toEqual(ORDER);
});

proves(
  ["R22"],
  "selects the more important of every pair of signals, in both orders of arrival",
  () => {
    for (const [rank, higher] of ORDER.entries()) {
      for (const lower of ORDER.slice(rank + 1)) {
        expect(
          findWinningSignal([signal(higher), signal(lower)]),
          `${higher} before ${lower}`,
        ).toEqual(signal(higher));
        expect(
          findWinningSignal([signal(lower), signal(higher)]),
          `${lower} before ${higher}`,
        ).toEqual(signal(higher));
      }
    }
  },
);

proves(["R22"], "selects the first of two signals of one rank", () => {
  for (const code of [...ORDER, "custom"]) {
    const [first, second] = [signal(code, "first"), signal(code, "second")];
    expect(findWinningSignal([first, second])).toBe(first);
  }
});

proves(["R22"], "selects a later signal only if it ranks higher", () => {
  const early = [signal("completed"), signal("step_limit"), signal("token_limit")];
  expect(findWinningSignal(early)).toEqual(signal("step_limit"));
  expect(findWinningSignal([...early, signal("error")])).toEqual(signal("error"));
  expect(findWinningSignal([...early, signal("time_limit")])).toEqual(signal("step_limit"));
});

test("ranks a condition's own code below every limit and above the model's own end", () => {
  const custom = signal("enough_found");
  for (const higher of ORDER.slice(0, ORDER.indexOf("tool_called"))) {
    expect(findWinningSignal([custom, signal(higher)])).toEqual(signal(higher));
  }
  for (const lower of ["finish_reason", "completed"]) {
    expect(findWinningSignal([signal(lower), custom])).toEqual(custom);
  }
  expect(findWinningSignal([signal("tool_called"), custom])).toEqual(signal("tool_called"));
  expect(findWinningSignal([custom, signal("tool_called")])).toEqual(custom);
});

test("treats names of object properties as codes like any other", () => {
  for (const code of ["constructor", "__proto__", "toString"]) {
    expect(findWinningSignal([signal(code), signal("completed")])).toEqual(signal(code));
  }
});

proves(["R22"], "selects the first signal of the highest rank of any list", () => {
  const code = fc.constantFrom(...ORDER);
  fc.assert(
    fc.property(fc.array(code, { maxLength: 12 }), (codes) => {
      const signals = codes.map((one, index) => signal(one, String(index)));
      const ranked = signals.toSorted((left, right) => ranks(left) - ranks(right));
      expect(findWinningSignal(signals)).toBe(ranked[0]);
    }),
    { seed: 1, numRuns: 500 },
  );
});

test("returns undefined without signals", () => {
  expect(findWinningSignal([])).toBeUndefined();
});

proves(["R35", "R48"], "maps each reason to a status by its code alone", () => {
  const statuses = [...ORDER, "custom"].map((code) => [
    code,
    getTerminalStatus(signal(code).reason),
  ]);
  expect(Object.fromEntries(statuses)).toEqual({
    error: "failed",
    stop_requested: "stopped",
    cancelled: "cancelled",
    input_refused: "stopped",
    step_limit: "stopped",
    token_limit: "stopped",
    time_limit: "stopped",
    cost_limit: "stopped",
    tool_call_limit: "stopped",
    retry_limit: "stopped",
    error_budget: "stopped",
    blocked: "stopped",
    tool_called: "stopped",
    step_count: "stopped",
    finish_reason: "stopped",
    completed: "completed",
    custom: "stopped",
  });
});

function ranks({ reason }: StopSignal): number {
  return ORDER.findIndex((code) => code === reason.code);
}
