// Goal: every way to end has its own pair of status and reason, is documented, and is reported by
// one event.
// Method: one script per ending; the pairs compared with those in docs/cancellation.md, and with
// the codes in the source.

import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import type { EspalierEvent } from "../../../src/protocol/event.ts";
import { PAUSE_CODES, STOP_CODES } from "../../../src/protocol/stop.ts";
import { proves } from "../../harness/proves.ts";
import { ENDINGS } from "../../support/golden-endings.ts";
import { fiveEndings } from "../../support/five-endings.ts";

/** A user-defined code, as the scripts and the document call it. */
const OWN_CODE = "found_enough";
const OWN_CODE_DOCUMENTED = "a code of your own";

type Pair = readonly [status: string, code: string];

/** Returns the pairs in the table of the document, from top to bottom. */
function documentedPairs(): readonly Pair[] {
  const [, section = ""] = readFileSync("docs/cancellation.md", "utf8").split(/^## Stop reasons$/m);
  const [chapter = ""] = section.split(/^## /m);
  const rows = chapter
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .slice(2)
    .map((line) => line.split("|").map((cell) => cell.trim()));
  return rows.flatMap(([, status = "", reasons = ""]) => {
    const codes = [...reasons.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code);
    const own = reasons.includes(OWN_CODE_DOCUMENTED) ? [OWN_CODE_DOCUMENTED] : [];
    return [...codes, ...own].map((code): Pair => [status, code]);
  });
}

function scriptedPairs(): readonly Pair[] {
  return ENDINGS.map(({ status, code }) => [
    status,
    code === OWN_CODE ? OWN_CODE_DOCUMENTED : code,
  ]);
}

const byText = (left: unknown, right: unknown): number => String(left).localeCompare(String(right));

for (const { status, code, play } of ENDINGS) {
  proves(
    ["R35", "R182"],
    `the script of ${status} by ${code} ends so, with one terminal event`,
    async () => {
      const { fixture, result } = await play();
      expect([result.status, result.reason.code]).toEqual([status, code]);
      expect(result.agents.map((agent) => [agent.status, agent.reason])).toEqual([
        [result.status, result.reason],
      ]);
      const type = status === "paused" ? "agent.paused" : "agent.ended";
      const own = fixture.sink.events.filter(({ executionId }) => executionId !== null);
      const last = own.filter(
        (event) => event.type === "agent.ended" || event.type === "agent.paused",
      );
      expect(last).toEqual([expect.objectContaining({ type, reason: result.reason })]);
      expect(own.at(-1)).toBe(last[0]);
      expect(fixture.sink.events.slice(-1).map((event) => event.type)).toEqual([
        status === "paused" ? "run.paused" : "run.ended",
      ]);
    },
  );
}

proves(["R35"], "all pairs differ, and every stop and pause code has its script", () => {
  const pairs = ENDINGS.map(({ status, code }) => `${status} ${code}`);
  expect(new Set(pairs).size).toBe(pairs.length);
  const codes = ENDINGS.map(({ code }) => code).filter((code) => code !== OWN_CODE);
  expect(codes.toSorted(byText)).toEqual([...STOP_CODES, ...PAUSE_CODES].toSorted(byText));
});

proves(["R35"], "the document lists exactly the endings that the scripts reach", () => {
  expect(documentedPairs().toSorted(byText)).toEqual(scriptedPairs().toSorted(byText));
});

test("the documented reasons are in the order of their priority", () => {
  const order: readonly string[] = STOP_CODES;
  const documented = documentedPairs()
    .map(([, code]) => code)
    .filter((code) => order.includes(code));
  expect(documented).toEqual(STOP_CODES);
});

proves(
  ["R182"],
  "five endings in one tree emit one terminal event each, after all others of the execution",
  async () => {
    const { s, result } = await fiveEndings();
    const ended = s.sink.ofType("agent.ended");
    expect(
      ended
        .map(({ executionId, status, reason }) => [executionId, status, reason])
        .toSorted(byText),
    ).toEqual(
      result.agents
        .map(({ executionId, status, reason }) => [executionId, status, reason])
        .toSorted(byText),
    );
    expect(new Set(ended.map(({ status }) => status))).toEqual(
      new Set(["completed", "stopped", "failed", "cancelled"]),
    );
    for (const terminal of ended)
      expect(s.sink.events.filter((event) => isLater(event, terminal))).toEqual([]);
  },
);

function isLater(event: EspalierEvent, terminal: EspalierEvent): boolean {
  return event.executionId === terminal.executionId && event.seq > terminal.seq;
}
