import * as fc from "fast-check";
import { expect, test } from "vitest";

import { appendToList } from "../../src/kernel/append-only-list.ts";
import { MemoizedList } from "../../src/model/memoized-values.ts";

test("computes one result per value, in order, however lists are extended, forked and requested", () => {
  const additions = fc.array(fc.record({ to: fc.nat(), count: fc.integer({ min: 1, max: 30 }) }));
  const asked = fc.array(fc.nat(), { maxLength: 40 });
  fc.assert(
    fc.property(additions, asked, (given, order) => {
      let count = 0;
      const many = (length: number): readonly { readonly number: number }[] =>
        Array.from({ length }, () => ({ number: (count += 1) }));
      const lists = [many(20), many(0)];
      for (const { to, count: added } of given)
        lists.push(appendToList(lists[to % lists.length] ?? [], many(added)));
      const made: number[] = [];
      const remembered = new MemoizedList<{ readonly number: number }, number>();
      for (const at of order) {
        const list = lists[at % lists.length] ?? [];
        const values = remembered.getAll(list, ({ number }) => {
          made.push(number);
          return number;
        });
        expect(values).toEqual(list.map(({ number }) => number));
      }
      expect(new Set(made).size).toBe(made.length);
    }),
  );
});
