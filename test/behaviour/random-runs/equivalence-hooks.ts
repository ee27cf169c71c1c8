// Hooks for the equivalence property: each changes something, and depends only on its input.

import {
  processStep,
  transform,
  wrapModelCall,
  wrapToolCall,
  type Hook,
} from "../../../src/hooks/hook.ts";
import { isRecord } from "../../../src/kernel/json.ts";
import type { Message } from "../../../src/protocol/message.ts";
import { JsonObjectSchema } from "../../../src/protocol/json-value.ts";
import type { HookName } from "./equivalence-world.ts";

export function hookOf(name: HookName): Hook {
  return HOOKS[name]();
}

const HURRY: Message = { role: "user", text: "Hurry.", origin: "notice" };

const HOOKS: Readonly<Record<HookName, () => Hook>> = {
  userInput: () => transform("userInput", ({ task }) => ({ task: `${task} Carefully.` })),
  instructions: () =>
    transform("beforeModel", ({ instructions }, { stepNumber, metadata }) => ({
      instructions: `${instructions} Step ${stepNumber}, ${JSON.stringify(metadata)}.`,
      temperature: stepNumber / 10,
    })),
  addMessage: () =>
    transform("beforeModel", ({ messages, steps }) =>
      steps.length % 2 === 0 ? undefined : { messages: [...messages, HURRY] },
    ),
  dropResult: () =>
    transform("beforeModel", ({ messages }) => {
      const first = messages.findIndex(({ role }) => role === "tool");
      return { messages: messages.filter((_message, index) => index !== first) };
    }),
  beforeTool: () =>
    transform("beforeTool", ({ arguments: given }) => {
      if (!isRecord(given) || given["place"] === undefined) return undefined;
      if (given["mode"] === "denied") return { deny: "Not that one." };
      return {
        arguments: JsonObjectSchema().parse({
          ...given,
          hooked: [given["hooked"] ?? "once"],
        }),
      };
    }),
  afterTool: () =>
    transform("afterTool", ({ text, outcome, callId }) => ({
      text: `${text} (${outcome})`,
      metadata: { callId },
    })),
  subagentStart: () => transform("subagentStart", ({ task }) => ({ task: `${task} Soon.` })),
  veto: () =>
    transform("stop", ({ vetoes }) => (vetoes < 1 ? { continueWith: "Once more." } : undefined)),
  twice: () =>
    wrapModelCall(async (_call, next) => {
      await next();
      return await next();
    }),
  wrapTool: () => wrapToolCall(async (_call, next) => ({ wrapped: (await next()) ?? null })),
  requestStop: () =>
    processStep(({ number }, { requestStop }) => {
      if (number === 3) requestStop("Three steps.");
    }),
  processorThrows: () =>
    processStep(({ number }) => {
      if (number === 4) throw new Error("Four steps.");
    }),
  keepFew: () => transform("beforeCompaction", () => ({ keepMessages: 1 })),
};
