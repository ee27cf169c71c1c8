// Goal: openai() reports each form of an error with status 200, and reads each form of a whole
// reply.
// Method: bodies over real HTTP, with the content types that gateways give them.

import { describe, expect } from "vitest";

import { ModelError } from "../../../src/model/model-error.ts";
import { proves } from "../../harness/proves.ts";
import { soundReply } from "../../support/fault-server.ts";
import {
  INTERFACES,
  WireServer,
  type Interface,
  type WireAnswer,
} from "../../support/four-interfaces.ts";
import { MODES, rejection, reply, type Mode } from "../../support/openai-calls.ts";

const OWN = INTERFACES.slice(0, 2);
const EVENTS = { "content-type": "text/event-stream" };
const JSON_TYPE = { "content-type": "application/json" };
const PAGE = "<!doctype html>\n<title>Sign in</title>";

const FORMS: Readonly<Record<string, unknown>> = {
  "in a list": [{ error: { message: "No luck." } }],
  "as an object of the type error": { object: "error", message: "No luck.", code: 400 },
  "as a message": { message: "No luck." },
  "as a detail": { detail: "No luck." },
  "as a list of details": { detail: [{ loc: ["body"], msg: "No luck." }] },
};

async function failureOf(face: Interface, answer: WireAnswer, mode: Mode): Promise<ModelError> {
  await using server = await WireServer.start(answer);
  const thrown = await rejection(reply(face.model(server.url), mode));
  if (!(thrown instanceof ModelError)) throw new Error("Expected a ModelError.", { cause: thrown });
  return thrown;
}

describe.each(OWN)("$name", (face) => {
  for (const [form, report] of Object.entries(FORMS)) {
    const json = JSON.stringify(report);
    const answers: readonly (readonly [string, Mode, WireAnswer])[] = [
      ["in a whole reply", "whole", { headers: JSON_TYPE, body: json }],
      ["in place of a stream", "streamed", { headers: JSON_TYPE, body: json }],
      ["in a body called a stream", "streamed", { headers: EVENTS, body: json }],
      ["in an event", "streamed", { headers: EVENTS, body: `data: ${json}\n\n` }],
    ];
    for (const [where, mode, answer] of answers)
      proves(["D606"], `reports an error ${form} ${where} (${face.name})`, async () => {
        expect((await failureOf(face, answer, mode)).message).toMatch(/an error inside .*No luck/);
      });
  }

  for (const [how, headers, before] of [
    ["as plain text", { "content-type": "text/plain" }, ""],
    ["without a type", { "content-type": "" }, ""],
    ["with its type in capitals", { "content-type": "TEXT/HTML" }, ""],
    ["behind a comment", EVENTS, ": OK\n\n"],
  ] as const)
    proves(["D606"], `quotes a page that comes ${how} (${face.name})`, async () => {
      const failed = await failureOf(face, { headers, body: before + PAGE }, "streamed");
      expect([failed.code, failed.message]).toEqual([
        "model_protocol_error",
        expect.stringContaining("<title>Sign in</title>"),
      ]);
    });

  for (const type of ["APPLICATION/JSON", "text/plain", "text/event-stream", ""])
    for (const end of ["closed", "destroyed"] as const)
      proves(
        ["D606"],
        `reads a whole reply of the content type "${type}", ${end} (${face.name})`,
        async () => {
          const body = JSON.stringify(JSON.parse(soundReply(face, "whole").body), null, 2);
          const headers = { "content-type": type };
          await using server = await WireServer.start({ headers, body, end });
          const { reply: came } = await reply(face.model(server.url), "streamed");
          expect([came.message.text, came.usage?.inputTokens]).toEqual(["ok", 700]);
        },
      );

  for (const mode of MODES)
    proves(["D606"], `quotes broken JSON (${face.name}, ${mode})`, async () => {
      const { code, message } = await failureOf(face, { body: '{"id": "r", "x' }, mode);
      expect([code, message]).toEqual([
        "model_protocol_error",
        expect.stringContaining('a body that is not a JSON object: {"id": "r", "x'),
      ]);
    });
});

for (const end of ["closed", "destroyed"] as const)
  proves(
    ["D605"],
    `reads a stream that ends with its end mark but without a line feed, ${end}`,
    async () => {
      const [chat] = INTERFACES;
      if (chat === undefined) throw new Error("Expected an interface.");
      const whole = `${chat.events[0]}data: [DONE]`;
      for (let cut = 1; cut <= whole.length; cut += 1) {
        await using server = await WireServer.start({ body: whole.slice(0, cut), end });
        const came = await reply(chat.model(server.url), "streamed").then(
          (said) => said.reply.message.text,
          (thrown: unknown) => (thrown instanceof ModelError ? thrown.isRetryable : thrown),
        );
        expect([cut, came]).toEqual([cut, cut === whole.length ? "ok" : true]);
      }
    },
  );
