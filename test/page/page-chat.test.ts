// Goal (D208): the chat page shows an answer while the model streams it, always as text, and
// completely after a reload.
// Method: Chromium, the program as a separate process, and a model server that holds its reply
// until the test releases it.

import { afterAll, describe, expect } from "vitest";

import { chatWith, heldReply } from "../examples/chat-service.ts";
import { latch } from "../../src/testing/latch.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { findChromium, openTab } from "./chromium.ts";

const found = await findChromium();
const browser = typeof found === "string" ? undefined : found;
if (typeof found === "string") console.warn(`Tests of the chat are skipped: ${found}.`);
afterAll(() => browser?.close());

const ANSWER = "An espalier is a <b>tree</b> against a wall.";
/** A limit for a hanging test: the process reads all of `src` on a busy machine. */
const LIMIT_MS = 120_000;

describe.skipIf(browser === undefined)("the chat in a browser", () => {
  proves(
    ["D208"],
    "shows an answer while it streams, and completely after reloads during and after it",
    async () => {
      const { reply, begun, goOn } = heldReply(ANSWER);
      const chat = await chatWith(() => reply);
      const tab = await openTab(browser ?? expect.fail("no browser"), chat.url(), {
        httpCredentials: { username: "ann", password: "secret" },
      });
      afterwards(() => tab.close());
      const { page } = tab;
      const lines = (): Promise<string[]> => page.locator("li").allTextContents();
      const first = ["You: What is it?", begun];

      await page.getByLabel("Your question").fill("What is it?");
      await page.keyboard.press("Enter");
      await expect.poll(lines).toEqual(first);
      expect(await page.getByLabel("Your question").inputValue()).toBe("");

      await page.reload();
      await expect.poll(lines).toEqual(first);

      goOn();
      const whole = ["You: What is it?", ANSWER];
      await expect.poll(lines).toEqual(whole);
      await page.reload();
      await expect.poll(lines).toEqual(whole);
      expect(await page.locator("li b").count()).toBe(0);
      expect([tab.complaints, tab.foreign]).toEqual([[], []]);
    },
    LIMIT_MS,
  );

  proves(
    ["D208"],
    "shows a question once if it is asked before the page knows of a pending answer",
    async () => {
      const { reply, begun, goOn } = heldReply(ANSWER);
      afterwards(goOn);
      const chat = await chatWith(() => reply);
      const tab = await openTab(browser ?? expect.fail("no browser"), "about:blank", {
        httpCredentials: { username: "ann", password: "secret" },
      });
      afterwards(() => tab.close());
      const { page } = tab;
      const known = latch();
      const looks: unknown[] = [];
      await page.route("**/stream", async (route) => {
        looks.push(route.request());
        if (looks.length === 1) await known.opened;
        await route.continue();
      });
      await page.goto(chat.url());
      await expect.poll(() => looks.length).toBe(1);
      await page.getByLabel("Your question").fill("What is it?");
      await page.keyboard.press("Enter");
      await expect.poll(() => looks.length).toBe(2);
      const firstIsOver = page.waitForEvent("requestfailed", (one) => one === looks[0]);
      known.open();
      await firstIsOver;
      const lines = (): Promise<string[]> => page.locator("li").allTextContents();
      await expect.poll(lines).toEqual(["You: What is it?", begun]);
    },
    LIMIT_MS,
  );

  proves(
    ["D208"],
    "shows the reason of a refused question and leaves the question in its field",
    async () => {
      const { reply, begun, goOn } = heldReply(ANSWER);
      afterwards(goOn);
      const chat = await chatWith(() => reply);
      expect((await chat.say("From another window?")).status).toBe(202);
      const tab = await openTab(browser ?? expect.fail("no browser"), chat.url(), {
        httpCredentials: { username: "ann", password: "secret" },
      });
      afterwards(() => tab.close());
      const { page } = tab;
      const lines = (): Promise<string[]> => page.locator("li").allTextContents();
      const first = ["You: From another window?", begun];
      await expect.poll(lines).toEqual(first);
      await page.getByLabel("Your question").fill("And this?");
      await page.keyboard.press("Enter");
      await expect.poll(lines).toEqual([...first, "One question at a time."]);
      expect(await page.getByLabel("Your question").inputValue()).toBe("And this?");
    },
    LIMIT_MS,
  );
});
