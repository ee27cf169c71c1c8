// `espalier answer <question>`: what came of a call that runs elsewhere, or what a tool wants to know.

import { giveResult, reportFailure } from "espalier";

import type { CommandBody } from "../command-call.ts";
import { giveAnswer } from "../give-answer.ts";
import { jsonOrText } from "../json-text.ts";
import { UsageError } from "../usage-error.ts";

export const body: CommandBody = async (call) => {
  const result = call.text("result");
  const failure = call.text("failure");
  if ((result === undefined) === (failure === undefined))
    throw new UsageError('Expected --result "…" or --failure "…", one of them.');
  return await giveAnswer(call, (question) =>
    result === undefined
      ? reportFailure(question, failure ?? "")
      : giveResult(question, jsonOrText(result)),
  );
};
