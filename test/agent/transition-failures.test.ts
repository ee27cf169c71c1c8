// Goal: failures of a reply's calls are counted when their results enter the history.
// Method: replies of two calls, one after the other; the counts after each.

import { expect } from "vitest";

import { proves } from "../harness/proves.ts";
import { after, changes, executionOf, states, twoCalls, type Change } from "../support/changes.ts";

proves(
  ["R42"],
  "`applyToolResults` counts failures in call order once per reply, and a success resets a row",
  () => {
    const { replied } = states();
    const { applyToolResults, recordReply, recordStep, openStep } = changes();
    const [first, second] = twoCalls().map(executionOf);
    if (first === undefined || second === undefined) throw new Error("two executions");
    const broken = { type: "failed", errorCode: "tool_error", severity: "recoverable" } as const;
    const misfit = { type: "retry", errorCode: "invalid_json", severity: "retryable" } as const;
    const results = (one: object, other: object): Change => ({
      type: "recordExecutions",
      executions: [
        { ...first, ...one },
        { ...second, ...other },
      ],
      deferrals: [],
    });
    const again = [openStep, recordReply] as const;
    const once = after(replied, results(broken, misfit), applyToolResults);
    expect(once.log).toEqual({
      ...replied.log,
      failures: { toolErrors: 1, consecutiveErrors: 1, retryErrors: 1, retriesByTool: { read: 1 } },
    });
    const twice = after(once, recordStep, ...again, results(broken, misfit), applyToolResults);
    expect(twice.log.failures).toEqual({
      toolErrors: 2,
      consecutiveErrors: 2,
      retryErrors: 2,
      retriesByTool: { read: 2 },
    });
    const well = after(twice, recordStep, ...again, results({}, broken), applyToolResults);
    expect(well.log.failures).toEqual({
      toolErrors: 3,
      consecutiveErrors: 1,
      retryErrors: 2,
      retriesByTool: { read: 2 },
    });
    const healed = after(well, recordStep, ...again, results({}, {}), applyToolResults);
    expect(healed.log.failures).toEqual({
      toolErrors: 3,
      consecutiveErrors: 0,
      retryErrors: 2,
      retriesByTool: {},
    });
  },
);
