// Goal: every kind of transport fault has the same outcome over all four interfaces, streamed and
// whole.
// Method: real HTTP servers that break off, delay, distort, encode or redirect what they send.

import { describe, expect } from "vitest";
import { ModelError } from "../../../src/model/model-error.ts";
import { proves } from "../../harness/proves.ts";
import { FaultServer, soundReply } from "../../support/fault-server.ts";
import { CLIENTS } from "../../support/four-interfaces.ts";
import { MODES, never, QUESTION } from "../../support/openai-calls.ts";
import { TRANSPORT_FAULTS } from "../../support/transport-faults.ts";

/** Expires only if a server does not end its answer. */
const TIMEOUT_MS = 1_500;

async function outcomeOf(
  asked: Promise<{ readonly message: { readonly text: string } }>,
): Promise<string> {
  try {
    return (await asked).message.text;
  } catch (thrown) {
    if (!(thrown instanceof ModelError)) throw thrown;
    const { code, retryAfterMs } = thrown;
    return retryAfterMs === undefined ? code : `${code} after ${retryAfterMs} ms`;
  }
}

/** The four interfaces, and those of openai() over the AI SDK. */
const NAMES = [
  "Chat Completions",
  "Responses",
  "Anthropic",
  "Gemini",
  "Chat Completions through the AI SDK",
  "Responses through the AI SDK",
];

interface Case {
  readonly client: string;
  readonly mode: string;
  readonly fault: string;
}

/** Every call that a test has made to a server with a fault. */
const cases: Case[] = [];

const ENDLESS = / without end$/;

describe.each(MODES)("a reply that comes %s", (mode) => {
  for (const [name, { answer, outcome, whole = outcome, requests = 1 }] of Object.entries(
    TRANSPORT_FAULTS,
  ))
    proves(["D561"], `has the same outcome over all interfaces: ${name} (${mode})`, async () => {
      const got = CLIENTS.map(async (face) => {
        const sound = soundReply(face, mode);
        await using server = await FaultServer.start(answer, sound);
        const model = face.model(server.url, ENDLESS.test(name) ? undefined : TIMEOUT_MS);
        const signal = never();
        const options = mode === "whole" ? { signal } : { signal, onDelta: () => undefined };
        const came = await outcomeOf(model.generate(QUESTION, options));
        cases.push({ client: face.name, mode, fault: name });
        return [face.name, came, server.requests];
      });
      const expected = CLIENTS.map((face) => {
        const isWhole = soundReply(face, mode).type === "application/json";
        return [face.name, isWhole ? whole : outcome, requests];
      });
      expect(await Promise.all(got)).toEqual(expected);
    });
});

describe("the kinds of transport faults", () => {
  proves(
    ["D658"],
    "are each tested over every interface, over openai() and over the AI SDK",
    () => {
      const ran = NAMES.map((client) =>
        cases
          .filter((one) => one.client === client)
          .map(({ mode, fault }) => `${fault} (${mode})`)
          .toSorted(),
      );
      const all = [...new Set(cases.map(({ mode, fault }) => `${fault} (${mode})`))].toSorted();
      expect(CLIENTS.map(({ name }) => name)).toEqual(NAMES);
      expect(ran).toEqual(NAMES.map(() => all));
    },
  );
});
