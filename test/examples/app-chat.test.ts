// Goal: the chat streams only to the person who asked, continues after a kill, and respects each
// person's allowance.
// Method: the program as a process, requested as by a browser, against a server that speaks Chat
// Completions.

import { expect } from "vitest";
import { z } from "zod";

import { proves } from "../harness/proves.ts";
import { says } from "../support/openai-server.ts";
import { chatWith, heldReply } from "./chat-service.ts";

const ANSWER = "An espalier is a tree.";
const Piece = z.object({ text: z.string().optional() });
/**
 * A limit for a hanging test: the process, which starts twice, reads all of `src` on a busy
 * machine.
 */
const STARTED_TWICE_MS = 120_000;

proves(["D202"], "serves a page and streams the answer in parts, then as a result", async () => {
  const { promise: isFollowed, resolve: goOn } = Promise.withResolvers<void>();
  const { ask, say, messages } = await chatWith(async () => {
    await isFollowed;
    return says(ANSWER);
  });
  expect(await (await ask("/")).text()).toContain("new EventSource");
  expect((await say("What is it?")).status).toBe(202);
  const stream = await ask("/stream");
  expect(stream.status).toBe(200);
  goOn();
  const text = await stream.text();
  const pieces = [...text.matchAll(/^event: part\ndata: (.+)$/gm)].map(([, data = ""]) =>
    Piece.parse(JSON.parse(data)),
  );
  const texts = pieces.flatMap((piece) => piece.text ?? []);
  expect(texts.length).toBeGreaterThan(1);
  expect(texts.join("")).toBe(ANSWER);
  expect(text).toMatch(/event: result\ndata: .*An espalier is a tree\./);
  expect(await messages()).toEqual([
    { role: "user", text: "What is it?" },
    { role: "assistant", text: ANSWER },
  ]);
});

proves(
  ["D202"],
  "streams while the model replies, and continues after a kill, for the open page as well",
  async () => {
    const [lost, again] = [heldReply(ANSWER), heldReply(ANSWER)];
    const { ask, say, messages, restart } = await chatWith(
      (_request, count) => (count === 1 ? lost : again).reply,
    );
    await say("What is it?");
    const stream = await ask("/stream");
    let seen = "";
    let isKilled = false;
    await expect(async () => {
      for await (const piece of stream.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        seen += piece;
        if (isKilled || !seen.includes("event: part") || !seen.includes('"task"')) continue;
        isKilled = true;
        await restart();
      }
    }).rejects.toThrow();
    lost.goOn();
    expect([seen.includes("event: result"), seen.includes('"task":"What is it?"')]).toEqual([
      false,
      true,
    ]);
    const last = [...seen.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1] ?? "";
    const resumed = await ask("/stream", { headers: { "last-event-id": last } });
    expect(resumed.status).toBe(200);
    again.goOn();
    const rest = await resumed.text();
    expect([rest.includes("event: part"), rest.includes("event: result")]).toEqual([true, true]);
    expect(rest).not.toContain('"type":"run.started"');
    expect((await messages()).map(({ text }) => text)).toEqual(["What is it?", ANSWER]);
  },
  STARTED_TWICE_MS,
);

proves(
  ["D202"],
  "accepts one question at a time within each person's allowance, even after a restart, and keeps chats private",
  async () => {
    const { promise: mayEnd, resolve: goOn } = Promise.withResolvers<void>();
    const { ask, say, messages, restart } = await chatWith(
      async () => {
        await mayEnd;
        return says(ANSWER, {
          usage: { prompt_tokens: 10, completion_tokens: 90, total_tokens: 100 },
        });
      },
      "--allowance",
      "100",
    );
    expect((await say("One?")).status).toBe(202);
    expect((await say("Two?")).status).toBe(409);
    expect((await ask("/stream", {}, "bob:other")).status).toBe(204);
    const stream = await ask("/stream");
    goOn();
    expect(await stream.text()).toContain("event: result");
    expect((await messages("bob:other")).length).toBe(0);
    await restart();
    expect((await say("Three?")).status).toBe(429);
    expect((await say("Four?", "bob:other")).status).toBe(202);
  },
  STARTED_TWICE_MS,
);

proves(["D202"], "refuses unknown persons everywhere, and invalid questions", async () => {
  const { ask, say } = await chatWith(() => says(ANSWER));
  for (const path of ["/", "/messages", "/stream"])
    expect((await ask(path, {}, "ann:other")).status).toBe(401);
  expect((await say("")).status).toBe(400);
  expect((await ask("/messages", { method: "POST", body: '{"text":"From a form"}' })).status).toBe(
    415,
  );
  expect((await say("x".repeat(60_000))).status).toBe(413);
  expect((await ask("/nowhere")).status).toBe(404);
  expect((await say("What is it?")).status).toBe(202);
});
