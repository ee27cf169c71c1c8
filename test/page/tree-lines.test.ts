// Goal: the list of a run shows where every agent is: in its own line, or counted in the line of a
// group.
// Method: small hand-made trees, and for counts many generated trees.

import { describe, expect, test } from "vitest";

import {
  listKeysAbove,
  MIN_GROUP,
  listLines,
  type Folds,
  type Listing,
  type TreeFilter,
} from "../../viewer-page/run/tree-lines.ts";
import { proves } from "../harness/proves.ts";
import { agentId, rowOf, type AgentSketch } from "./run-sketch.ts";

const ALL: TreeFilter = { words: "", show: "all" };
const NO_FOLDS: Folds = new Map();

function treeOf(sketches: readonly AgentSketch[]) {
  const agents = sketches.map((sketch, index) => rowOf("r", index, sketch));
  const childrenOf = (index: number): readonly number[] =>
    sketches.flatMap(({ parent }, at) => (parent === index ? [at] : []));
  return { agents, childrenOf, refusals: [] };
}

function written({ lines }: Listing): readonly string[] {
  return lines.map((line) => {
    const indent = "  ".repeat(line.depth - 1);
    if (line.kind === "agent")
      return `${indent}${line.fold === "closed" ? "+" : ""}${line.index}${line.isDimmed ? " (dim)" : ""}`;
    if (line.kind === "group")
      return `${indent}${line.role} x${line.members.length} +${line.below}${line.isOpen ? " open" : ""}`;
    return `${indent}refused ${line.code} x${line.count}`;
  });
}

const done = (parent: number, name: string): AgentSketch => ({ parent, name, toMs: 1 });
/**
 * A lead with enough completed readers to share a line, one that works and one that failed. The
 * second reader has two scouts; one failed.
 */
const READERS = Array.from({ length: MIN_GROUP }, (_none, at) => done(0, `reader#${at + 1}`));
const FAMILY: readonly AgentSketch[] = [
  { parent: -1, name: "lead", activity: "delegating" },
  ...READERS,
  { parent: 0, name: "reader#20", activity: "thinking" },
  done(0, "writer#1"),
  { parent: 0, name: "reader#21", activity: "failed", toMs: 1 },
  done(2, "scout#1"),
  { parent: 2, name: "scout#2", activity: "failed", toMs: 1 },
];

describe("folding", () => {
  proves(
    ["V91"],
    "groups siblings of one role and outcome in a line that counts them and their descendants",
    () => {
      const listing = listLines(treeOf(FAMILY), ALL, NO_FOLDS);
      expect(written(listing)).toEqual(["0", "  reader x8 +2", "  9", "  10", "  11"]);
      expect(listing).toMatchObject({ matches: 14, folded: 10 });
      expect(listing.lines[1]).toMatchObject({
        kind: "group",
        failedBelow: 1,
        position: 1,
        siblings: 4,
        depth: 2,
      });
    },
  );

  proves(["V91"], "lists each sibling below an expanded group line", () => {
    const folds = new Map([[`${agentId("r", 0)} completed reader`, true]]);
    expect(written(listLines(treeOf(FAMILY), ALL, folds))).toEqual([
      "0",
      "  reader x8 +2 open",
      "    1",
      "    2",
      "      12",
      "      13",
      ...[3, 4, 5, 6, 7, 8].map((index) => `    ${index}`),
      "  9",
      "  10",
      "  11",
    ]);
  });

  test("does not group a few siblings", () => {
    const few = FAMILY.filter(({ name }) => name !== "reader#1").slice(0, 9);
    expect(written(listLines(treeOf(few), ALL, NO_FOLDS))).toHaveLength(9);
  });

  test("counts all descendants of a collapsed agent", () => {
    const listing = listLines(treeOf(FAMILY), ALL, new Map([[agentId("r", 0), false]]));
    expect(written(listing)).toEqual(["+0"]);
    expect(listing.folded).toBe(13);
  });

  proves(["V91"], "lists or counts every agent exactly once, whatever is collapsed", () => {
    let folded = 0;
    for (let seed = 0; seed < 100; seed += 1) {
      const sketches = Array.from({ length: 60 }, (_none, at): AgentSketch => {
        const draw = (seed * 7_919 + at * 104_729) % 997;
        return {
          parent: at === 0 ? -1 : draw % Math.min(at, 3),
          name: `${draw % 2 === 0 ? "reader" : "writer"}#${at}`,
          activity: draw % 5 === 0 ? "thinking" : draw % 7 === 0 ? "failed" : "completed",
          ...(draw % 5 === 0 ? {} : { toMs: 1 }),
        };
      });
      const tree = treeOf(sketches);
      const listing = listLines(tree, ALL, new Map([[agentId("r", seed % 60), seed % 3 === 0]]));
      const shown = listing.lines.filter(({ kind }) => kind === "agent").length;
      folded += listing.folded;
      expect(shown + listing.folded).toBe(60);
      const opened = new Map(
        sketches.flatMap((_sketch, at) =>
          listKeysAbove(tree, at).map((key) => [key, true] as const),
        ),
      );
      const all = listLines(tree, ALL, opened);
      const seen = all.lines.flatMap((line) => (line.kind === "agent" ? [line.index] : []));
      expect(seen.toSorted((left, right) => left - right)).toEqual(
        sketches.map((_sketch, at) => at),
      );
      expect(all.folded).toBe(0);
    }
    expect(folded).toBeGreaterThan(1_000);
  });

  test("lists refused spawns below the requesting agent, grouped by code", () => {
    const refusal = {
      agent: 0,
      step: 1,
      atMs: 0,
      role: "reader",
      code: "breadth_limit" as const,
      message: "No more.",
    };
    const tree = {
      ...treeOf(FAMILY.slice(0, 2)),
      refusals: [refusal, refusal, { ...refusal, code: "depth_limit" as const }],
    };
    expect(written(listLines(tree, ALL, NO_FOLDS))).toEqual([
      "0",
      "  1",
      "  refused breadth_limit x2",
      "  refused depth_limit x1",
    ]);
  });
});

describe("filter", () => {
  proves(["V91"], "lists and counts matches with their dimmed ancestors", () => {
    const listing = listLines(treeOf(FAMILY), { words: "scout", show: "all" }, NO_FOLDS);
    expect(written(listing)).toEqual(["0 (dim)", "  2 (dim)", "    12", "    13"]);
    expect(listing.matches).toBe(2);
    // Descendants of a match that do not match cannot be expanded.
    const folds = listLines(treeOf(FAMILY), { words: "reader#2", show: "all" }, NO_FOLDS).lines;
    expect(folds.map((line) => line.kind === "agent" && line.fold)).toEqual([
      "open",
      "leaf",
      "leaf",
      "leaf",
    ]);
  });

  proves(["D576"], "lists an agent that waits for budget apart from agents at work", () => {
    const shown = (show: TreeFilter["show"]): readonly string[] =>
      written(
        listLines(
          treeOf([
            { parent: -1, name: "lead", activity: "delegating" },
            { parent: 0, name: "reader#1", activity: "thinking" },
            { parent: 0, name: "reader#2", activity: "awaiting_budget" },
            { parent: 0, name: "reader#3", activity: "queued" },
          ]),
          { words: "", show },
          NO_FOLDS,
        ),
      );
    expect([shown("working"), shown("budget"), shown("asking"), shown("ended")]).toEqual([
      ["0", "  1", "  3"],
      ["0 (dim)", "  2"],
      [],
      [],
    ]);
  });

  test("requires both the words and the status to match", () => {
    expect(
      written(listLines(treeOf(FAMILY), { words: "SCOUT", show: "failed" }, NO_FOLDS)),
    ).toEqual(["0 (dim)", "  2 (dim)", "    13"]);
    expect(written(listLines(treeOf(FAMILY), { words: "", show: "working" }, NO_FOLDS))).toEqual([
      "0",
      "  9",
    ]);
    expect(written(listLines(treeOf(FAMILY), { words: "nobody", show: "all" }, NO_FOLDS))).toEqual(
      [],
    );
  });
});
