// Goal: every promise is proved or openly planned, and no test cites a promise that does not exist.
// Method: read the citations, `proves(["R1", …], …)`, out of the sources of all tests.

import { globSync, readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { REQUIREMENTS } from "./requirements.ts";

const CITATION = /proves\(\s*\[([^\]]*)\]/g;

function citedIds(): ReadonlySet<string> {
  // A suite is run by several test files, for one part after the other.
  const sources = globSync("test/**/*{.test,-suite}.ts").map((file) => readFileSync(file, "utf8"));
  const lists = sources.flatMap((source) =>
    [...source.matchAll(CITATION)].map(([, list = ""]) => list),
  );
  return new Set(
    lists.flatMap((list) => [...list.matchAll(/"([^"]+)"/g)].map(([, id = ""]) => id)),
  );
}

test("every requirement that is not planned is cited by a test", () => {
  const cited = citedIds();
  const uncited = Object.entries(REQUIREMENTS)
    .filter(([id, { isPlanned }]) => isPlanned !== true && !cited.has(id))
    .map(([id]) => id);
  expect(uncited).toEqual([]);
});

test("every citation names a requirement", () => {
  expect([...citedIds()].filter((id) => !(id in REQUIREMENTS))).toEqual([]);
});

test("a requirement that a test cites is not marked as planned", () => {
  const cited = citedIds();
  const planned = Object.entries(REQUIREMENTS)
    .filter(([id, { isPlanned }]) => isPlanned === true && cited.has(id))
    .map(([id]) => id);
  expect(planned).toEqual([]);
});
