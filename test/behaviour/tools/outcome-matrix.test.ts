// Goal: for any combination of wrappers, guards and failures in one reply, each call has the
// documented outcome, which the model reads.
// Method: every order of the wrappers, every decision of up to three guards, and every failure.
// Each is compared with an oracle that is written from the documents, and the instructive ones with
// golden files.

import { describe, expect, test } from "vitest";

import { isToolFailureCode, TOOL_FAILURES } from "../../../src/protocol/tool-failure.ts";
import { findMessageProblems } from "../../../src/testing/check-messages.ts";
import { proves } from "../../harness/proves.ts";
import { checkGolden } from "../../support/golden-files.ts";
import {
  ALONE,
  BEFORE_CALLS,
  besideOthers,
  executionsOf,
  failureBlock,
  playFailures,
  playTogether,
  SEVERITY_PLAYS,
  TOGETHER,
} from "../../support/tool-matrix-failures.ts";
import {
  APPROVALS,
  expectedGuards,
  playAllAnswers,
  playGuards,
  playGuardsInTree,
  SAYINGS,
  verdictText,
  NEEDS,
  type Approval,
  type GuardRecord,
  type Saying,
  type Need,
} from "../../support/tool-matrix-guards.ts";
import { expectedOrder } from "../../support/tool-matrix-oracle.ts";
import {
  ACTS,
  ORDERS,
  orderTable,
  orderText,
  playOrder,
  WAYS,
  type ActName,
  type OrderRecord,
} from "../../support/tool-matrix-orders.ts";
import { goldenLanes, readings, sequencesOf } from "../../support/tool-matrix.ts";
import { receivedTexts, use } from "../../harness/scripted-agents.ts";

const ACT_NAMES: readonly ActName[] = Object.keys(ACTS).filter(
  (name): name is ActName => name in ACTS,
);

/** The call that aborts the agent first ends the other one. */
function endedTogether(alone: OrderRecord): OrderRecord {
  const ends = alone.calls.flatMap(({ errorCode, endedAtMs }) =>
    errorCode === "tool_error" ? [endedAtMs] : [],
  );
  const overAtMs = Math.min(...ends);
  return {
    ...alone,
    calls: alone.calls.map((call) =>
      call.endedAtMs <= overAtMs
        ? call
        : {
            ...call,
            triesAtMs: call.triesAtMs.filter((atMs) => atMs < overAtMs),
            waitsMs: [],
            endedAtMs: overAtMs,
            outcome: "cancelled",
            errorCode: "cancelled",
            severity: "abortive",
          },
    ),
  };
}

describe("wrappers in every order", () => {
  for (const act of ACT_NAMES) {
    proves(
      ["R116", "R117", "R118", "R119", "R120"],
      `has the documented outcome in every order, for every guard decision, around a tool that ${act}`,
      async () => {
        for (const way of WAYS) {
          for (const order of ORDERS) {
            const { record } = await playOrder({ order, act, way });
            const expected = expectedOrder({ order, act, way });
            expect(record, `${orderText(order)}, ${way}`).toEqual(
              act === "gives up its agent" ? endedTogether(expected) : expected,
            );
          }
        }
      },
    );
  }

  for (const act of ["fails twice, then answers", "hangs twice, then answers"] as const) {
    proves(
      ["R120"],
      `matches the golden table of every order around a tool that ${act}`,
      async () => {
        const plays = [];
        for (const order of ORDERS)
          plays.push([order, await playOrder({ order, act, way: "ask" })] as const);
        checkGolden(`tool-matrix/orders-${act.replaceAll(/\W+/g, "-")}`, orderTable(act, plays));
      },
    );
  }

  proves(
    ["R116", "R69"],
    "asks one question with the reasons of guard, wrapper and tool, in every order",
    async () => {
      for (const order of ORDERS) {
        const act = "answers at once";
        const { reasons } = await playOrder({ order, act, way: "ask and pause" });
        const reason = "It is production. It is Friday. It costs money.";
        expect(reasons, orderText(order)).toEqual([reason, reason]);
      }
    },
  );

  test("has the same outcome for every position of the approval, and another for every order of the others", async () => {
    const seen = new Map<string, string>();
    for (const order of ORDERS) {
      const { record } = await playOrder({ order, act: "fails twice, then answers", way: "allow" });
      const others = order.filter((name) => name !== "approval").join();
      const before = seen.get(others) ?? JSON.stringify(record);
      expect(JSON.stringify(record), orderText(order)).toBe(before);
      seen.set(others, before);
    }
    expect([seen.size, new Set(seen.values()).size]).toEqual([6, 6]);
  });
});

describe("wrappers in every order, and a run that is cancelled", () => {
  for (const act of ["fails twice, then answers", "hangs twice, then answers"] as const) {
    for (const cancelAtMs of [25, 125, 325, 425, 1_025, 1_125, 2_025]) {
      proves(
        ["R118", "R119"],
        `keeps ended calls, retries nothing and leaves no timer: a tool that ${act}, cancelled at ${cancelAtMs}`,
        async () => {
          for (const order of ORDERS) {
            const expected = expectedOrder({ order, act, way: "allow" });
            const { record } = await playOrder({ order, act, way: "allow", cancelAtMs });
            const isOver = expected.calls.every(({ endedAtMs }) => endedAtMs < cancelAtMs);
            expect(record.status, orderText(order)).toBe(isOver ? "completed" : "cancelled");
            const seen = record.calls.map(({ outcome, triesAtMs }) => [outcome, triesAtMs]);
            const wanted = expected.calls.map(({ outcome, triesAtMs, endedAtMs }) => [
              endedAtMs < cancelAtMs ? outcome : "cancelled",
              triesAtMs.filter((atMs) => atMs < cancelAtMs),
            ]);
            expect(seen, orderText(order)).toEqual(wanted);
          }
        },
      );
    }
  }
});

/** Every sequence of up to three guards. */
const SEQUENCES = [0, 1, 2, 3].flatMap((length) => sequencesOf(SAYINGS, length));

/** Each combination of up to three guards once, whatever their order. */
const CHOICES = SEQUENCES.filter((sayings) => choiceOf(sayings) === shown(sayings));

function shown(sayings: readonly Saying[]): string {
  return sayings.length === 0 ? "no guard" : sayings.join(" + ");
}

function choiceOf(sayings: readonly Saying[]): string {
  return shown(SAYINGS.flatMap((saying) => sayings.filter((one) => one === saying)));
}

/**
 * All approvers; for three guards that leave no question, one that must not be called, and none.
 */
function approvalsFor(sayings: readonly Saying[], need: Need): readonly Approval[] {
  const { asked } = expectedGuards({ sayings, need, approval: "nobody" });
  return sayings.length < 3 || asked.length > 0
    ? APPROVALS
    : ["approver approves", "pause, denied"];
}

describe("guards with every answer", () => {
  for (const need of NEEDS) {
    proves(
      ["R65", "R66", "R67", "R68", "R69", "R72"],
      `applies every sequence of up to three guards with every approver; the tool itself: ${need}`,
      async () => {
        const decided = new Map<string, string>();
        for (const sayings of SEQUENCES) {
          for (const approval of approvalsFor(sayings, need)) {
            const record = await playGuards({ sayings, need, approval });
            const what = `${shown(sayings)}, ${approval}`;
            expect(record, what).toEqual(expectedGuards({ sayings, need, approval }));
            const choice = `${choiceOf(sayings)}, ${approval}`;
            const decision = decisionOf(record);
            expect(decision, `${what}: no matter the order`).toBe(decided.get(choice) ?? decision);
            decided.set(choice, decision);
          }
        }
      },
    );

    proves(
      ["R65", "R66", "R72", "R75"],
      `applies guards of the orchestrator, the root and the calling child; the tool itself: ${need}`,
      async () => {
        for (const sayings of sequencesOf(SAYINGS, 3)) {
          const { ran, end, text, guarded, asked, answered } = expectedGuards({
            sayings,
            need,
            approval: "approver approves",
          });
          const record = await playGuardsInTree(sayings, need);
          const expected = { ran, end, text, guarded, asked, answered };
          expect(record, shown(sayings)).toEqual(expected);
        }
      },
    );
  }

  proves(["R65", "R66", "R68"], "matches the golden table of decisions", async () => {
    const blocks = [];
    for (const need of NEEDS) {
      const rows = [];
      for (const sayings of CHOICES) {
        const record = await playGuards({ sayings, need, approval: "approver approves" });
        rows.push(`  ${shown(sayings).padEnd(24)}${verdictText(record)}`);
      }
      blocks.push(`The guards g1, g2, g3; the tool itself: ${need}\n${rows.join("\n")}\n`);
    }
    const approvals = [];
    for (const approval of APPROVALS) {
      const { isPaused, answered, end } = await playGuards({
        sayings: ["ask"],
        need: "nothing",
        approval,
      });
      const pause = isPaused ? "the run pauses; " : "";
      approvals.push(`  ${approval.padEnd(24)}${pause}${answered.join()}; ${end.join(" ")}`);
    }
    blocks.push(`What becomes of a call that is asked about\n${approvals.join("\n")}\n`);
    checkGolden("tool-matrix/guards", blocks.join("\n"));
  });

  for (const way of ["approver", "pause"] as const) {
    proves(
      ["R66", "R67", "R68", "R69", "R72"],
      `matches the golden trace of every decision in one reply, asked by ${way}`,
      async () => {
        const { fixture, model } = await playAllAnswers(way);
        const text = `${goldenLanes(fixture.sink.events)}\n${readings(model.requests[1])}`;
        checkGolden(`tool-matrix/guards-${way}`, text);
      },
    );
  }
});

/** The part of a decision that must not depend on the order of the guards. */
function decisionOf({ ran, end, asked, answered, isPaused }: GuardRecord): string {
  return JSON.stringify([ran, end.slice(0, 2), asked.length, answered, isPaused]);
}

const EACH_ALONE = Object.entries({ ...ALONE, ...BEFORE_CALLS });

describe("every failure", () => {
  test("covers every failure code of tools", () => {
    const { interrupted: _ofTwoProcesses, ...others } = TOOL_FAILURES;
    expect(Object.keys(ALONE).toSorted()).toEqual(Object.keys(others).toSorted());
  });

  for (const [code, play] of Object.entries(ALONE)) {
    proves(
      ["R108", "R159", "R160"],
      `${code}: has its class in the log, in the event and in the error counts`,
      async () => {
        const played = await playFailures(play);
        const failing = executionsOf(played).filter(({ errorCode }) => errorCode === code);
        expect(failing.length).toBeGreaterThan(0);
        for (const { call, type, severity } of failing) {
          const known = isToolFailureCode(code) ? TOOL_FAILURES[code] : expect.unreachable();
          expect([type, severity]).toEqual([known.outcome, known.severity]);
          const { sink } = played.fixture;
          const told = [...sink.ofType("tool.ended"), ...sink.ofType("tool.rejected")].filter(
            ({ callId, agentPath }) => callId === call.callId && agentPath === "lead",
          );
          expect(
            told.map((event) => [event.outcome, event.error?.code, event.error?.severity]),
          ).toEqual([[type, code, severity]]);
        }
      },
    );
  }

  for (const [code, play] of Object.entries(BEFORE_CALLS)) {
    test(`${code}: makes no call of a reply that reaches the limit`, async () => {
      const played = await playFailures(play);
      expect(executionsOf(played).map(({ errorCode }) => errorCode)).toEqual([
        "not_executed",
        "not_executed",
        "not_executed",
      ]);
      expect([played.result.status, played.result.reason.code]).toEqual(["stopped", code]);
    });
  }

  proves(
    ["R108", "R159", "R160", "R168"],
    "matches the golden table of each failure beside calls that succeed",
    async () => {
      const blocks = [];
      for (const [code, play] of EACH_ALONE)
        blocks.push(failureBlock(code, await playFailures(play)));
      checkGolden("tool-matrix/failures", `${blocks.join("\n\n")}\n`);
    },
  );

  proves(
    ["R159"],
    "matches the golden table of each severity alone, in a root and in a child",
    async () => {
      const blocks = [];
      for (const { severity, where, play } of SEVERITY_PLAYS)
        blocks.push(failureBlock(`${severity}, in the ${where}`, await play()));
      checkGolden("tool-matrix/severities", `${blocks.join("\n\n")}\n`);
    },
  );

  proves(
    ["R108", "R115", "R124", "R125", "R160", "R168"],
    "matches the golden events and messages of all failures in one reply, between successful calls",
    async () => {
      const played = await playTogether();
      const { fixture, result, lead } = played;
      const codes = executionsOf(played).map(({ errorCode }) => errorCode);
      expect(codes).toEqual([undefined, ...TOGETHER.flatMap(([code]) => [code, undefined])]);
      expect([result.status, lead.model.requests.length]).toEqual(["completed", 2]);
      expect(findMessageProblems(lead.model.requests[1]?.messages ?? [])).toEqual([]);
      checkGolden("tool-matrix/together", goldenLanes(fixture.sink.events));
      checkGolden("tool-matrix/together-read", readings(lead.model.requests[1]));
    },
  );

  proves(
    ["R110", "R164", "R165", "R71"],
    "stops at the first reason under each policy; the highest of simultaneous reasons wins",
    async () => {
      const rows = [];
      for (const retryLimitPolicy of ["continue", "stop"] as const) {
        for (const blockedPolicy of ["continue", "stop"] as const) {
          const { fixture, result } = await playTogether({
            errorPolicy: { blockedPolicy, retryLimitPolicy },
          });
          const raised = fixture.sink
            .ofType("signal.raised")
            .filter(({ agentPath }) => agentPath === "lead");
          const codes = raised.map(({ signal }) => signal.reason.code);
          rows.push([retryLimitPolicy, blockedPolicy, result.status, result.reason.code, codes]);
        }
      }
      expect(rows).toEqual([
        ["continue", "continue", "stopped", "error_budget", ["error_budget"]],
        ["continue", "stop", "stopped", "error_budget", ["blocked", "error_budget"]],
        ["stop", "continue", "stopped", "retry_limit", ["retry_limit"]],
        ["stop", "stop", "stopped", "retry_limit", ["retry_limit"]],
      ]);
    },
  );
});

proves(
  ["R115", "R124"],
  "names no tool that a filter removed in the answer to a call of an unknown tool",
  async () => {
    const { lead } = await playFailures(ALONE.unknown_tool);
    const offered = lead.model.requests[0]?.tools.map(({ name }) => name) ?? [];
    expect(offered).not.toContain("secret");
    expect(receivedTexts(lead.model.requests[1])[1]).toBe(
      `There is no tool named "open". Your tools are: ${offered.join(", ")}.`,
    );
  },
);

for (const graceMs of [999, 1_000, 1_001, 5_000]) {
  proves(
    ["R118"],
    `leaves no timer for a cancelled call that ignores its signal, with 1,000 ms limit and ${graceMs} ms grace`,
    async () => {
      const played = await playFailures({
        reply: besideOthers([use("hang")]),
        options: { graceMs },
        act: (run) => void run.cancel("Enough."),
      });
      expect(executionsOf(played).map(({ type }) => type)).toEqual([
        "succeeded",
        "cancelled",
        "succeeded",
      ]);
    },
  );
}
