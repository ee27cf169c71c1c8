// Goal: hooks at `beforeModel` process a copy of the history, one on top of the other. Their result
// is made valid before any model sees it.
// Method: chains of hooks of either kind; requests are compared with histories and events.

import { expect, test } from "vitest";

import { transform } from "../../../src/hooks/hook.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { asks, says, type ScriptStep } from "../../../src/testing/scripted-model.ts";
import { proves } from "../../harness/proves.ts";
import { newFixture, type Fixture } from "../../harness/run-scripted.ts";
import { soloist, type Soloist } from "../../harness/soloist.ts";
import { spyTool } from "../../harness/tools.ts";
import { calls, use } from "../../harness/scripted-agents.ts";

const tools = [spyTool("work")];

/** Returns the history at the end of a run. */
async function historyOf(fixture: Fixture, { role }: Soloist): Promise<readonly Message[]> {
  const run = fixture.start(role);
  let history: readonly Message[] = [];
  for await (const { state } of run.iterate()) history = state.conversation.messages;
  await fixture.outcome(run);
  return history;
}

proves(
  ["R96"],
  "runs a sync and an async processor in order, on frozen lists and without changing the history",
  async () => {
    const frozen: boolean[] = [];
    const shout = transform(
      "beforeModel",
      ({ messages, steps }, context) => {
        frozen.push(
          ...[messages, steps, context, context.metadata, ...messages].map(Object.isFrozen),
        );
        return { messages: messages.map((one) => ({ ...one, text: one.text.toUpperCase() })) };
      },
      { name: "shout" },
    );
    const sign = transform(
      "beforeModel",
      async ({ messages }) => {
        await Promise.resolve();
        frozen.push(...[messages, ...messages].map(Object.isFrozen));
        return { messages: messages.map((one) => ({ ...one, text: `${one.text}!` })) };
      },
      { name: "sign" },
    );
    const solo = soloist([asks("work", {}), says("done")], { tools, hooks: [shout, sign] });
    const fixture = newFixture();
    const history = await historyOf(fixture, solo);
    expect(solo.model.requests.map(({ messages }) => messages.map(({ text }) => text))).toEqual([
      ["Work.", "DO IT.!"],
      ["Work.", "DO IT.!", "!", "WORK DONE!"],
    ]);
    expect(history.map(({ text }) => text)).toEqual(["Work.", "Do it.", "", "work done", "done"]);
    expect([frozen.length > 10, frozen.every(Boolean)]).toEqual([true, true]);
    expect(
      fixture.sink.ofType("hook.applied").map(({ changedBy }) => changedBy.map(({ hook }) => hook)),
    ).toEqual([
      ["shout", "sign"],
      ["shout", "sign"],
    ]);
  },
);

const SCRIPT: readonly ScriptStep[] = [calls(use("work"), use("work")), says("done")];

/**
 * Returns the request of the second step and its repairs, with a processor that changes the
 * messages.
 */
async function second(
  change: (messages: readonly Message[]) => readonly Message[],
): Promise<{ readonly shown: readonly unknown[]; readonly repaired: readonly unknown[] }> {
  const hook = transform("beforeModel", ({ messages }, { stepNumber }) =>
    stepNumber === 2 ? { messages: change(messages) } : undefined,
  );
  const solo = soloist(SCRIPT, { tools, hooks: [hook] });
  const fixture = newFixture();
  const history = await historyOf(fixture, solo);
  expect(history.map(({ role }) => role)).toEqual([
    "system",
    "user",
    "assistant",
    "tool",
    "tool",
    "assistant",
  ]);
  const shown = (solo.model.requests[1]?.messages ?? []).map((message) =>
    message.role === "assistant"
      ? message.toolCalls.map(({ callId }) => callId)
      : message.role === "tool"
        ? [message.callId, message.text]
        : message.role,
  );
  const repaired = fixture.sink
    .ofType("request.repaired")
    .map(({ repairCount, types }) => [repairCount, types]);
  return { shown, repaired };
}

proves(
  ["R97"],
  "drops the result of a call that a processor dropped, and reports the repair",
  async () => {
    const dropReply = await second((messages) =>
      messages.filter(({ role }) => role !== "assistant"),
    );
    expect(dropReply).toEqual({ shown: ["system", "user"], repaired: [[2, ["dropped_result"]]] });
    const dropCall = await second((messages) =>
      messages.map((one) =>
        one.role === "assistant" ? { ...one, toolCalls: one.toolCalls.slice(1) } : one,
      ),
    );
    expect(dropCall).toEqual({
      shown: ["system", "user", ["call_2"], ["call_2", "work done"]],
      repaired: [[1, ["dropped_result"]]],
    });
  },
);

proves(
  ["R97"],
  "replaces a result that a processor dropped by a notice, and reports the repair",
  async () => {
    expect(
      await second((messages) =>
        messages.filter((one) => one.role !== "tool" || one.callId !== "call_1"),
      ),
    ).toEqual({
      shown: [
        "system",
        "user",
        ["call_1", "call_2"],
        ["call_1", "The result of this call is no longer available."],
        ["call_2", "work done"],
      ],
      repaired: [[1, ["added_result"]]],
    });
  },
);

test("names each kind of repair in a list once", async () => {
  const { repaired } = await second((messages) => {
    const reply = messages.find(({ role }) => role === "assistant");
    return [
      ...messages.filter(({ role }) => role === "tool"),
      ...(reply === undefined ? [] : [reply]),
    ];
  });
  expect(repaired).toEqual([[4, ["dropped_result", "added_result"]]]);
});

test("does not repair a list that stays valid, and reports nothing", async () => {
  const { repaired } = await second((messages) => messages.slice(-3));
  expect(repaired).toEqual([]);
});
