import type { ComponentChildren } from "preact";

import { navigate, formatHref, type Route } from "./route.ts";

interface LinkProps {
  readonly to: Route;
  readonly class?: string;
  readonly step?: string;
  readonly children: ComponentChildren;
}

/** A link within the page. With a modifier key the browser handles it like any other link. */
export function Link({ to, step, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent): void => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
      return;
    event.preventDefault();
    navigate(to);
  };
  return (
    <a href={formatHref(to)} class={rest.class} data-step={step} onClick={follow}>
      {children}
    </a>
  );
}
