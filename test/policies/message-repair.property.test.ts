// Goal: a repaired list is always valid, and a truncated valid history stays valid.
// Method: arbitrary lists of messages, and arbitrary valid histories, from a fixed seed.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { repairMessages } from "../../src/policies/message-repair.ts";
import { truncateHistory } from "../../src/policies/truncate-history.ts";
import type { Message, MessageOrigin } from "../../src/protocol/message.ts";
import { findMessageProblems } from "../../src/testing/check-messages.ts";
import { toolCall } from "../support/changes.ts";

const FIXED = { seed: 20_261_122, numRuns: 2_000 };

const id = fc.constantFrom("a", "b", "c", "constructor");
const origin = fc.constantFrom<MessageOrigin[]>("task", "inherited", "injected", "notice");
const text = fc.constantFrom(
  "Go.",
  "",
  "Earlier messages were removed here to save space: 7. Request again.",
);

const user = fc.record({ role: fc.constant("user" as const), text, origin });
const reply = fc
  .array(id, { maxLength: 4 })
  .map((ids) => replyWith(...ids.map((one) => toolCall(one))));
const anyMessage: fc.Arbitrary<Message> = fc.oneof(
  fc.constant({ role: "system", text: "Work.", origin: "instructions" } as const),
  user,
  reply,
  id.map((one) => resultOf(toolCall(one))),
  id.map((one) => resultOf(toolCall(one))),
);
const anyList = fc.array(anyMessage, { maxLength: 14, size: "max" });

/** Instructions, then groups: a message to the agent, or its reply with all results. */
const validHistory = fc
  .record({
    instructions: fc.nat({ max: 2 }),
    groups: fc.array(fc.oneof(user, fc.uniqueArray(id, { maxLength: 3 })), {
      maxLength: 10,
      size: "max",
    }),
    end: user,
  })
  .map(({ instructions, groups, end }): readonly Message[] => [
    ...Array.from({ length: instructions }, (): Message => {
      return { role: "system", text: "Work.", origin: "instructions" };
    }),
    ...groups.flatMap((group) => (Array.isArray(group) ? exchange(group) : [group])),
    end,
  ]);

function replyWith(...toolCalls: ReturnType<typeof toolCall>[]): Message {
  return { role: "assistant", text: "", toolCalls };
}

function resultOf({ callId, toolName }: ReturnType<typeof toolCall>): Message {
  return { role: "tool", callId, toolName, text: "found" };
}

function exchange(ids: readonly string[]): readonly Message[] {
  const toolCalls = ids.map((one) => toolCall(one));
  return [replyWith(...toolCalls), ...toolCalls.map(resultOf)];
}

test("returns a valid list whose repair finds nothing more, and leaves the input unchanged", () => {
  fc.assert(
    fc.property(anyList, (given) => {
      const before = JSON.stringify(given);
      const { messages, repairs } = repairMessages(given);
      expect(findMessageProblems(messages)).toEqual([]);
      expect(repairMessages(messages)).toEqual({ messages, repairs: [] });
      expect(repairMessages(messages).messages).toBe(messages);
      expect(repairs.length === 0).toBe(messages === given);
      expect(JSON.stringify(given)).toBe(before);
    }),
    FIXED,
  );
});

test("returns the same list exactly if it was valid", () => {
  fc.assert(
    fc.property(fc.oneof(anyList, validHistory), (given) => {
      expect(repairMessages(given).messages === given).toBe(
        findMessageProblems(given).length === 0,
      );
    }),
    FIXED,
  );
});

test("reports everything that it removes or adds", () => {
  fc.assert(
    fc.property(anyList, (given) => {
      const { messages, repairs } = repairMessages(given);
      const count = (type: string): number =>
        repairs.filter((repair) => repair.type === type).length;
      expect(messages.length).toBe(
        given.length - count("dropped_result") + count("added_result") + count("added_notice"),
      );
      for (const role of ["system", "assistant"] as const)
        expect(textsOf(messages, role)).toEqual(textsOf(given, role));
      const kept = messages.filter((message) => given.includes(message));
      const made = count("added_result") + count("added_notice");
      const changed = messages.length - kept.length - made;
      expect(changed).toBeGreaterThanOrEqual(0);
      expect(changed).toBeLessThanOrEqual(count("dropped_call"));
    }),
    FIXED,
  );
});

test("only completes torn groups after any messages of a valid history were dropped", () => {
  fc.assert(
    fc.property(validHistory, fc.array(fc.nat({ max: 30 }), { maxLength: 5 }), (whole, drops) => {
      const given = whole.filter((_message, index) => !drops.includes(index));
      const { messages, repairs } = repairMessages(given);
      const types = new Set<string>(repairs.map(({ type }) => type));
      expect([types.has("dropped_call"), types.has("moved_system_message")]).toEqual([
        false,
        false,
      ]);
      const others = given.filter((message) => message.role !== "tool");
      const notice = types.has("added_notice") ? messages.slice(-1) : [];
      expect(messages.filter((message) => message.role !== "tool")).toEqual([...others, ...notice]);
    }),
    FIXED,
  );
});

test("keeps a truncated history valid, retains required messages, and reports what was dropped", () => {
  fc.assert(
    fc.property(validHistory, fc.nat({ max: 20 }), (given, keepMessages) => {
      const before = JSON.stringify(given);
      const truncated = truncateHistory(given, { keepMessages });
      expect(findMessageProblems(truncated)).toEqual([]);
      expect(truncateHistory(truncated, { keepMessages })).toBe(truncated);
      expect(truncated.at(-1)).toBe(given.at(-1));
      expect(textsOf(truncated, "system")).toEqual(textsOf(given, "system"));
      const task = given.findLast(isTask);
      if (task !== undefined) expect(truncated.findLast(isTask)).toBe(task);
      expect(truncated.length).toBeLessThanOrEqual(given.length + 1);
      if (truncated !== given) expect(countsOf(truncated)).toBe(countsOf(given));
      expect(JSON.stringify(given)).toBe(before);
    }),
    FIXED,
  );
});

test("truncates step by step to the same list as at once", () => {
  fc.assert(
    fc.property(validHistory, fc.nat({ max: 20 }), fc.nat({ max: 20 }), (given, one, two) => {
      const [more, less] = [Math.max(one, two), Math.min(one, two)];
      const first = truncateHistory(given, { keepMessages: more });
      expect(truncateHistory(first, { keepMessages: less })).toEqual(
        truncateHistory(given, { keepMessages: less }),
      );
    }),
    FIXED,
  );
});

function isTask(message: Message): boolean {
  return message.role === "user" && message.origin === "task";
}

function textsOf(messages: readonly Message[], role: Message["role"]): readonly string[] {
  return messages.filter((message) => message.role === role).map((message) => message.text);
}

/**
 * Counts messages in the list or dropped earlier: an intermediate notice counts for those that it
 * reports.
 */
function countsOf(messages: readonly Message[]): number {
  return messages.reduce((sum, message, index) => {
    const isNotice = message.role === "user" && message.origin === "notice";
    const [, count] = /to save space: (\d+)\./.exec(message.text) ?? [];
    const speaks = isNotice && count !== undefined && index < messages.length - 1;
    return sum + (speaks ? Number(count) : 1);
  }, 0);
}
