// Goal: a server that requires authorization gets the token of the given provider. Without a
// provider, an error reports the challenge of the server. Tokens go to no other server.
// Method: the providers of the official client, an authorization server and an MCP server that
// accepts only its tokens.

import { createServer, type IncomingMessage } from "node:http";
import { inspect } from "node:util";

import { ClientCredentialsProvider, type AuthProvider } from "@modelcontextprotocol/client";
import { describe, expect } from "vitest";

import { connectMcp, type McpServer } from "../../src/mcp/connect-mcp.ts";
import type { McpHttp, McpOptions } from "../../src/mcp/mcp-options.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { newFixture } from "../harness/run-scripted.ts";
import { rejectionOf } from "../support/thrown.ts";
import { caller, executionsOf, made, textsOf } from "../support/mcp/agents.ts";
import { guardedPeer, listening, type GuardedPeer } from "../support/mcp/authorization-server.ts";
import { CodeProvider } from "../support/mcp/code-provider.ts";
import { until } from "../support/mcp/connecting.ts";
import { ASKING } from "../support/mcp/hand-made-server.ts";
import { handMadeOverHttp } from "../support/mcp/http-server.ts";

async function connected(transport: McpHttp, more: Partial<McpOptions> = {}): Promise<McpServer> {
  const filter: McpOptions["filter"] = ({ name }) => name === "meta" || name === "seen";
  const server = await connectMcp({ name: "peer", prefix: "", transport, filter, ...more });
  afterwards(() => server.close());
  return server;
}

/** Creates a client that is registered and has earlier tokens. */
function withTokens(peer: GuardedPeer, scope?: string): CodeProvider {
  return new CodeProvider({
    client: { client_id: "client-1", issuer: peer.issuer },
    tokens: {
      ...peer.issue(scope),
      issuer: peer.issuer,
      token_type: "Bearer",
      ...(scope === undefined ? {} : { scope }),
    },
  });
}

/** Creates a provider that has one token and cannot get another. */
function fixed(token: string): AuthProvider {
  return { token: () => Promise.resolve(token) };
}

describe("an auth provider", () => {
  proves(["M75"], "requests a token when the server requires one, and sends it", async () => {
    const peer = await guardedPeer();
    const client = { clientId: "client-1", clientSecret: "client-secret" };
    const auth = new ClientCredentialsProvider({ ...client, expectedIssuer: peer.issuer });
    const { tools } = await connected({ ...peer.transport, auth });
    expect(textsOf(await made(tools, [["meta"]]))).toEqual(["{}"]);
    expect([peer.grants, peer.refusals()]).toEqual([["client_credentials"], 1]);
    expect(new Set(peer.headers.map(({ authorization }) => authorization))).toEqual(
      new Set(["Bearer access-secret-1"]),
    );
    // The server does not receive credentials that are for another issuer.
    const others = new ClientCredentialsProvider({ ...client, expectedIssuer: "https://a.test" });
    const { code, message } = await rejectionOf(connected({ ...peer.transport, auth: others }));
    expect([code, message]).toEqual([
      "mcp_unauthorized",
      expect.stringContaining("Authorization server mismatch"),
    ]);
  });

  proves(["M75"], "refreshes earlier tokens without a user", async () => {
    const peer = await guardedPeer();
    const auth = withTokens(peer);
    peer.expire();
    const { tools } = await connected({ ...peer.transport, auth });
    expect(textsOf(await made(tools, [["meta"]]))).toEqual(["{}"]);
    expect([peer.grants, auth.redirects, peer.refusals()]).toEqual([["refresh_token"], 0, 1]);
    expect(new Set(peer.headers.map(({ authorization }) => authorization))).toEqual(
      new Set(["Bearer access-secret-2"]),
    );
  });

  proves(["M75"], "refreshes once, however many calls are refused at the same time", async () => {
    const peer = await guardedPeer();
    const auth = withTokens(peer);
    const { tools } = await connected({ ...peer.transport, auth });
    const calls = Array.from({ length: 5 }, () => ["meta"] as const);
    peer.expire();
    peer.hold(until(() => peer.refusals() === calls.length));
    const results = await Promise.all(calls.map((call) => made(tools, [call])));
    expect(results.flatMap(textsOf)).toEqual(calls.map(() => "{}"));
    expect([peer.grants, auth.redirects]).toEqual([["refresh_token"], 0]);
  });

  proves(["D684"], "uses the token of another request if its own refusal comes late", async () => {
    const peer = await guardedPeer();
    const first = Promise.withResolvers<void>();
    let refusals = 0;
    const late: NonNullable<McpHttp["fetch"]> = async (url, init) => {
      const response = await fetch(url, init);
      if (response.status === 401 && (refusals += 1) === 2) await first.promise;
      return response;
    };
    const auth = withTokens(peer);
    const { tools } = await connected({ ...peer.transport, auth, fetch: late });
    peer.expire();
    peer.hold(until(() => peer.refusals() === 2));
    const calls = [1, 2].map(async () => {
      const results = textsOf(await made(tools, [["meta"]]));
      first.resolve();
      return results;
    });
    expect(await Promise.all(calls)).toEqual([["{}"], ["{}"]]);
    expect([peer.grants, auth.redirects]).toEqual([["refresh_token"], 0]);
  });

  proves(
    ["D684"],
    "requests an authorization for more scope from a user one at a time",
    async () => {
      const peer = await guardedPeer();
      const auth = withTokens(peer, "notes");
      const { tools } = await connected({ ...peer.transport, auth });
      const redirect = auth.redirectToAuthorization.bind(auth);
      let running = 0;
      const overlaps: number[] = [];
      auth.redirectToAuthorization = async (url) => {
        overlaps.push((running += 1));
        await until(() => peer.refusals() === 2);
        await redirect(url);
        running -= 1;
      };
      peer.demand("notes", "admin");
      const results = await Promise.all([1, 2].map(() => made(tools, [["meta"]])));
      expect(results.flat().map(({ type }) => type)).toEqual(["failed", "failed"]);
      expect(overlaps).toEqual([1, 1]);
    },
  );

  describe("for the standing stream", () => {
    /** Invalidates the earlier tokens when that stream is requested. */
    const expiring =
      (peer: GuardedPeer): NonNullable<McpHttp["fetch"]> =>
      async (url, init) => {
        const response = await fetch(url, init);
        const body: unknown = init?.body;
        if (typeof body === "string" && body.includes("notifications/initialized")) peer.expire();
        return response;
      };

    proves(["M75"], "does not refresh a second time", async () => {
      const peer = await guardedPeer();
      peer.hold(until(() => peer.refusals() === 2));
      const auth = withTokens(peer);
      const { tools } = await connected({ ...peer.transport, auth, fetch: expiring(peer) });
      expect(textsOf(await made(tools, [["meta"]]))).toEqual(["{}"]);
      expect([peer.grants, peer.refusals()]).toEqual([["refresh_token"], 2]);
    });

    proves(
      ["M75"],
      "fails the connection, instead of leaving calls waiting, if no new token is available",
      async () => {
        const peer = await guardedPeer();
        const auth = fixed(peer.issue().access_token);
        const refused = connected({ ...peer.transport, auth, fetch: expiring(peer) });
        expect((await rejectionOf(refused)).code).toBe("mcp_unauthorized");
      },
    );
  });

  proves(["M75"], "does not delay a call until another call has used the new token", async () => {
    const peer = await guardedPeer({ tools: ASKING });
    const filter: McpOptions["filter"] = ({ name }) => name === "elicit";
    const { tools } = await connected({ ...peer.transport, auth: withTokens(peer) }, { filter });
    peer.expire();
    peer.hold(until(() => peer.refusals() === 2));
    // The server answers neither call, and begins no stream, before it has both.
    const both = [1, 2].map(() => made(tools, [["elicit", { together: 2 }]]));
    expect((await Promise.all(both)).flatMap(textsOf)).toEqual([
      '{"action":"decline"}',
      '{"action":"decline"}',
    ]);
    expect(peer.grants).toEqual(["refresh_token"]);
  });

  proves(
    ["M75"],
    "reports that a user must authorize, after which the authorization can be finished",
    async () => {
      const peer = await guardedPeer();
      peer.demand("notes");
      const auth = new CodeProvider();
      const transport = { ...peer.transport, auth };
      expect(await rejectionOf(connected(transport))).toEqual({
        code: "mcp_unauthorized",
        message: `Expected the MCP server "peer" at ${peer.url} to be satisfied by its auth provider, got: HTTP 401: Unauthorized (it asks for Bearer with scope "notes", "invalid_token", resource metadata: ${metadataOf(peer)}). If the provider started an authorization in the browser, pass its result to auth() of @modelcontextprotocol/client, then connect again.`,
        data: {
          server: "peer",
          reason: "unauthorized",
          challenge: {
            status: 401,
            scheme: "Bearer",
            scope: "notes",
            error: "invalid_token",
            resourceMetadataUrl: metadataOf(peer),
          },
        },
      });
      expect(await auth.finish(peer.url)).toBe(true);
      const { tools } = await connected(transport);
      expect(textsOf(await made(tools, [["meta"]]))).toEqual(["{}"]);
      expect(peer.grants).toEqual(["authorization_code"]);
    },
  );

  proves(
    ["M75"],
    "is not reported as a lost call if it fails before a request was sent",
    async () => {
      const { transport, server } = await handMadeOverHttp();
      const auth = { token: () => Promise.reject(new Error("The keychain is locked.")) };
      const { code, message } = await rejectionOf(connected({ ...transport, auth }));
      expect([code, server.seen]).toEqual(["mcp_unauthorized", []]);
      expect(message).toContain("got: The keychain is locked.");
    },
  );

  proves(["M75"], "is not called endlessly if it returns another token each time", async () => {
    const peer = await guardedPeer();
    const made: string[] = [];
    const token = (): Promise<string> => {
      // A promise that never settles ends a loop that would be endless.
      if (made.length > 10) return new Promise(() => {});
      return Promise.resolve(`secret-${made.push("")}`);
    };
    const { code } = await rejectionOf(connected({ ...peer.transport, auth: { token } }));
    expect([code, peer.refusals()]).toEqual(["mcp_unauthorized", 2]);
  });

  proves(["M75"], "is abandoned after the time limit of a connection", async () => {
    const peer = await guardedPeer();
    const auth = withTokens(peer);
    const clock = new ManualClock();
    const bounds = { clock, connectTimeoutMs: 1_000 };
    const { tools } = await connected({ ...peer.transport, auth }, bounds);
    peer.expire();
    peer.hold(new Promise(() => {}));
    const making = made(tools, [["meta"]]);
    await until(() => peer.grants.length === 1);
    clock.advance(1_000);
    const [refused] = await making;
    expect([refused?.type, auth.redirects, clock.pendingTimers]).toEqual(["failed", 1, 0]);
  });
});

function metadataOf({ url }: GuardedPeer): string {
  return `${new URL(url).origin}/.well-known/oauth-protected-resource/mcp`;
}

describe("without an auth provider", () => {
  proves(
    ["M76"],
    "a call reports the scope that its token lacks, and the run continues",
    async () => {
      const peer = await guardedPeer();
      const { access_token: token } = peer.issue("notes");
      const headers = { authorization: `Bearer ${token}` };
      const { tools } = await connected({ ...peer.transport, headers });
      peer.demand("notes", "admin");
      const [refused] = await made(tools, [["meta"]]);
      expect([refused?.errorCode, refused?.text]).toEqual([
        "tool_error",
        'meta failed: The MCP server "peer" rejected the credentials: HTTP 403: Insufficient scope: required "notes admin". Nothing was done. Do without it, and say that it needs credentials.',
      ]);
      peer.demand("notes");
      expect(textsOf(await made(tools, [["meta"]]))).toEqual(["{}"]);
    },
  );
});

describe("a token", () => {
  const isSecret = /secret/;

  proves(["M76"], "is in no error and no event, whatever the server reveals", async () => {
    const refusalBody = ({ headers }: IncomingMessage): string =>
      `No: ${headers.authorization ?? ""}`;
    const description = ({ headers }: IncomingMessage): string =>
      `No for authorization: ${headers.authorization ?? ""}`;
    const peer = await guardedPeer({ refusalBody, description });
    const { access_token: token } = peer.issue();
    const headers = { authorization: `Bearer ${token}` };
    for (const given of [{ headers }, { auth: fixed(token) }]) {
      const transport = { ...peer.transport, ...given };
      const server = await connected(transport);
      peer.expire();
      const fixture = newFixture();
      const result = await fixture.run(caller(server.tools, [["meta"]]));
      expect(executionsOf(result).map(({ type }) => type)).toEqual(["failed"]);
      expect(JSON.stringify([result.steps, fixture.sink.events])).not.toMatch(isSecret);
      const thrown: unknown = await connected(transport).catch((cause: unknown) => cause);
      expect(inspect(thrown, { depth: 10 })).toContain("mcp_unauthorized");
      expect(inspect(thrown, { depth: 10 })).not.toMatch(isSecret);
      peer.valid(token);
    }
  });

  proves(
    ["M76"],
    "is sent like headers to the server alone, not to the authorization server or a redirect target",
    async () => {
      const peer = await guardedPeer();
      const auth = withTokens(peer);
      peer.expire();
      const headers = { "x-key": "header-secret" };
      await connected({ ...peer.transport, auth, headers });
      expect(peer.headers.every((sent) => sent["x-key"] === "header-secret")).toBe(true);
      expect(JSON.stringify(peer.grantHeaders)).not.toMatch(isSecret);
      expect(peer.grantHeaders.length).toBeGreaterThan(1);

      const elsewhere: unknown[] = [];
      const other = await listening(
        createServer((request, response) => {
          elsewhere.push(request.headers);
          response.writeHead(500).end();
        }),
      );
      const redirecting = await handMadeOverHttp({
        front: (_request, response) => {
          response.writeHead(307, { location: `${other}/mcp` }).end();
          return true;
        },
      });
      const refused = connected({
        ...redirecting.transport,
        auth: fixed("access-secret"),
        headers,
      });
      expect((await rejectionOf(refused)).message).toMatch(/Redirect to .* not followed/);
      expect(elsewhere).toEqual([]);
    },
  );
});
