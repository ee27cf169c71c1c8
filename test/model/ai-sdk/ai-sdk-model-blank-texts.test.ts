// Goal: a blank text, as some models write it before a call, never prevents a history from being
// sent to Claude.
// Method: replies with such texts to fake models of several providers; the prompts that these
// receive.

import { expect } from "vitest";

import { aiSdkModel } from "../../../src/model/ai-sdk/ai-sdk-model.ts";
import { toCallId } from "../../../src/model/call-id.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { buildReplyMessage } from "../../../src/protocol/reply-message.ts";
import { proves } from "../../harness/proves.ts";
import { ask, finish, saying, text } from "../../support/ai-sdk/fake-model.ts";

const call = {
  type: "call",
  callId: toCallId("call_1"),
  toolName: "look",
  argumentsText: "{}",
} as const;
const RESULT: Message = { role: "tool", callId: call.callId, toolName: "look", text: "" };
const THOUGHT = { type: "reasoning", text: "", data: { p: { signature: "s" } } } as const;

/** Returns the parts of a reply as its provider receives them. */
async function sentTo(provider: string, reply: Message): Promise<readonly unknown[]> {
  const fake = saying([...text("ok"), finish()], provider);
  const task: Message = { role: "user", text: "Look.", origin: "task" };
  await ask(aiSdkModel(fake, { replayKey: "one" }), { messages: [task, reply, RESULT] });
  const { prompt = [] } = fake.asked[0] ?? {};
  return prompt.flatMap(({ role, content }) => (role === "assistant" ? content : []));
}

const SENT = { type: "tool-call", toolCallId: "call_1", toolName: "look", input: {} };

for (const provider of ["anthropic.messages", "vertex.anthropic.messages", "amazon-bedrock"])
  proves(["D306"], `omits a blank text for ${provider}, but not a blank thought`, async () => {
    const other = buildReplyMessage([{ type: "text", text: "\n\n" }, call]);
    const own = buildReplyMessage([THOUGHT, { type: "text", text: " " }, call]);
    expect(await sentTo(provider, other)).toEqual([SENT]);
    expect(await sentTo(provider, { ...own, writtenBy: "one" })).toEqual([
      { type: "reasoning", text: "", providerOptions: THOUGHT.data },
      SENT,
    ]);
    const said = buildReplyMessage([{ type: "text", text: " Well.\n" }, call]);
    expect(await sentTo(provider, said)).toEqual([{ type: "text", text: " Well.\n" }, SENT]);
  });

proves(
  ["D306"],
  "sends a blank text to other providers, since it may carry a signature",
  async () => {
    const signed = {
      type: "text",
      text: "\n",
      data: { google: { thoughtSignature: "s" } },
    } as const;
    const own = { ...buildReplyMessage([signed, call]), writtenBy: "one" };
    expect(await sentTo("google.generative-ai", own)).toEqual([
      { type: "text", text: "\n", providerOptions: signed.data },
      SENT,
    ]);
  },
);
