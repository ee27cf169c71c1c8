// A provider of the official client in memory: a user who is sent to the authorization server
// returns at once, with a code.

import {
  auth,
  type OAuthClientProvider,
  type OAuthDiscoveryState,
  type StoredOAuthClientInformation,
  type StoredOAuthTokens,
} from "@modelcontextprotocol/client";

export interface CodeProviderOptions {
  /** A client that is already registered. By default it registers itself. */
  readonly client?: StoredOAuthClientInformation;
  readonly tokens?: StoredOAuthTokens;
  /** For servers that read the metadata of a client from its URL. */
  readonly clientMetadataUrl?: string;
}

export class CodeProvider implements OAuthClientProvider {
  /** Nothing listens there: the redirect is not followed. */
  readonly redirectUrl = "http://127.0.0.1/callback";
  readonly clientMetadata = {
    client_name: "espalier",
    redirect_uris: [this.redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
  };
  declare readonly clientMetadataUrl?: string;
  /** How often a user was sent to the authorization server. */
  redirects = 0;
  #client: StoredOAuthClientInformation | undefined;
  #tokens: StoredOAuthTokens | undefined;
  #verifier = "";
  #discovery: OAuthDiscoveryState | undefined;
  #callback: URLSearchParams | undefined;

  constructor({ client, tokens, clientMetadataUrl }: CodeProviderOptions = {}) {
    this.#client = client;
    this.#tokens = tokens;
    if (clientMetadataUrl !== undefined) this.clientMetadataUrl = clientMetadataUrl;
  }

  /**
   * Exchanges the code of the redirect. Returns false if there was no redirect since the last call.
   */
  async finish(serverUrl: string): Promise<boolean> {
    const callback = this.#callback;
    this.#callback = undefined;
    if (callback === undefined) return false;
    const iss = callback.get("iss");
    await auth(this, {
      serverUrl,
      authorizationCode: callback.get("code") ?? "",
      ...(iss === null ? {} : { iss }),
    });
    return true;
  }

  async redirectToAuthorization(url: URL): Promise<void> {
    this.redirects += 1;
    const response = await fetch(url, { redirect: "manual" });
    await response.body?.cancel();
    this.#callback = new URL(response.headers.get("location") ?? "", url).searchParams;
  }

  clientInformation(): StoredOAuthClientInformation | undefined {
    return this.#client;
  }

  saveClientInformation(client: StoredOAuthClientInformation): void {
    this.#client = client;
  }

  tokens(): StoredOAuthTokens | undefined {
    return this.#tokens;
  }

  saveTokens(tokens: StoredOAuthTokens): void {
    this.#tokens = tokens;
  }

  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }

  codeVerifier(): string {
    return this.#verifier;
  }

  saveDiscoveryState(state: OAuthDiscoveryState): void {
    this.#discovery = state;
  }

  discoveryState(): OAuthDiscoveryState | undefined | Promise<OAuthDiscoveryState | undefined> {
    return this.#discovery;
  }
}
