// Goal: 10 MB of any text are shown without delay.
// Method: run the functions of terminal and command on many kinds of text. `LONG_TEXT_TIMES=1`
// prints the times above 100 ms; on an idle machine all are below 800 ms.

import { proves } from "../harness/proves.ts";
import { expectFast, expectLinear, longText, PART, REPEATED } from "../support/long-text.ts";
import { RUN_FUNCTIONS, runWith, TEXT_FUNCTIONS } from "../support/text-functions.ts";

const BYTES = 10_000_000;
const LIMIT_MS = 900_000;

for (const [input, repeated] of Object.entries(REPEATED))
  proves(
    ["D420"],
    `shows 10 MB of ${input} in linear time`,
    async () => {
      const times = Object.entries(TEXT_FUNCTIONS).map(
        ([name, work]) =>
          [name, expectLinear(`${name} of ${input}`, repeated, { bytes: BYTES, work })] as const,
      );
      const run = await runWith(longText(repeated, BYTES));
      const part = await runWith(longText(repeated, BYTES * PART));
      for (const [name, work] of Object.entries(RUN_FUNCTIONS))
        times.push([
          name,
          expectFast(
            name,
            () => work(run),
            () => work(part),
          ),
        ]);
      report(input, times);
    },
    LIMIT_MS,
  );

function report(input: string, times: readonly (readonly [name: string, ms: number])[]): void {
  if (process.env["LONG_TEXT_TIMES"] === undefined) return;
  const slow = times.filter(([, ms]) => ms > 100).map(([name, ms]) => `${name} ${Math.round(ms)}`);
  process.stdout.write(`${input}: ${slow.join(", ")}\n`);
}
