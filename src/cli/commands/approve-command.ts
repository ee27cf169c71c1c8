// `espalier approve <question>`: the call may run, as it is or with other arguments.

import { approve } from "espalier";

import type { CommandBody } from "../command-call.ts";
import { giveAnswer } from "../give-answer.ts";
import { jsonLine, objectIn } from "../json-text.ts";
import { UsageError } from "../usage-error.ts";

export const body: CommandBody = async (call) => {
  const said = call.text("arguments");
  const input = said === undefined ? undefined : objectIn(said);
  if (said !== undefined && input === undefined)
    throw new UsageError(
      `Expected --arguments to be a JSON object, as '{"path": "a.txt"}', of finite numbers and at most 200 levels, got ${jsonLine(beginningOf(said))}.`,
    );
  return await giveAnswer(call, (question) =>
    approve(question, input === undefined ? {} : { arguments: input }),
  );
};

/** Characters of wrong arguments that an error quotes. */
const MOST_QUOTED = 200;

function beginningOf(text: string): string {
  return text.length <= MOST_QUOTED ? text : `${text.slice(0, MOST_QUOTED)}…`;
}
