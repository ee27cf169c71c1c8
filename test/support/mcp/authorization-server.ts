// An authorization server, and a hand-made MCP server that accepts only its tokens. A refresh token
// is valid once: a second use is refused, as OAuth 2.1 requires for public clients.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

import { afterwards } from "../../harness/afterwards.ts";
import { handMadeOverHttp, type HttpFixture } from "./http-server.ts";

export interface GuardedPeer extends HttpFixture {
  /** The URL of the MCP server. */
  readonly url: string;
  /** The URL of the authorization server. */
  readonly issuer: string;
  /** The grant types of all token requests, in order. */
  readonly grants: string[];
  /** The headers of every request to the authorization server. */
  readonly grantHeaders: IncomingMessage["headers"][];
  /** Returns how many requests were refused for lack of a valid token. */
  readonly refusals: () => number;
  /** Invalidates all earlier tokens. */
  expire(): void;
  /** Makes this token valid again. */
  valid(token: string): void;
  /** Requires these scopes from now on. A token has the scopes that were requested for it. */
  demand(...scopes: string[]): void;
  /** Delays tokens until this resolves. */
  hold(until: Promise<unknown>): void;
  /** Issues a valid token with its refresh token. */
  issue(scope?: string): { readonly access_token: string; readonly refresh_token: string };
}

export interface GuardedOptions {
  /** Further tools of the MCP server. */
  readonly tools?: readonly unknown[];
  /** The body of a refusal, with secrets that a careless server may reveal. */
  readonly refusalBody?: (request: IncomingMessage) => string;
  /** The error description in the challenge of a refusal. */
  readonly description?: (request: IncomingMessage) => string;
}

export async function guardedPeer({
  tools = [],
  refusalBody = () => "Who are you?",
  description,
}: GuardedOptions = {}): Promise<GuardedPeer> {
  const valid = new Map<string, readonly string[]>();
  const refreshTokens = new Set<string>();
  const grants: string[] = [];
  const grantHeaders: IncomingMessage["headers"][] = [];
  let demanded: readonly string[] = [];
  let held: Promise<unknown> = Promise.resolve();
  let count = 0;
  let refused = 0;

  const issue = (scope = "") => {
    count += 1;
    const tokens = {
      access_token: `access-secret-${count}`,
      refresh_token: `refresh-secret-${count}`,
    };
    valid.set(tokens.access_token, scope.split(" "));
    refreshTokens.add(tokens.refresh_token);
    return tokens;
  };

  const grantTo = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    grantHeaders.push(request.headers);
    const { pathname } = new URL(request.url ?? "", "http://127.0.0.1");
    if (pathname === "/.well-known/oauth-authorization-server")
      return answer(response, 200, {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        response_types_supported: ["code"],
        code_challenge_methods_supported: ["S256"],
        token_endpoint_auth_methods_supported: ["none", "client_secret_basic"],
      });
    if (pathname === "/register") {
      const client: unknown = JSON.parse(await bodyOf(request));
      return answer(response, 201, Object.assign({ client_id: "client-1" }, client));
    }
    if (pathname === "/authorize") {
      const asked = new URL(request.url ?? "", origin).searchParams;
      const back = new URL(asked.get("redirect_uri") ?? "");
      back.searchParams.set("code", `code ${asked.get("scope") ?? ""}`);
      response.writeHead(302, { location: back.href }).end();
      return;
    }
    const form = new URLSearchParams(await bodyOf(request));
    const grant = form.get("grant_type") ?? "";
    grants.push(grant);
    await held;
    if (grant === "refresh_token" && !refreshTokens.delete(form.get("refresh_token") ?? ""))
      return answer(response, 400, { error: "invalid_grant" });
    const scope =
      form.get("code")?.replace(/^code /, "") ?? form.get("scope") ?? demanded.join(" ");
    answer(response, 200, { ...issue(scope), token_type: "Bearer", expires_in: 3_600, scope });
  };
  const origin = await listening(
    createServer((request, response) => void grantTo(request, response)),
  );

  const peer = await handMadeOverHttp({
    tools,
    front: (request, response) => {
      const url = `http://${request.headers.host ?? ""}`;
      const metadataUrl = `${url}/.well-known/oauth-protected-resource/mcp`;
      if (request.url === "/.well-known/oauth-protected-resource/mcp") {
        answer(response, 200, { resource: `${url}/mcp`, authorization_servers: [origin] });
        return true;
      }
      const token = /^Bearer (.*)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
      const scopes = valid.get(token);
      const [status, error] =
        scopes === undefined ? [401, "invalid_token"] : [403, "insufficient_scope"];
      if (scopes !== undefined && demanded.every((scope) => scopes.includes(scope))) return false;
      refused += 1;
      const challenge = [
        `Bearer error="${error}"`,
        ...(description === undefined ? [] : [`error_description="${description(request)}"`]),
        ...(demanded.length === 0 ? [] : [`scope="${demanded.join(" ")}"`]),
        `resource_metadata="${metadataUrl}"`,
      ].join(", ");
      request.resume();
      response.writeHead(status, { "www-authenticate": challenge }).end(refusalBody(request));
      return true;
    },
  });
  return {
    ...peer,
    url: String(peer.transport.url),
    issuer: origin,
    grants,
    grantHeaders,
    refusals: () => refused,
    expire: () => valid.clear(),
    valid: (token) => void valid.set(token, []),
    demand: (...scopes) => {
      demanded = scopes;
    },
    hold: (until) => {
      held = until;
    },
    issue,
  };
}

function answer(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text;
}

/** Returns the origin of the server, on a free port of this machine. */
export async function listening(http: ReturnType<typeof createServer>): Promise<string> {
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  afterwards(() => {
    http.closeAllConnections();
    http.close();
  });
  const address = http.address();
  return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
}
