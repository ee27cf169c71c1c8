// Goal: text that looks like a secret is removed from a message, and other text stays unchanged.
// Method: two tables. Secrets are assembled here, so that secret scanners do not report this
// repository.

import { describe, expect, test } from "vitest";

import { redactSecrets } from "../../src/tools/redact-secrets.ts";

const R = "[redacted]";
const ALNUM = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5";
const JWT = [
  "eyJhbGciOiJIUzI1NiJ9",
  "eyJzdWIiOiIxMjM0NTY3ODkwIn0",
  "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
];
const BASE64 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC";

function pem(kind: string, lineBreak = "\n"): string {
  const dashes = "-----";
  const begin = `${dashes}BEGIN ${kind}${dashes}`;
  return [begin, BASE64, BASE64, "AAE=", `${dashes}END ${kind}${dashes}`].join(lineBreak);
}

const CUT_OFF = pem("PRIVATE KEY").split("\nAAE=")[0] ?? "";

const SECRETS: readonly (readonly [string, string, string])[] = [
  ["an OpenAI key", `key sk-${ALNUM} is bad`, `key ${R} is bad`],
  ["a project key", `(sk-proj-${ALNUM}_-x)`, `(${R})`],
  ["an Anthropic key", `sk-ant-api03-${ALNUM}`, R],
  ["an OpenRouter key", `sk-or-v1-${"0123456789abcdef".repeat(4)}.`, `${R}.`],
  ["a key of a form of its own", `sk-acme-prod-${ALNUM}`, R],
  ["GitHub tokens", `ghp_${ALNUM},gho_${ALNUM} ghs_${ALNUM}`, `${R},${R} ${R}`],
  ["a fine-grained GitHub token", `github_pat_11ABC_${ALNUM}`, R],
  ["Slack tokens", `xoxb-12345-67890-${ALNUM} xapp-1-A-${ALNUM}`, `${R} ${R}`],
  ["AWS access keys", "AKIAIOSFODNN7EXAMPLE/ASIAIOSFODNN7EXAMPLE", `${R}/${R}`],
  ["a Google key", `AIza${ALNUM.slice(0, 35)}`, R],
  ["a Hugging Face token", `hf_${ALNUM}`, R],
  ["a GitLab token", `glpat-${ALNUM.slice(0, 20)}`, R],
  ["an npm token", `//registry/:_authToken=npm_${ALNUM}`, `//registry/:_authToken=${R}`],
  ["a Stripe key", `sk_live_${ALNUM}`, R],
  ["a JSON web token", `got ${JWT.join(".")}!`, `got ${R}!`],
  ["a JSON web token without signature", `${JWT[0]}.${JWT[1]}.`, `${R}.`],
  ["a JSON web token with a part missing", `${JWT[0]}..${JWT[1]}.${JWT[2]}.${JWT[2]}`, R],
  ["a bearer header", "Authorization: Bearer abcdef", `Authorization: Bearer ${R}`],
  ["a bearer token without header", `bearer ${ALNUM}== refused`, `bearer ${R} refused`],
  ["a basic header", "authorization: Basic dXNlcjpwYXNz", `authorization: Basic ${R}`],
  ["basic credentials without header", "-H 'Basic dXNlcjpwYXNz'", `-H 'Basic ${R}'`],
  ["a header in JSON", '{"Authorization":"Bearer abc.def"}', `{"Authorization":"Bearer ${R}"}`],
  ["a header with a scheme of its own", "Authorization: token abc123", `Authorization: token ${R}`],
  ["a header without scheme", `Authorization: ${ALNUM}`, `Authorization: ${R}`],
  ["credentials in a URL", "postgres://me:hunter2@db:5432/x", `postgres://${R}@db:5432/x`],
  ["a password with an at sign", "amqp://me:p@ss@host/v", `amqp://${R}@host/v`],
  ["a password with a slash", "mysql://me:p/s#s@host/db", `mysql://${R}@host/db`],
  ["a user that is an e-mail address", "https://a@b.org:pw@host/", `https://${R}@host/`],
  ["a password without a user", "redis://:pw@host", `redis://${R}@host`],
  [
    "a token as a user",
    `https://x-access-token:ghs_${ALNUM}@github.com/a`,
    `https://${R}@github.com/a`,
  ],
  ["a password of stars and letters", "PASSWORD=**a", `PASSWORD=${R}`],
  ["an environment", "API_KEY=abc DB_PASSWORD=x", `API_KEY=${R} DB_PASSWORD=${R}`],
  ["AWS in an environment", "AWS_SECRET_ACCESS_KEY=a/b+c", `AWS_SECRET_ACCESS_KEY=${R}`],
  ["a query", "/a?api_key=abc&x=1&access_token=d#e", `/a?api_key=${R}&x=1&access_token=${R}`],
  ["a query that was encoded", "x%26token%3Dabc def", `x%26token%3D${R} def`],
  ["a signed address", "/a?sig=a%2Fb&X-Amz-Signature=9f", `/a?sig=${R}&X-Amz-Signature=${R}`],
  [
    "JSON",
    '{"apiKey":"abc","password":"a b \\" c","x":1}',
    `{"apiKey":"${R}","password":"${R}","x":1}`,
  ],
  ["JSON with spaces", '{ "client_secret" : "abc" }', `{ "client_secret" : "${R}" }`],
  ["JSON in JSON", '{"body":"{\\"token\\":\\"abc\\"}"}', `{"body":"{\\"token\\":\\"${R}\\"}"}`],
  [
    "a password that ends with a backslash",
    '"password":"abc\\\\","x":"y"',
    `"password":"${R}","x":"y"`,
  ],
  ["a quotation that is cut off", 'password: "abc', `password: "${R}`],
  [
    "a quotation that ends with its line",
    "password: 'abc\nnext 'line'",
    `password: '${R}\nnext 'line'`,
  ],
  ["code", "const secret = `abc`; token := 'def'", `const secret = \`${R}\`; token := '${R}'`],
  ["a list of settings", "password: hunter2\ntoken: abc12345", `password: ${R}\ntoken: ${R}`],
  ["a header with a key", "x-api-key: 0a1b2c3d.", `x-api-key: ${R}.`],
  ["an API key in words", "API key: 0a1b2c3d4e", `API key: ${R}`],
  ["a password of digits", "Password: 123456", `Password: ${R}`],
  ["a long token without digits", "token: abcdefghijklmnopQRSTUVWXYZ", `token: ${R}`],
  ["the same secret twice", "token=abc token=abc", `token=${R} token=${R}`],
  ["a private key", `bad ${pem("PRIVATE KEY")} here`, `bad ${R} here`],
  ["a private key of a kind", pem("RSA PRIVATE KEY"), R],
  ["a private key with headers", pem("EC PRIVATE KEY").replace("\n", "\nDEK-Info: AES-128\n\n"), R],
  ["a private key on one line", pem("OPENSSH PRIVATE KEY", "\\n"), R],
  ["a private key of PGP", pem("PGP PRIVATE KEY BLOCK"), R],
  ["a private key that is cut off", `${CUT_OFF}\nand more`, `${R}\nand more`],
  [
    "a private key in JSON",
    JSON.stringify({ private_key: pem("PRIVATE KEY") }),
    `{"private_key":"${R}"}`,
  ],
];

const ORDINARY: readonly string[] = [
  "",
  "the token count is 5",
  "password must not be empty",
  "The password is required. Reset your password: see the manual.",
  "password: required, token: expected string, received undefined",
  "token: 5, tokens: 1234567, max_tokens=4096 maxToken=123456 token=17",
  "Unexpected token: 'export' at line 3",
  `Unexpected token '}', "{"a":}" is not valid JSON`,
  "secret: handshake; the secret of it is patience",
  "if (token === undefined || password == null || secret !== x) return token => 1;",
  "token=undefined&password=null secret=true password=*** token=<token> api_key=$API_KEY",
  "password=${DB_PASSWORD} token: '{{ token }}' secret=%SECRET% token: process.env.TOKEN",
  "nextPageToken=abc123def page_token: 'abc' eos_token='</s>' continuation-token=abc",
  "Token::parse failed in secret::store; vault at secret://app/db2",
  "/home/me/.ssh/id_rsa, C:\\Users\\me\\token.txt, ./secret/keys.json, /run/secrets/db_1",
  "PWD=/home/me/project pwd: ~/x1 secret: /run/secrets/db_password1",
  "commit da39a3ee5e6b4b0d3255bfef95601890afd80709 (tag: v1.2.3)",
  "request 123e4567-e89b-12d3-a456-426614174000 failed",
  "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
  "http://localhost:5173/@vite/client, https://example.com:8443/users/@me?x=a@b.org",
  "ssh://git@github.com:22/x git+ssh://git@github.com:npm/cli.git#v1 mail me@example.com",
  "file:///C:/x/node_modules/@scope/a.js file://C:/x/@scope/b.js http://[::1]:3000/@x",
  "docker://alpine:3.18@sha256:c5b1261d6d3e43071626931fc004f70149baeba2c8ec672bd4f27761f8e1ad6b",
  "mongodb://h1:27017,h2:27017/db is down",
  "Basic authentication is required. Basic configuration. A basic TypeScript error.",
  'WWW-Authenticate: Bearer realm="api", error="invalid_token"',
  "Bearer authentication-is-not-supported here. Authorization: Bearer token is missing.",
  "Authorization: required. Authorization header: Bearer <token>. authorization: Bearer ${TOKEN}",
  "risk-management-of-long-words disk-0123456789abcdef0123 task-1234567890123456",
  "sk-container-id-1 sk-learn-something sk-short",
  "npm_config_registry hf_hub_download global-configuration-of-everything ghp_short",
  "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
  "Expected -----BEGIN PRIVATE KEY----- at the start, got garbage. Check the file.",
  "eyJ is how they begin, eyJhbGciOi too; AKIASHORT, AIzaShort, xoxb-short",
  "secretary: Bob1234 keyboard=abc apikeys=3 passwords=7 tokenizer=bpe1",
  "caf\u00e9 \u{1F600} \ud800 token",
];

describe("removes the secret:", () => {
  test.each(SECRETS)("%s", (_what, text, redacted) => {
    expect(redactSecrets(text)).toBe(redacted);
  });

  test("does not change text that was already redacted", () => {
    for (const [, , redacted] of SECRETS) expect(redactSecrets(redacted)).toBe(redacted);
  });

  test("removes secrets that follow one another in one text", () => {
    const whole = SECRETS.map(([, text]) => text).join("\n\n");
    expect(redactSecrets(whole)).toBe(SECRETS.map(([, , redacted]) => redacted).join("\n\n"));
  });
});

describe("leaves ordinary text unchanged:", () => {
  test.each(ORDINARY)("%s", (text) => {
    expect(redactSecrets(text)).toBe(text);
  });
});

// A backtracking pattern would take hours for each; the test time limit is 30 seconds.
const HOSTILE: readonly (readonly [string, number])[] = [
  ["-----BEGIN PRIVATE KEY-----", 6_000],
  ["-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAA", 6_000],
  ["://", 33_000],
  ["://a:", 10_000],
  ["://a@:", 10_000],
  ["eyJ", 33_000],
  ["eyJaaaaaaaa.", 16_000],
  ["sk-", 10_000],
  ["bearer ", 16_000],
  ["basic ", 16_000],
  ["authorization: ", 6_000],
  ["authorization:", 6_000],
  ['authorization:"', 16_000],
  ["token:", 6_000],
  ["token=", 6_000],
  ['token:"', 16_000],
  ["token:\"<token:'<token:`<", 6_000],
  ['token:\\"<', 16_000],
  ["unexpected token:", 16_000],
  ["\\", 500_000],
  [" ", 100_000],
  ["a", 166_000],
];

test("redacts hostile text in linear time", () => {
  for (const [piece, times] of HOSTILE) {
    const text = piece.repeat(times);
    for (const start of ["", "://", "bearer a", "basic a", 'token: "', "token = ", "sk-", "eyJ"])
      expect(redactSecrets(`${start}${text}`).length).toBeGreaterThan(0);
  }
});
