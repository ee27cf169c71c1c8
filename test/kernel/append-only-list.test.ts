import * as fc from "fast-check";
import { expect, test } from "vitest";

import { appendToList, findGrowth } from "../../src/kernel/append-only-list.ts";

test("shares a prefix between two lists of one growth, whichever list was appended to", () => {
  const additions = fc.array(fc.record({ to: fc.nat(), count: fc.integer({ min: 1, max: 200 }) }));
  fc.assert(
    fc.property(additions, (given) => {
      const lists: (readonly object[])[] = [many(), []];
      for (const { to, count } of given) {
        const list = lists[to % lists.length] ?? [];
        const added = many(count);
        const longer = appendToList(list, added);
        expect(longer).toEqual([...list, ...added]);
        lists.push(longer);
      }
      for (const left of lists)
        for (const right of lists) {
          const growth = findGrowth(left);
          if (growth === undefined || growth !== findGrowth(right)) continue;
          const shared = Math.min(left.length, right.length);
          for (let index = 0; index < shared; index += 1) expect(left[index]).toBe(right[index]);
          expect(growth.length).toBeGreaterThanOrEqual(left.length);
        }
    }),
  );
});

test("gives a list the growth of its first extension, and not that of another one", () => {
  const list = many();
  const [longer, other] = [appendToList(list, many(1)), appendToList(list, many(2))];
  expect(findGrowth(longer)).toBeDefined();
  expect(findGrowth(longer)).toBe(findGrowth(list));
  expect(findGrowth(appendToList(longer, many(1)))).toBe(findGrowth(list));
  expect(findGrowth(other)).not.toBe(findGrowth(list));
  expect(findGrowth(many())).toBeUndefined();
});

function many(count = 150): readonly object[] {
  return Array.from({ length: count }, () => ({}));
}
