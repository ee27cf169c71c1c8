// Where a request goes, in the parts that `http` takes: taking an address apart costs more than a request's head.

export interface RequestTarget {
  readonly href: string;
  readonly origin: string;
  readonly host: string;
  readonly port: string;
  readonly path: string;
}

export function requestTarget({
  href,
  origin,
  hostname,
  port,
  pathname,
  search,
}: URL): RequestTarget {
  const host = hostname.replace(/^\[|\]$/g, "");
  return { href, origin, host, port, path: `${pathname}${search}` };
}
