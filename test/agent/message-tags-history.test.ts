// Goal: the history before each of any number of compactions can be rebuilt, and nothing is stored
// twice.
// Method: random histories that grow and shrink; the histories recorded by the test are compared
// with those that the state restores from JSON.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import {
  AgentSnapshotSchema,
  toSnapshot,
  restoreState,
  type AgentSnapshot,
} from "../../src/agent/agent-snapshot.ts";
import { createPendingState, type AgentState } from "../../src/agent/agent-state.ts";
import type { Message } from "../../src/protocol/message.ts";
import { proves } from "../harness/proves.ts";
import { changes, opening, replyOf, settledState, transition } from "../support/changes.ts";
import { contextOf } from "../support/step-context.ts";
import { rebuildHistoryAtStep, findHistoryChange } from "../../src/agent/message-tags.ts";

/**
 * Events after a step: messages are added, and the history may be cut to some of its messages with
 * a notice among them.
 */
const turns = fc.array(
  fc.record({
    added: fc.nat({ max: 3 }),
    cuts: fc.array(fc.array(fc.boolean(), { maxLength: 8 }), { maxLength: 2 }),
  }),
  { minLength: 1, maxLength: 6 },
);

function note(text: string): Message {
  return { role: "user", text, origin: "notice" };
}

function stepTaken(state: AgentState, number: number): AgentState {
  const { openStep, recordReply, recordStep } = changes();
  const messageCount = state.conversation.messages.length;
  const context = contextOf(number);
  const reply = replyOf(`Reply ${number}.`);
  const opened = transition(state, { ...openStep, number, context, messageCount });
  return transition(transition(opened, { ...recordReply, reply }), recordStep);
}

function throughJson(state: AgentState): AgentSnapshot {
  const paused = settledState(transition(state, changes().pause));
  return AgentSnapshotSchema().parse(JSON.parse(JSON.stringify(toSnapshot(paused))));
}

proves(["R173"], "the history of every step can be rebuilt after any number of compactions", () => {
  fc.assert(
    fc.property(turns, (list) => {
      let state = transition(
        createPendingState({ messages: opening(), prefix: { messageCount: 0, tokens: 0 } }),
        changes().markStarted,
      );
      const known: (readonly Message[])[] = [];
      for (const [index, { added, cuts }] of list.entries()) {
        known.push(state.conversation.messages);
        state = stepTaken(state, index + 1);
        const messages = Array.from({ length: added }, (_, place) => note(`${index}.${place}`));
        state = transition(state, { type: "addMessages", messages });
        for (const kept of cuts) {
          const { messages: before } = state.conversation;
          const shorter = before.filter((_message, place) => kept[place] ?? true);
          const middle = Math.floor(shorter.length / 2);
          const withNote = [...shorter.slice(0, middle), note("Cut."), ...shorter.slice(middle)];
          state = transition(state, { type: "compact", messages: withNote });
        }
      }
      const { conversation, log } = restoreState(throughJson(state));
      for (const [index, history] of known.entries()) {
        const back = rebuildHistoryAtStep(conversation, log.compactions, index + 1);
        expect(back.slice(0, history.length)).toEqual(history);
      }
    }),
    { numRuns: 300 },
  );
});

test("a history that only grew has no change to record", () => {
  const messages = opening();
  const grown = { messages: [...messages, note("And now?")], dropped: [] };
  expect(findHistoryChange({ messages, dropped: [] }, grown, 3)).toBeUndefined();
  expect(
    findHistoryChange({ messages, dropped: [] }, { messages, dropped: [] }, 3),
  ).toBeUndefined();
});

test("messages that a compaction removes are not stored a second time", () => {
  const { markStarted, addMessages } = changes();
  const pending = createPendingState({
    messages: opening(),
    prefix: { messageCount: 0, tokens: 0 },
  });
  const running = transition(transition(pending, markStarted), addMessages);
  const [system, task] = running.conversation.messages;
  if (system === undefined || task === undefined) throw new Error("Expected an opening.");
  const cut = transition(running, { type: "compact", messages: [system, note("Cut."), task] });
  expect(cut.log.compactions).toEqual([
    {
      afterStep: 0,
      before: [
        { type: "kept", from: 0, to: 1 },
        { type: "kept", from: 2, to: 3 },
        { type: "dropped", from: 0, to: 2 },
      ],
    },
  ]);
});
