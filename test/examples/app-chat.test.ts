// Goal: the chat streams to whoever asked, and to nobody else; it goes on after a kill, and keeps to the allowance of each person.
// Method: the program as a process, its pages asked for as a browser does, against a server that speaks Chat Completions.

import { once } from "node:events";
import { createInterface } from "node:readline";

import { expect } from "vitest";
import { z } from "zod";

import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { OpenAiServer, says, type Handler } from "../support/openai-server.ts";
import { startApp } from "./app-process.ts";
import { temporaryFolder } from "./temporary-folder.ts";

const ANSWER = "An espalier is a tree.";
const Shown = z.array(z.object({ role: z.string(), text: z.string() }));

type Init = Omit<RequestInit, "headers"> & { readonly headers?: Readonly<Record<string, string>> };

/** The chat, which may be killed and started again on the same file. */
async function chatWith(handler: Handler, ...args: readonly string[]) {
  const folder = temporaryFolder();
  afterwards(() => folder[Symbol.dispose]());
  const server = await OpenAiServer.start(handler);
  afterwards(() => server[Symbol.asyncDispose]());
  let app = startService();
  let url = "";
  function startService() {
    const env = { USERS: "ann:secret,bob:other", OPENAI_BASE_URL: server.baseUrl };
    return startApp("chat/service.ts", ["--port", "0", ...args], { cwd: folder.path, env });
  }
  async function listening(): Promise<void> {
    for await (const line of createInterface({ input: app.child.stdout })) {
      url = line.replace("Listening on ", "");
      return;
    }
    throw new Error(`It does not listen: ${(await app.ended).stderr}`);
  }
  afterwards(() => app.child.kill("SIGKILL"));
  await listening();
  const ask = async (path: string, init: Init = {}, login = "ann:secret") => {
    const authorization = `Basic ${Buffer.from(login).toString("base64")}`;
    return await fetch(url + path, { ...init, headers: { authorization, ...init.headers } });
  };
  return {
    ask,
    say: async (text: string, login?: string) =>
      await ask(
        "/messages",
        {
          method: "POST",
          body: JSON.stringify({ text }),
          headers: { "content-type": "application/json" },
        },
        login,
      ),
    messages: async (login?: string) =>
      Shown.parse(await (await ask("/messages", {}, login)).json()),
    async restart(): Promise<void> {
      app.child.kill("SIGKILL");
      await once(app.child, "exit");
      app = startService();
      await listening();
    },
  };
}

proves(
  ["D202"],
  "a page is served, and what is answered comes in pieces, then as a result",
  async () => {
    const { ask, say, messages } = await chatWith(() => says(ANSWER));
    expect(await (await ask("/")).text()).toContain("new EventSource");
    expect((await say("What is it?")).status).toBe(202);
    const stream = await ask("/stream");
    const text = stream.status === 204 ? "" : await stream.text();
    expect([200, 204]).toContain(stream.status);
    if (stream.status === 200)
      expect(text).toMatch(/event: result\ndata: .*An espalier is a tree\./);
    expect(await messages()).toEqual([
      { role: "user", text: "What is it?" },
      { role: "assistant", text: ANSWER },
    ]);
  },
);

proves(
  ["D202"],
  "pieces come while the model still speaks; a killed service goes on, and the page with it",
  async () => {
    const { promise: mayEnd, resolve: goOn } = Promise.withResolvers<void>();
    const { ask, say, messages, restart } = await chatWith((_request, count) =>
      says(
        ANSWER,
        count === 1 ? { interrupted: { type: "pause", afterChunks: 3, until: mayEnd } } : {},
      ),
    );
    await say("What is it?");
    const stream = await ask("/stream");
    let seen = "";
    let isKilled = false;
    await expect(async () => {
      for await (const piece of stream.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        seen += piece;
        if (isKilled || !seen.includes("event: piece")) continue;
        isKilled = true;
        await restart();
      }
    }).rejects.toThrow();
    goOn();
    expect([seen.includes("event: result"), seen.includes('"task":"What is it?"')]).toEqual([
      false,
      true,
    ]);
    const last = [...seen.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1] ?? "";
    const again = await ask("/stream", { headers: { "last-event-id": last } });
    const rest = again.status === 204 ? "" : await again.text();
    if (again.status === 200) expect(rest).toContain("event: result");
    expect(rest).not.toContain('"type":"run.started"');
    expect((await messages()).map(({ text }) => text)).toEqual(["What is it?", ANSWER]);
  },
);

proves(
  ["D202"],
  "one question at a time, an allowance for each, also after a restart; nobody sees another's",
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
);

proves(
  ["D202"],
  "who is not known is let in nowhere, and what is no question is refused",
  async () => {
    const { ask, say } = await chatWith(() => says(ANSWER));
    for (const path of ["/", "/messages", "/stream"])
      expect((await ask(path, {}, "ann:other")).status).toBe(401);
    expect((await say("")).status).toBe(400);
    expect(
      (await ask("/messages", { method: "POST", body: '{"text":"From a form"}' })).status,
    ).toBe(415);
    expect((await say("x".repeat(60_000))).status).toBe(413);
    expect((await ask("/nowhere")).status).toBe(404);
    expect((await say("What is it?")).status).toBe(202);
  },
);
