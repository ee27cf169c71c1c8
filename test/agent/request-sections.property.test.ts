// Goal: whatever places sections declare, they are either rejected or placed exactly there, each
// once.
// Method: random lists of sections with places relative to each other; every declared place is
// checked in the resulting order.

import * as fc from "fast-check";
import { expect, test } from "vitest";

import { arrangeSections, type RequestSection } from "../../src/agent/request-sections.ts";
import { EspalierError } from "../../src/kernel/error.ts";

const NAMES = ["a", "b", "c", "d", "e", "f"] as const;
const ANCHORS = [...NAMES, "instructions", "history", "wrapUp", "budget", "nobody"] as const;

const place = fc.oneof(
  fc.constant({}),
  fc.record({ after: fc.constantFrom(...ANCHORS) }),
  fc.record({ before: fc.constantFrom(...ANCHORS) }),
);
const lifetime = fc.constantFrom("step", "execution", "persistent");
const role = fc.constantFrom<("system" | "user")[]>("user", "user", "system");

const lists: fc.Arbitrary<readonly RequestSection[]> = fc.subarray([...NAMES]).chain((names) =>
  fc.tuple(
    ...names.map((name) =>
      fc.tuple(place, lifetime, role).map(([where, life, who]): RequestSection => ({
        name,
        text: `Section ${name}.`,
        lifetime: life,
        messageRole: who,
        ...where,
      })),
    ),
  ),
);

function ordered(sections: readonly RequestSection[]): readonly string[] | undefined {
  try {
    return arrangeSections("solo.sections", sections).map(({ name }) => name);
  } catch (cause) {
    expect(EspalierError.is(cause) && cause.code).toBe("invalid_argument");
    return undefined;
  }
}

test("places accepted sections as they declare, between the instructions and the notices, each once", () => {
  let taken = 0;
  fc.assert(
    fc.property(lists, (sections) => {
      const order = ordered(sections);
      if (order === undefined) return;
      taken += 1;
      const builtIn = ["instructions", "history", "wrapUp", "budget"];
      expect([...order].toSorted()).toEqual(
        [...builtIn, ...sections.map(({ name }) => name)].toSorted(),
      );
      expect(order.filter((name) => builtIn.includes(name))).toEqual(builtIn);
      expect([order[0], order.slice(-2)]).toEqual(["instructions", ["wrapUp", "budget"]]);
      for (const { name, after = "instructions", before = "wrapUp" } of sections) {
        expect(order.indexOf(name)).toBeGreaterThan(order.indexOf(after));
        expect(order.indexOf(name)).toBeLessThan(order.indexOf(before));
      }
    }),
    { numRuns: 3_000 },
  );
  expect(taken).toBeGreaterThan(100);
});

test("returns the same order for an equal list", () => {
  fc.assert(
    fc.property(lists, (sections) => {
      expect(ordered(structuredClone(sections))).toEqual(ordered(sections));
    }),
  );
});
