// The chat of `examples/apps` for a test: a separate process, which may be killed and restarted on
// the same file, and a server that speaks Chat Completions as its model.

import { once } from "node:events";
import { createInterface } from "node:readline";

import { z } from "zod";

import { afterwards } from "../harness/afterwards.ts";
import { OpenAiServer, says, type Handler, type Says } from "../support/openai-server.ts";
import { startApp } from "./app-process.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const Shown = z.array(z.object({ role: z.string(), text: z.string() }));

type Init = Omit<RequestInit, "headers"> & { readonly headers?: Readonly<Record<string, string>> };

/**
 * The service listens. Its users are ann, whose password is `secret`, and bob, whose password is
 * `other`.
 */
export async function chatWith(handler: Handler, ...args: readonly string[]) {
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
    /** The current address. */
    url: () => url,
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

/** A reply whose part `begun` comes at once, and the rest when the test releases it. */
export function heldReply(text: string) {
  const { promise: until, resolve: goOn } = Promise.withResolvers<void>();
  // The first chunk contains the role of the message; each of the others has four characters.
  const reply: Says = says(text, { interrupted: { type: "pause", afterChunks: 3, until } });
  return { reply, begun: text.slice(0, 8), goOn };
}
