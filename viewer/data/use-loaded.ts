import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { toProblem, type Problem } from "./api.ts";
import { pause } from "./page-clock.ts";

/** What has been loaded so far, and what is wrong. A value stays while it is loaded again, and when that fails. */
export interface Loaded<Value> {
  readonly value: Value | undefined;
  readonly problem: Problem | undefined;
}

/**
 * Loads when `key` is another, and again when `version` is. The value of another key is not shown; that of another version is, until the next
 * one is here. With `everyMs` it is loaded again and again while the page is seen.
 */
export function useLoaded<Value>(
  {
    key,
    version,
    everyMs,
  }: { readonly key: string; readonly version?: string | number; readonly everyMs?: number },
  load: (signal: AbortSignal) => Promise<Value>,
): Loaded<Value> {
  const [loaded, setLoaded] = useState<Loaded<Value> & { readonly key: string }>({
    key,
    ...NOTHING,
  });
  const latest = useRef(load);
  latest.current = load;
  // Asked for before the page is painted: it is here the sooner.
  useLayoutEffect(() => {
    const closing = new AbortController();
    const { signal } = closing;
    const once = async (): Promise<void> => {
      try {
        const value = await latest.current(signal);
        if (!signal.aborted) setLoaded({ key, value, problem: undefined });
      } catch (error) {
        if (signal.aborted) return;
        const problem = toProblem(error);
        setLoaded((before) => ({
          key,
          value: before.key === key ? before.value : undefined,
          problem,
        }));
      }
    };
    const again = async (delayMs: number): Promise<void> => {
      while (!signal.aborted) {
        await pause(delayMs, signal);
        if (!document.hidden && !signal.aborted) await once();
      }
    };
    void once().then(() => (everyMs === undefined ? undefined : again(everyMs)));
    return () => closing.abort();
  }, [key, version, everyMs]);
  return loaded.key === key ? loaded : NOTHING;
}

const NOTHING = { value: undefined, problem: undefined };
