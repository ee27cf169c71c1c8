// Goal: the page's own computations are right: time scales with pauses, invisible characters, JSON,
// event streams and patches.
// Method: the modules without a browser; event streams split at every byte.

import { describe, expect, test } from "vitest";

import { parseEvents } from "../../viewer-page/data/event-stream.ts";
import { RunState } from "../../viewer-page/data/run-state.ts";
import { listRests, TimeScale } from "../../viewer-page/run/time-scale.ts";
import { indentJson, splitJson, indentIfJson } from "../../viewer-page/text/json-text.ts";
import { toLine, splitVisible } from "../../viewer-page/text/shown-text.tsx";
import { proves } from "../harness/proves.ts";
import { HOSTILE, UNSEEN } from "./fixture-runs.ts";
import { agentId, rowOf, snapshotFor, spansOf } from "./run-sketch.ts";

describe("time", () => {
  proves(["V93"], "compresses a long pause to a small, marked part of the time line", () => {
    const scale = new TimeScale(1_000, [{ fromMs: 100, toMs: 900 }]);
    expect(scale.pieces.map(({ isRest }) => isRest)).toEqual([false, true, false]);
    expect(scale.toShare(900) - scale.toShare(100)).toBeCloseTo(0.03);
    expect(scale.toShare(0)).toBe(0);
    expect(scale.toShare(1_000)).toBeCloseTo(1);
    for (const ms of [0, 50, 100, 500, 900, 950, 1_000])
      expect(scale.toTime(scale.toShare(ms))).toBeCloseTo(ms);
  });

  test("handles a pause that lasts until now, and a run that only paused", () => {
    expect(
      listRests(
        spansOf([
          ["chat", 0, 10],
          ["park", 10, -1],
        ]),
        500,
      ),
    ).toEqual([{ fromMs: 10, toMs: 500 }]);
    const scale = new TimeScale(500, [{ fromMs: 0, toMs: 500 }]);
    expect([scale.toShare(0), scale.toShare(500)]).toEqual([0, 1]);
  });

  test("places round, spaced time labels outside of pauses", () => {
    const scale = new TimeScale(3_600_000, [{ fromMs: 600_000, toMs: 3_000_000 }]);
    const minutes = scale.listTicks({ from: 0, to: 1 }, 900, 90).map((ms) => ms / 60_000);
    expect(minutes).toEqual([0, 5, 10, 50, 55, 60]);
  });
});

describe("text", () => {
  proves(["V96"], "shows invisible and text-reversing characters by their code points", () => {
    const shown = splitVisible(HOSTILE)
      .map(({ text }) => text)
      .join("");
    expect(shown).toContain("U+202E");
    for (const number of ["U+202C", "U+0007", "U+2028", "U+FEFF"]) expect(shown).toContain(number);
    expect(shown).not.toMatch(UNSEEN);
    expect(
      splitVisible("a\ud800b\u{e0041}\u200b")
        .filter(({ isUnseen }) => isUnseen)
        .map(({ text }) => text),
    ).toEqual(["U+D800", "U+E0041", "U+200B"]);
  });

  test("leaves words of all languages, line breaks, tabs and emojis unchanged", () => {
    const text = "Grüße 你好 שלום\tمرحبا\r\nनमस्ते ✔\ufe0f 👩\u200d🚀";
    expect(splitVisible(text)).toEqual([{ text, isUnseen: false }]);
    expect(toLine("one\ntwo")).toBe("one ⏎ two");
    expect(toLine("x".repeat(500))).toHaveLength(401);
  });

  proves(["D621"], "bounds the parts of a value and counts the remaining characters", () => {
    const value = Object.fromEntries(
      Array.from({ length: 1_000 }, (_, nth) => [
        `member ${nth}`,
        nth % 2 === 0 ? "one\ntwo" : nth,
      ]),
    );
    const whole = splitJson(value, Infinity);
    const length = whole.parts.reduce((sum, { text }) => sum + text.length, 0);
    expect([whole.parts.length, whole.dropped]).toEqual([1_001, 0]);
    const { parts, dropped } = splitJson(value, 200);
    expect(parts).toEqual(whole.parts.slice(0, 200));
    expect(dropped).toBe(length - parts.reduce((sum, { text }) => sum + text.length, 0));
    expect(splitJson({ a: "1\n2" }, 200).dropped).toBe(0);
    expect(splitJson("1\n2", 1)).toEqual({ parts: [{ text: "1\n2", isText: true }], dropped: 0 });
  });

  test("indents JSON with one line per member, and keeps short values on one line", () => {
    expect(indentJson({ path: "a", lines: [1, 400], empty: {}, none: [] })).toBe(
      '{\n  "path": "a",\n  "lines": [1, 400],\n  "empty": {},\n  "none": []\n}',
    );
    const long = { a: ["x".repeat(50), "y".repeat(50)] };
    expect(JSON.parse(indentJson(long))).toEqual(long);
    expect(indentIfJson("{ no json")).toBe("{ no json");
    expect(indentIfJson('{"__proto__":1}')).toBe('{\n  "__proto__": 1\n}');
  });
});

/** Returns the events of a stream that arrives in these chunks. */
async function read(parts: readonly Uint8Array[]) {
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
  return await Array.fromAsync(parseEvents(body));
}

describe("feed", () => {
  proves(
    ["V94"],
    "parses an event stream alike however it is split, and drops an incomplete event",
    async () => {
      const text =
        ': here\n\nid: 7\ndata: {"a":"ü"}\n\nid: 8\r\ndata: {"b":1}\r\n\r\nid: 9\ndata: {"c"';
      const expected = [
        { id: "7", data: '{"a":"ü"}' },
        { id: "8", data: '{"b":1}' },
      ];
      const bytes = new TextEncoder().encode(text);
      for (let at = 0; at <= bytes.length; at += 1) {
        expect(await read([bytes.slice(0, at), bytes.slice(at)])).toEqual(expected);
      }
      expect(await read([new TextEncoder().encode("data: a\ndata: b\n\n")])).toEqual([
        { id: "", data: "a\nb" },
      ]);
    },
  );

  proves(["V95"], "distinguishes changed amounts from changed rows", () => {
    const agents = [{ parent: -1, name: "lead", activity: "thinking" as const }];
    const state = new RunState(snapshotFor({ runId: "r", title: "", status: "working", agents }));
    const run = state.head.value;
    const seen = (): readonly number[] => [state.structure.value, state.amounts.value];
    const row = (change: object) =>
      rowOf("r", 0, { parent: -1, name: "lead", activity: "thinking", ...change });
    state.apply({
      record: 1_001,
      run,
      agents: [[0, row({ own: 5 })]],
      spans: [[0, 0, spansOf([["chat", 0, -1]])]],
    });
    expect(seen()).toEqual([0, 1]);
    state.apply({
      record: 1_002,
      run,
      agents: [[0, row({ activity: "calling" })]],
      spans: [[0, 2, [9, 1, 1]]],
    });
    expect(seen()).toEqual([0, 2]);
    expect(state.getSpans(0)).toEqual([0, 0, 9, 1, 1]);
    state.apply({
      record: 1_003,
      run,
      agents: [[1, rowOf("r", 1, { parent: 0, name: "reader#1" })]],
      spans: [],
    });
    expect(seen()).toEqual([1, 3]);
    expect([state.getChildren(0), state.findIndex(agentId("r", 1)), state.record]).toEqual([
      [1],
      1,
      1_003,
    ]);
    state.apply({
      record: 1_004,
      run,
      agents: [[0, row({ activity: "completed", toMs: 9 })]],
      spans: [],
    });
    expect(seen()).toEqual([2, 4]);
  });
});
