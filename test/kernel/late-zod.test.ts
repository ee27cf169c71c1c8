// Goal: what stands for a schema is as good as the schema. Method: the same schemas by zod and by ours, side by side.

import { expect, test } from "vitest";
import { z as zod } from "zod";

import { z } from "../../src/protocol/late-zod.ts";
import { proves } from "../harness/proves.ts";

/** All ways to make a schema that ours puts off. */
function schemas(by: typeof zod): readonly zod.ZodType[] {
  const id = by.string().min(1).brand<"Id">();
  const kind = by.enum(["a", "b", "c"]);
  const base = by.strictObject({ id, kind: kind.exclude(["c"]), at: by.int().nonnegative() });
  return [
    id,
    base,
    base.extend({ more: by.array(base).readonly().exactOptional() }),
    base.omit({ at: true }).partial(),
    by.discriminatedUnion("type", [
      by.object({ type: by.literal("a"), n: by.number().positive().max(3) }),
      by.looseObject({ type: by.literal("b"), list: by.array(by.boolean()).nullable() }),
    ]),
    by.union([by.string().regex(/^x/), by.record(by.string(), by.unknown())]),
    by.partialRecord(kind, by.int()).optional(),
    by.preprocess((value) => (value === "" ? undefined : value), by.string().trim().default("d")),
    by
      .string()
      .transform((text) => text.length)
      .refine((length) => length > 1, "too short"),
    by.string().superRefine((text, context) => {
      if (text === "no") context.addIssue({ code: "custom", message: "said no" });
    }),
    by.custom<string>((value) => value === "mine"),
    by.json(),
  ];
}

const VALUES: readonly unknown[] = [
  ..."abc".split(""),
  "",
  "xy",
  "no",
  "mine",
  " word ",
  null,
  undefined,
  1,
  -1,
  0.5,
  true,
  [],
  {},
  { id: "i", kind: "a", at: 1 },
  { id: "", kind: "c", at: 1.5, more: [] },
  { id: "i", kind: "b", at: 0, more: [{ id: "i", kind: "a", at: 2 }] },
  { type: "a", n: 2 },
  { type: "a", n: 9 },
  { type: "b", list: null, other: 1 },
  { a: 1, b: 2 },
];

test("a schema that is built late checks and says what one of zod does", () => {
  const [ours, theirs] = [schemas(z), schemas(zod)];
  for (const [index, schema] of theirs.entries())
    for (const value of VALUES) {
      const late = ours[index]?.safeParse(value);
      const early = schema.safeParse(value);
      expect([index, late?.data, late?.error?.issues]).toEqual([
        index,
        early.data,
        early.error?.issues,
      ]);
    }
});

test("it may be handed to zod, and to what knows schemas by their class", () => {
  const late = z.strictObject({ name: z.string().min(1) });
  expect(late).toBeInstanceOf(zod.ZodType);
  expect(zod.toJSONSchema(zod.array(late))).toEqual(
    zod.toJSONSchema(zod.array(zod.strictObject({ name: zod.string().min(1) }))),
  );
});

test("it is built once, of schemas and not of what stands for them", () => {
  const name = z.string();
  const late = z.object({ name, names: z.array(name) });
  expect(late.shape).toBe(late.shape);
  expect(late.shape.name).not.toBe(name);
  expect(late.shape.name._zod).toBe(name._zod);
  expect(late.shape.names.element).toBe(late.shape.name);
});

proves(["M46"], "it is not built before it is used", () => {
  const built: unknown[] = [];
  const outer = z.object({
    inner: z
      .preprocess((value) => value, z.string())
      .refine(() => true, {
        get message() {
          built.push("read");
          return "never said";
        },
      }),
  });
  const list = z.array(outer).min(1).readonly();
  expect(built).toEqual([]);
  expect(list.safeParse([{ inner: "text" }]).success).toBe(true);
  expect(built).toEqual(["read"]);
});
