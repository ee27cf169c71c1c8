// The client that the public conformance suite tests: an agent that calls each tool of the server
// once. The suite runs it with the URL of its server as the last argument.

import {
  ClientCredentialsProvider,
  CrossAppAccessProvider,
  discoverAuthorizationServerMetadata,
  PrivateKeyJwtProvider,
  requestJwtAuthorizationGrant,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
} from "@modelcontextprotocol/client";
import { z } from "zod";

import type { Approver } from "../../../src/agent/approver.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { EspalierError } from "../../../src/kernel/error.ts";
import { connectMcp } from "../../../src/mcp/connect-mcp.ts";
import { Orchestrator } from "../../../src/orchestrator/orchestrator.ts";
import { provideResult } from "../../../src/protocol/question.ts";
import { says, ScriptedModel } from "../../../src/testing/scripted-model.ts";
import { CodeProvider } from "./code-provider.ts";

const url = process.argv.at(-1) ?? "";
const scenario = process.env["MCP_CONFORMANCE_SCENARIO"] ?? "";
const context = z
  .record(z.string(), z.string())
  .parse(JSON.parse(process.env["MCP_CONFORMANCE_CONTEXT"] ?? "{}"));

/** More authorizations are an endless loop. */
const MOST_AUTHORIZATIONS = 3;

function given(name: string): string {
  return context[name] ?? "";
}

function provider(): OAuthClientProvider {
  const clientId = given("client_id");
  const clientSecret = given("client_secret");
  switch (scenario) {
    case "auth/client-credentials-basic":
      return new ClientCredentialsProvider({ clientId, clientSecret });
    case "auth/client-credentials-jwt":
      return new PrivateKeyJwtProvider({
        clientId,
        privateKey: given("private_key_pem"),
        algorithm: given("signing_algorithm"),
      });
    case "auth/cross-app-access-complete-flow":
      return new CrossAppAccessProvider({ clientId, clientSecret, assertion });
    case "auth/pre-registration":
      return new CodeProvider({ client: { client_id: clientId, client_secret: clientSecret } });
    case "auth/2025-03-26-oauth-metadata-backcompat":
      return new LenientProvider();
    case "auth/basic-cimd":
      return new CodeProvider({
        clientMetadataUrl: "https://conformance-test.local/client-metadata.json",
      });
    default:
      return new CodeProvider();
  }
}

/**
 * For a server whose metadata names another issuer than its URL, as some did in March 2025: this
 * provider accepts it.
 */
class LenientProvider extends CodeProvider {
  override async discoveryState(): Promise<OAuthDiscoveryState> {
    const known = await super.discoveryState();
    if (known !== undefined) return known;
    const authorizationServerUrl = new URL(url).origin;
    const authorizationServerMetadata = await discoverAuthorizationServerMetadata(
      authorizationServerUrl,
      { skipIssuerValidation: true },
    );
    return {
      authorizationServerUrl,
      ...(authorizationServerMetadata && { authorizationServerMetadata }),
    };
  }
}

const assertion: ConstructorParameters<typeof CrossAppAccessProvider>[0]["assertion"] = async (
  asked,
) => {
  const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
    tokenEndpoint: given("idp_token_endpoint"),
    audience: asked.authorizationServerUrl,
    resource: asked.resourceUrl,
    idToken: given("idp_id_token"),
    clientId: given("idp_client_id"),
    fetchFn: asked.fetchFn,
  });
  return jwtAuthGrant;
};

/**
 * Connects and calls each tool once. Returns true if a call or the connection was refused for lack
 * of an authorization.
 */
async function isRefused(auth: OAuthClientProvider): Promise<boolean> {
  try {
    const transport = { type: "http", url, auth } as const;
    await using server = await connectMcp({
      name: "peer",
      transport,
      prefix: "",
      elicitation: true,
    });
    const calls = server.tools.map(({ name }) => ({
      toolName: name,
      arguments: ARGUMENTS[name] ?? {},
    }));
    const model = new ScriptedModel([{ calls }, says("Done.")]);
    const role = defineAgent({ name: "caller", instructions: "Call.", model, tools: server.tools });
    const result = await new Orchestrator({ approver }).start(role, "Call each tool.").result;
    const executions = result.steps.flatMap(({ tools }) => tools.executions);
    for (const { call, type, text } of executions)
      process.stdout.write(`${call.toolName} ${type}: ${text}\n`);
    return executions.some(({ type, text }) => type !== "succeeded" && /credentials/.test(text));
  } catch (cause) {
    if (!EspalierError.is(cause) || cause.code !== "mcp_unauthorized") throw cause;
    process.stdout.write(`${cause.message}\n`);
    return true;
  }
}

/** Leaves out all requested data, so that defaults are used. */
const approver: Approver = (question) => provideResult(question, {});

const ARGUMENTS: Readonly<Record<string, object>> = { add_numbers: { a: 5, b: 3 } };

const auth = provider();
for (let count = 0; count < MOST_AUTHORIZATIONS && (await isRefused(auth)); count += 1)
  if (!(auth instanceof CodeProvider) || !(await auth.finish(url))) break;
