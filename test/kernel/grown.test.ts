import * as fc from "fast-check";
import { expect, test } from "vitest";

import { grown, growthOf } from "../../src/kernel/grown.ts";

test("of two lists of one growth, the longer begins with the shorter, whichever list was added to", () => {
  const additions = fc.array(fc.record({ to: fc.nat(), count: fc.integer({ min: 1, max: 200 }) }));
  fc.assert(
    fc.property(additions, (given) => {
      const lists: (readonly object[])[] = [many(), []];
      for (const { to, count } of given) {
        const list = lists[to % lists.length] ?? [];
        const added = many(count);
        const longer = grown(list, added);
        expect(longer).toEqual([...list, ...added]);
        lists.push(longer);
      }
      for (const left of lists)
        for (const right of lists) {
          const growth = growthOf(left);
          if (growth === undefined || growth !== growthOf(right)) continue;
          const shared = Math.min(left.length, right.length);
          for (let index = 0; index < shared; index += 1) expect(left[index]).toBe(right[index]);
          expect(growth.length).toBeGreaterThanOrEqual(left.length);
        }
    }),
  );
});

test("a list that was added to is of the growth of what came of it; another that came of it is not", () => {
  const list = many();
  const [longer, other] = [grown(list, many(1)), grown(list, many(2))];
  expect(growthOf(longer)).toBeDefined();
  expect(growthOf(longer)).toBe(growthOf(list));
  expect(growthOf(grown(longer, many(1)))).toBe(growthOf(list));
  expect(growthOf(other)).not.toBe(growthOf(list));
  expect(growthOf(many())).toBeUndefined();
});

function many(count = 150): readonly object[] {
  return Array.from({ length: count }, () => ({}));
}
