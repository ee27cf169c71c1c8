// Goal: a wrong or missing argument of any exported function is told with a code and a remedy, not with a TypeError from inside.
// Method: every function and class of every entry, called with arguments that no function expects.

import { readFileSync } from "node:fs";

import { expect, test } from "vitest";
import { z } from "zod";

import { EspalierError } from "espalier";

import { getErrorMessage } from "../src/kernel/error.ts";

/** `fetch` rejects with a TypeError, and so does its replacement; `run.orThrow()` alone creates a RunError. */
const EXEMPT: readonly string[] = ["RunError", "sameOriginFetch"];
const ARGUMENTS: readonly (readonly unknown[])[] = [[], [undefined], [3], [{}], [null], ["x"]];

const manifest: unknown = JSON.parse(readFileSync("package.json", "utf8"));
const { exports } = z.object({ exports: z.record(z.string(), z.unknown()) }).parse(manifest);

for (const entry of Object.keys(exports).filter((one) => one !== "./package.json"))
  test(`every function of espalier${entry.slice(1)} accepts its arguments or throws an EspalierError`, async () => {
    const loaded: unknown = await import(/* @vite-ignore */ `espalier${entry.slice(1)}`);
    const raw: string[] = [];
    for (const [name, exported] of Object.entries(
      z.record(z.string(), z.unknown()).parse(loaded),
    )) {
      if (EXEMPT.includes(name)) continue;
      for (const given of ARGUMENTS) {
        const thrown = await failureOf(exported, given);
        if (thrown === undefined || EspalierError.is(thrown)) continue;
        raw.push(
          `${name}(${given.map((one) => JSON.stringify(one)).join()}): ${getErrorMessage(thrown)}`,
        );
      }
    }
    expect(raw).toEqual([]);
  });

/** Returns what a call throws or rejects with. `undefined` if it returns, or is no call. */
async function failureOf(exported: unknown, given: readonly unknown[]): Promise<unknown> {
  if (typeof exported !== "function") return undefined;
  const isClass = Function.prototype.toString.call(exported).startsWith("class");
  try {
    const returned: unknown = isClass
      ? Reflect.construct(exported, given)
      : await Reflect.apply(exported, undefined, given);
    await close(returned);
    return undefined;
  } catch (cause) {
    return cause;
  }
}

/** A viewer listens, a tracing is registered, a store is open. */
async function close(returned: unknown): Promise<void> {
  const owner = typeof returned === "object" && returned !== null ? returned : {};
  for (const name of ["close", "shutdown"]) {
    const method: unknown = Reflect.get(owner, name);
    if (typeof method === "function") await Reflect.apply(method, owner, []);
  }
}
