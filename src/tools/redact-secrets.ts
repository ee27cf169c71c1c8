// Removes likely secrets from error messages, before a model reads them or a log stores them. Every
// pattern is bounded, or begins where no other match can be in progress, so that the work is
// linear.

const REDACTED = "[redacted]";

/**
 * Replaces likely secrets by `[redacted]`: keys of well-known providers, JSON web tokens,
 * credentials of `Authorization` headers and of URLs (scheme and host stay), private keys in PEM,
 * and values of names like `api_key`, `password`, `token` and `secret` in queries, JSON and
 * environment form. Other text stays: prose about a password, paths, hashes, ids. This is a
 * heuristic, which misses secrets that look like words. Messages must not contain secrets in the
 * first place.
 */
export function redactSecrets(text: string): string {
  const placed = PASSWORDS_IN_URLS.reduce(
    (rest, pattern) => rest.replace(pattern, `://${REDACTED}@`),
    text,
  );
  const shaped = SECRET_PATTERNS.reduce((rest, pattern) => rest.replace(pattern, REDACTED), placed);
  return redactNamed(shaped.replace(BEARER, redactToken).replace(BASIC, redactPassword));
}

const PASSWORDS_IN_URLS: readonly RegExp[] = [
  // user:password@ in a URL. The user may be an e-mail address. The digest of a container image
  // does not match.
  /:\/\/[^\s/?#:"'`<>\\]{0,256}:[^\s/?#"'`<>\\]{1,512}@(?!sha\d)/g,
  // A URL with `/`, `?` or `#` unescaped in the password. A port and a path do not match.
  /:\/\/[^\s/?#:@"'`<>\\[\]]{0,256}:(?!\d{1,5}[/?#]|\/)[^\s"'`<>\\@]{1,512}@(?!sha\d)/g,
];

/** Secrets with a recognisable form. */
const SECRET_PATTERNS: readonly RegExp[] = [
  // A whole private key, or a truncated one.
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?:[^-]|-(?!----)){0,32768}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?:(?:\s|\\[nr]){1,20}[\w+/=]{16,32768}){1,1000})/g,
  // JSON web tokens. Encrypted ones may have an empty part.
  /(?<![\w-])eyJ[\w-]{8,}(?:\.[\w-]{4,}|\.(?=\.)){1,4}/g,
  // OpenAI, Anthropic, OpenRouter, and providers with the same form.
  /(?<![A-Za-z0-9])sk-(?:(?:proj|svcacct|admin|ant|or|live|test)-[\w-]{8,}|[A-Za-z0-9]{16,}|(?=[A-Za-z_-]{0,200}\d)[\w-]{24,})/g,
  // GitHub, npm, Hugging Face, Groq, Stripe, DigitalOcean, Shopify.
  /(?<![A-Za-z0-9])(?:gh[pousr]|npm|hf|gsk|[sr]k_(?:live|test)|dop_v1|shpat)_[A-Za-z0-9]{16,}/g,
  // GitHub (fine-grained), GitLab, Google.
  /(?<![A-Za-z0-9])(?:github_pat_|glpat-|GOCSPX-|ya29\.|AIza)[\w-]{16,}/g,
  // Slack.
  /(?<![A-Za-z0-9])(?:xox[abeoprs]|xapp)-[\w-]{10,}/g,
  // AWS.
  /(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])/g,
];

const BEARER = /(?<![A-Za-z])(bearer[ \t]{1,4})([\w.~+/-]{16,}=*)/gi;
const BASIC = /(?<![A-Za-z])(basic[ \t]{1,4})([A-Za-z0-9+/]{8,}={0,2})/gi;

/** Redacts a token with a digit. Tokens of this length contain digits, words do not. */
function redactToken(match: string, scheme: string, token: string): string {
  return /\d/.test(token) ? `${scheme}${REDACTED}` : match;
}

/** Redacts encoded credentials, which contain a colon when decoded. Words do not. */
function redactPassword(match: string, scheme: string, encoded: string): string {
  const decoded = Buffer.from(encoded, "base64").toString("utf8");
  const isCredentials = decoded.includes(":") && !/[\p{Cc}\ufffd]/u.test(decoded);
  return isCredentials ? `${scheme}${REDACTED}` : match;
}

/** A name whose value is a secret, with the separator. Any prefix of the name matches. */
const SECRET_NAME =
  /(?<name>(?:api[ _-]?|access[_-]?|account[_-]?|secret[_-]?|private[_-]?)key|secret(?:[_-]?value)?|token|password|passwd|passphrase|pwd|[_-]pass|(?<=[?&-])sig(?:nature)?|authorization)\\{0,3}["']?(?<before>[ \t]{0,4})(?:=(?![=>~])|:=|:(?!:|\/\/)|%3D)(?<after>[ \t]{0,4})/gi;

/** A name, and the text that follows it. */
interface NamedSecret {
  readonly name: string;
  /** `name=value`, as in queries and environments, but not in prose. */
  readonly isTight: boolean;
  /** The text after the name. */
  readonly rest: string;
}

/** The position of the secret in the text after its name. */
interface SecretPlace {
  readonly start: number;
  readonly end: number;
}

function redactNamed(text: string): string {
  const pieces: string[] = [];
  let copiedTo = 0;
  for (const { 0: match, index, groups } of text.matchAll(SECRET_NAME)) {
    if (index < copiedTo) continue;
    const name = groups?.["name"] ?? "";
    const from = index + match.length;
    if (
      name.toLowerCase() === "token" &&
      HARMLESS_TOKEN.test(text.slice(Math.max(0, index - 14), index))
    )
      continue;
    const isTight = groups?.["before"] === "" && groups["after"] === "" && !match.endsWith(":");
    const place = findSecret({ name, isTight, rest: text.slice(from) });
    if (place === undefined) continue;
    pieces.push(text.slice(copiedTo, from + place.start), REDACTED);
    copiedTo = from + place.end;
  }
  return pieces.length === 0 ? text : `${pieces.join("")}${text.slice(copiedTo)}`;
}

/** Tokens of a text or of a list's pages. */
const HARMLESS_TOKEN =
  /(?:unexpected |illegal |page|next|continuation|max|min|bos|eos|pad|sep|cls|unk|mask|stop)[_-]?$/i;

function findSecret(named: NamedSecret): SecretPlace | undefined {
  const opening = /^\\{0,3}["'`]/.exec(named.rest)?.[0] ?? "";
  const end = opening === "" ? undefined : findClosingQuote(named.rest, opening);
  if (named.name.toLowerCase() === "authorization")
    return findCredentials(named, opening.length, end);
  if (end === undefined) return findBareSecret(named);
  const value = named.rest.slice(opening.length, end);
  return value === "" || isHarmless(named.name, value) ? undefined : { start: opening.length, end };
}

/**
 * Returns the end of the quotation that `opening` began: the same quote with the same escapes, or
 * the end of the line.
 */
function findClosingQuote(rest: string, opening: string): number {
  const quote = opening.slice(-1);
  const slashes = opening.length - 1;
  const inner = rest.slice(opening.length);
  for (const { 0: mark, index } of inner.matchAll(/(?<!\\)\\*["'`]|[\r\n]/g)) {
    const before = mark.length - 1;
    const isEscaped = slashes === 0 ? before % 2 === 1 : before > slashes;
    const isClosing = mark.endsWith(quote) && !isEscaped;
    const ownSlashes = Math.max(0, before - slashes);
    if (isClosing || !/["'`]$/.test(mark)) return opening.length + index + ownSlashes;
  }
  return rest.length;
}

/**
 * Only the beginning of a value decides whether it is a secret. Reading each whole value would be
 * unbounded work.
 */
const MAX_CHARACTERS = 512;

/** Returns the position of the credentials after their scheme, which stays. */
function findCredentials(
  named: NamedSecret,
  start: number,
  end: number | undefined,
): SecretPlace | undefined {
  const value = named.rest.slice(start, end);
  const [, scheme = "", token = ""] = CREDENTIALS.exec(value.slice(0, MAX_CHARACTERS)) ?? [];
  if (token === "" || isHarmless("authorization", token)) return undefined;
  if (scheme === "" && !isLikelySecret("authorization", token)) return undefined;
  const [whole = ""] = CREDENTIALS.exec(value) ?? [];
  return { start: start + scheme.length, end: start + whole.length };
}

/** A token, with an optional scheme and spaces before it. */
const CREDENTIALS =
  /^((?:bearer|basic|token|apikey|bot|dpop|negotiate) {1,4})?([^\s"'`,;<>()[\]{}\\]*)/i;

function findBareSecret({ name, isTight, rest }: NamedSecret): SecretPlace | undefined {
  const value = readBareValue(isTight ? rest : rest.slice(0, MAX_CHARACTERS));
  if (value === "" || isHarmless(name, value)) return undefined;
  const isSecret = isTight || isLikelySecret(name, value);
  return isSecret ? { start: 0, end: readBareValue(rest).length } : undefined;
}

/**
 * Returns the text up to a space, a quote, a bracket or a separator, without the punctuation of a
 * sentence.
 */
function readBareValue(rest: string): string {
  const value = /^[^\s"'`,;&<>(){}[\]|\\]*/.exec(rest)?.[0] ?? "";
  return value.replace(/[.:!?]{1,3}$/, "");
}

/** Words and placeholders in the place of a secret. */
const PLACEHOLDER =
  /^(?:\[redacted\]|[*.…•]{1,64}|x{3,64}|<[^>]{0,64}>|\$(?:[A-Z_][A-Z0-9_]{0,64})?|\$?\{{1,2}[^}]{0,64}\}{1,2}|%\w{1,64}%|process\.env\.\w{1,64}|null|nil|none|undefined|true|false|yes|no|string|number|boolean|object|required|optional|missing|invalid|expired|empty|unknown|token|auth|authentication|scheme|header|credentials)$/i;

/** Returns true if the value is harmless, whatever its name. */
function isHarmless(name: string, value: string): boolean {
  if (PLACEHOLDER.test(value)) return true;
  switch (name.toLowerCase()) {
    case "token":
      return /^\d{1,5}$/.test(value); // The token of a parser, or a count.
    case "pwd":
      return /^(?:[/~]|[A-Za-z]:[\\/])/.test(value); // The working directory of a program.
    default:
      return false;
  }
}

/**
 * Returns true for a likely secret among values that could be prose: words contain no digits, and
 * neither paths nor addresses are secrets.
 */
function isLikelySecret(name: string, value: string): boolean {
  if (/^(?:[/~.]|[a-z][\w+.-]{0,30}:\/\/)/i.test(value)) return false;
  const isChosen = /pass|pwd|secret/i.test(name);
  const isMixed = /[a-z]/.test(value) && /[A-Z]/.test(value);
  if (!/\d/.test(value)) return isMixed && value.length >= 24;
  return isChosen ? value.length >= 6 : value.length >= 8 && /[A-Za-z]/.test(value);
}
