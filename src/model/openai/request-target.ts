// Where a request goes, in the parts that `http` takes: taking an address apart costs more than a request's head.

export interface RequestTarget {
  readonly href: string;
  readonly origin: string;
  readonly host: string;
  /** As the header `host` has it. */
  readonly authority: string;
  readonly port: string;
  readonly path: string;
}

export function requestTarget({
  href,
  origin,
  hostname,
  host: authority,
  port,
  pathname,
  search,
}: URL): RequestTarget {
  const host = hostname.replace(/^\[|\]$/g, "");
  return { href, origin, host, authority, port, path: `${pathname}${search}` };
}
