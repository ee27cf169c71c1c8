// `espalier deny <question>`: the call does not run, and the model reads why.

import { deny } from "espalier";

import type { CommandBody } from "../command-call.ts";
import { giveAnswer } from "../give-answer.ts";

export const body: CommandBody = async (call) =>
  await giveAnswer(call, (question) => deny(question, call.text("reason")));
