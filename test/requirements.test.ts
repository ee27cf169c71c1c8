// Goal: every requirement is proved or marked as planned, and no test cites a requirement that does
// not exist.
// Method: read the citations, `proves(["R1", …], …)`, from the sources of all tests.

import { globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { REQUIREMENTS, SOURCES } from "./requirements.ts";

const CITATION = /proves\(\s*\[([^\]]*)\]/g;

function citedIds(): ReadonlySet<string> {
  // Several test files run a suite, each for one part.
  const sources = globSync("test/**/*{.test,-suite}.ts").map((file) => readFileSync(file, "utf8"));
  const lists = sources.flatMap((source) =>
    [...source.matchAll(CITATION)].map(([, list = ""]) => list),
  );
  return new Set(
    lists.flatMap((list) => [...list.matchAll(/"([^"]+)"/g)].map(([, id = ""]) => id)),
  );
}

test("cites every requirement that is not planned in a test", () => {
  const cited = citedIds();
  const uncited = Object.entries(REQUIREMENTS)
    .filter(([id, { isPlanned }]) => isPlanned !== true && !cited.has(id))
    .map(([id]) => id);
  expect(uncited).toEqual([]);
});

test("gives no requirement the id of an invariant", () => {
  const invariants = readFileSync("docs/invariants.md", "utf8");
  const ids = [...invariants.matchAll(/\*\*([A-Z]\d+)\*\*/g)].map(([, id = ""]) => id);
  expect(ids).not.toEqual([]);
  expect(ids.filter((id) => id in REQUIREMENTS)).toEqual([]);
});

test("names the source of every requirement by the letter of its id", () => {
  const letters = new Set(Object.keys(REQUIREMENTS).map((id) => id.charAt(0)));
  expect([...letters].toSorted()).toEqual(Object.keys(SOURCES).toSorted());
});

test("cites only existing requirements", () => {
  expect([...citedIds()].filter((id) => !(id in REQUIREMENTS))).toEqual([]);
});

test("marks no cited requirement as planned", () => {
  const cited = citedIds();
  const planned = Object.entries(REQUIREMENTS)
    .filter(([id, { isPlanned }]) => isPlanned === true && cited.has(id))
    .map(([id]) => id);
  expect(planned).toEqual([]);
});
