import { signal, type Signal } from "@preact/signals";

import type { ViewerAction, ViewerMeta } from "../../src/read-model/viewer-data.ts";

/** Settings of the server. `undefined` until it has answered. */
export const meta: Signal<ViewerMeta | undefined> = signal(undefined);

export function isAllowed(action: ViewerAction): boolean {
  return meta.value?.actions.includes(action) ?? false;
}

export function getContentMode(): ViewerMeta["content"] {
  return meta.value?.content ?? true;
}
