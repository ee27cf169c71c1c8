// Goal: requests use only the configured proxy, and no secret reaches a server that it is not for.
// Method: a real proxy on this machine, and host names that cannot be resolved otherwise.

import { inspect } from "node:util";
import { getCACertificates, setDefaultCACertificates } from "node:tls";

import { describe, expect, test } from "vitest";

import { CancelSignal } from "../../../src/kernel/cancel-signal.ts";
import { NodeTransport } from "../../../src/model/openai/node-transport.ts";
import { openai, type OpenAiOptions } from "../../../src/model/openai/openai-model.ts";
import { resolveProxy } from "../../../src/model/openai/proxy.ts";
import { createRequestTarget } from "../../../src/model/openai/openai-connection.ts";
import { ManualClock } from "../../../src/testing/manual-clock.ts";
import { afterwards } from "../../harness/afterwards.ts";
import { proves } from "../../harness/proves.ts";
import { API_KEY, modelAt, MODES, rejection, reply } from "../../support/openai-calls.ts";
import { OpenAiServer, says } from "../../support/openai-server.ts";
import { ProxyServer, TlsFront } from "../../support/proxy-server.ts";
import { TEST_CERTIFICATE } from "../../support/test-certificate.ts";
import { thrownBy } from "../../support/thrown.ts";

const PLAIN = { baseUrl: "http://model.test/v1", apiKey: API_KEY };
const SECURE = { baseUrl: "https://model.test/v1", apiKey: API_KEY };
const REQUEST = { target: createRequestTarget(new URL(SECURE.baseUrl)), headers: [] };
const FORWARDED = "POST http://model.test/v1/chat/completions";
const TUNNEL = "CONNECT model.test:443";

/** Sets the variables for this test only. */
function setVariables(variables: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(variables)) {
    process.env[name] = value;
    afterwards(() => delete process.env[name]);
  }
}

function trustTestCertificate(): void {
  const before = getCACertificates("default");
  setDefaultCACertificates([...before, TEST_CERTIFICATE]);
  afterwards(() => setDefaultCACertificates(before));
}

function portOf({ baseUrl }: OpenAiServer): number {
  return Number(new URL(baseUrl).port);
}

async function textFrom(options: OpenAiOptions): Promise<string> {
  return (await reply(openai("test-model", options), "whole")).reply.message.text;
}

describe.each(MODES)("a reply that comes %s", (mode) => {
  proves(["M23"], `uses the proxy of the environment (http, ${mode})`, async () => {
    await using server = await OpenAiServer.start(() => says("It is a tree."));
    await using proxy = await ProxyServer.start(portOf(server));
    setVariables({ HTTP_PROXY: proxy.url, HTTPS_PROXY: "http://127.0.0.1:9" });
    const { reply: got } = await reply(openai("test-model", PLAIN), mode);
    expect([got.message.text, proxy.lines]).toEqual(["It is a tree.", [FORWARDED]]);
  });

  proves(["M23"], `sends the proxy its credentials and the host (http, ${mode})`, async () => {
    await using server = await OpenAiServer.start(() => says("It is a tree."));
    await using proxy = await ProxyServer.start(portOf(server));
    setVariables({ HTTP_PROXY: `http://me:secret@${proxy.host}` });
    await reply(openai("test-model", PLAIN), mode);
    const credentials = Buffer.from("me:secret").toString("base64");
    expect(proxy.seen[0]?.head.split("\n")).toEqual(
      expect.arrayContaining([`Basic ${credentials}`, "model.test"]),
    );
  });

  proves(["M23", "M25"], `uses a tunnel that never sees the key (${mode})`, async () => {
    trustTestCertificate();
    await using server = await OpenAiServer.start(() => says("It is a tree."));
    await using front = await TlsFront.start(portOf(server));
    await using proxy = await ProxyServer.start(front.port);
    setVariables({ HTTPS_PROXY: `http://me:secret@${proxy.host}` });
    const model = openai("test-model", SECURE);
    for (let call = 0; call < 2; call += 1) {
      expect((await reply(model, mode)).reply.message.text).toBe("It is a tree.");
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${API_KEY}`,
      `Bearer ${API_KEY}`,
    ]);
    const credentials = Buffer.from("me:secret").toString("base64");
    expect(proxy.seen.map(({ line, head }) => ({ line, head }))).toEqual([
      {
        line: TUNNEL,
        head: `proxy-authorization
Basic ${credentials}
proxy-connection
keep-alive
host
model.test:443`,
      },
    ]);
    expect(server.requests.some(({ headers }) => "proxy-authorization" in headers)).toBe(false);
  });
});

proves(
  ["M23"],
  "bypasses the proxy for hosts in NO_PROXY, with proxy: false and with a custom fetch",
  async () => {
    await using server = await OpenAiServer.start(() => says("Directly."));
    await using proxy = await ProxyServer.start(portOf(server));
    setVariables({ HTTP_PROXY: proxy.url });
    const at = { baseUrl: server.baseUrl };
    expect(await textFrom({ ...at, proxy: false })).toBe("Directly.");
    expect(await textFrom({ ...at, fetch: (url, init) => fetch(url, init) })).toBe("Directly.");
    expect(proxy.lines).toEqual([]);
    expect(await textFrom(at)).toBe("Directly.");
    expect(proxy.lines.length).toBe(1);
    setVariables({ NO_PROXY: "example.org, 127.0.0.1" });
    expect(await textFrom(at)).toBe("Directly.");
    expect(proxy.lines.length).toBe(1);
  },
);

proves(["M23"], "prefers the option `proxy` to the environment, including NO_PROXY", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  await using proxy = await ProxyServer.start(portOf(server));
  setVariables({ HTTP_PROXY: "http://127.0.0.1:9", NO_PROXY: "*" });
  await textFrom({ ...PLAIN, proxy: proxy.url });
  expect(proxy.lines).toEqual([FORWARDED]);
});

proves(["M23"], "prefers lower-case variables and ignores empty ones", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  await using proxy = await ProxyServer.start(portOf(server));
  setVariables({ HTTP_PROXY: "http://127.0.0.1:9", http_proxy: proxy.url, no_proxy: " " });
  await textFrom(PLAIN);
  setVariables({ HTTP_PROXY: proxy.url, http_proxy: "" });
  await textFrom(PLAIN);
  expect(proxy.lines).toEqual([FORWARDED, FORWARDED]);
});

test("reads the environment once, when the model is found ready", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  await using proxy = await ProxyServer.start(portOf(server));
  const model = openai("test-model", PLAIN);
  setVariables({ HTTP_PROXY: proxy.url });
  model.assertReady?.();
  setVariables({ HTTP_PROXY: "http://127.0.0.1:9" });
  await reply(model, "whole");
  expect(proxy.lines).toEqual([FORWARDED]);
});

proves(["M25"], "reports a proxy that refuses, without its password", async () => {
  for (const [tunnelStatus, code] of [
    [407, "model_invalid_request"],
    [403, "model_invalid_request"],
    [502, "model_unavailable"],
  ] as const) {
    await using proxy = await ProxyServer.start(9, { tunnelStatus });
    const url = `http://me:secret@${proxy.host}`;
    const call = reply(openai("test-model", { ...SECURE, proxy: url }), "whole");
    const error: unknown = await rejection(call);
    // Node 22 reports the URL without the slash.
    const via = new RegExp(`model\\.test:443 via ${proxy.url}/?: HTTP/1.1 ${tunnelStatus}`);
    const message: unknown = expect.stringMatching(via);
    expect(error).toMatchObject({ code, message });
    expect(inspect(error)).not.toMatch(/secret|sk-test/);
  }
});

proves(
  ["M26"],
  "closes the connection to a proxy when a call is aborted before the tunnel is open",
  async () => {
    await using proxy = await ProxyServer.start(9, { tunnelStatus: "never" });
    const caller = new AbortController();
    const call = rejection(
      reply(openai("m", { ...SECURE, proxy: proxy.url }), "whole", caller.signal),
    );
    await proxy.wasAsked;
    caller.abort("enough");
    expect(await call).toBe("enough");
    await proxy.seen[0]?.closed;
  },
);

proves(["M28"], "abandons a tunnel that is not open after ten seconds", async () => {
  await using proxy = await ProxyServer.start(9, { tunnelStatus: "never" });
  const clock = new ManualClock();
  const transport = new NodeTransport("https:", { url: proxy.url }, clock);
  const call = rejection(transport.send(REQUEST, Buffer.from("{}"), new CancelSignal()));
  await proxy.wasAsked;
  clock.advance(10_000);
  expect(await call).toMatchObject({ message: "Connection timed out after 10000 ms" });
  await proxy.seen[0]?.closed;
  expect(clock.pendingTimers).toBe(0);
});

test("sets no time limit on an open tunnel", async () => {
  trustTestCertificate();
  await using server = await OpenAiServer.start(() => says("ok"));
  await using front = await TlsFront.start(portOf(server));
  await using proxy = await ProxyServer.start(front.port);
  const clock = new ManualClock();
  const transport = new NodeTransport("https:", { url: proxy.url }, clock);
  const response = await transport.send(REQUEST, Buffer.from("{}"), new CancelSignal());
  expect([response.status, clock.pendingTimers]).toEqual([200, 0]);
});

const ADVICE = "Add the scheme, http:// or https://. Write % as %25 in a name or a password.";

test.each<[string, OpenAiOptions, Readonly<Record<string, string>>, string]>([
  [
    "an option that is no address",
    { proxy: "me:secret@proxy:8080" },
    {},
    `Expected openai.proxy to be an http or https URL, got "…@proxy:8080". ${ADVICE}`,
  ],
  [
    "a password that cannot be decoded",
    { proxy: "http://me:100%@proxy:8080" },
    {},
    `Expected openai.proxy to be an http or https URL, got "…@proxy:8080". ${ADVICE}`,
  ],
  [
    "a variable that is no address",
    {},
    { HTTPS_PROXY: "socks5://me:secret@proxy" },
    `Expected HTTPS_PROXY to be an http or https URL, got "…@proxy". ${ADVICE}`,
  ],
  [
    "a proxy beside a fetch",
    { proxy: "http://me:secret@proxy", fetch },
    {},
    'Expected openai.proxy to be left out when fetch is set, got "both". Leave one of them out: a custom fetch ignores it.',
  ],
])("rejects %s", (_what, options, variables, message) => {
  setVariables(variables);
  const make = (): void => openai("m", { ...SECURE, ...options }).assertReady?.();
  expect(thrownBy(make)).toMatchObject({ code: "invalid_argument", message });
});

test("rejects an option `proxy` of another type", () => {
  const make = (): unknown => Reflect.apply(openai, undefined, ["m", { proxy: true }]);
  expect(thrownBy(make)).toMatchObject({
    message:
      "Expected openai.proxy to be an http or https URL, or false, got true. Leave it out to go by HTTPS_PROXY and HTTP_PROXY.",
  });
});

test("ignores the variable for the other scheme", () => {
  setVariables({ HTTP_PROXY: "nonsense" });
  openai("m", SECURE).assertReady?.();
});

proves(["M23"], "rejects a proxy if Node cannot use one, except for hosts in NO_PROXY", () => {
  const environment = { HTTPS_PROXY: "http://proxy:8080", NO_PROXY: "a.test,.b.test,*.c.test" };
  const old = { environment, canProxy: () => false };
  for (const option of [undefined, "http://proxy:8080"]) {
    const field = option === undefined ? "HTTPS_PROXY" : "openai.proxy";
    expect(thrownBy(() => resolveProxy("https://d.test", option, old))).toMatchObject({
      code: "invalid_argument",
      message: `Expected Node 24.5, or 22.21, or later to go through a proxy (${field}), got ${process.version}. Use a newer Node, set the option fetch to a fetch that uses the proxy, or set proxy: false to connect directly.`,
    });
  }
  const asked = (url: string, no = environment.NO_PROXY): boolean => {
    const variables = { ...environment, NO_PROXY: no };
    const ask = (): unknown => resolveProxy(url, undefined, { ...old, environment: variables });
    try {
      return ask() !== undefined;
    } catch {
      return true;
    }
  };
  const hosts = ["a.test", "x.a.test", "b.test", "x.b.test", "x.c.test", "xc.test", "d.test"];
  expect(hosts.filter((host) => asked(`https://${host}/v1`))).toEqual([
    "x.a.test",
    "xc.test",
    "d.test",
  ]);
  expect([
    asked("https://d.test", "*"),
    asked("http://d.test"),
    asked("https://d.test", ""),
  ]).toEqual([false, false, true]);
  expect(resolveProxy("https://d.test", false, old)).toBe(undefined);
});

test("does not use a proxy for a model with a custom fetch", async () => {
  await using server = await OpenAiServer.start(() => says("ok"));
  setVariables({ HTTP_PROXY: "http://127.0.0.1:9" });
  const { reply: got } = await reply(
    modelAt(server, { fetch: (url, init) => fetch(url, init) }),
    "whole",
  );
  expect(got.message.text).toBe("ok");
});
