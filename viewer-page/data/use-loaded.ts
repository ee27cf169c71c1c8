import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { toProblem, type Problem } from "./api.ts";
import { pause } from "./page-clock.ts";

/** Last loaded value and current problem. The value stays during and after a failed reload. */
export interface Loaded<Value> {
  readonly value: Value | undefined;
  readonly problem: Problem | undefined;
}

/**
 * Loads a value when `key` changes, and reloads it when `version` changes. The value of another key
 * is not shown; the value of another version is, until the new one has arrived. With `everyMs` it
 * reloads periodically while the page is visible.
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
  // In a layout effect, so that the request is sent before the page is painted.
  useLayoutEffect(() => {
    const closing = new AbortController();
    const { signal } = closing;
    const loadOnce = async (): Promise<void> => {
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
    const keepLoaded = async (): Promise<void> => {
      await loadOnce();
      if (everyMs === undefined) return;
      while (!signal.aborted) {
        await pause(everyMs, signal);
        if (!document.hidden && !signal.aborted) await loadOnce();
      }
    };
    void keepLoaded();
    return () => closing.abort();
  }, [key, version, everyMs]);
  return loaded.key === key ? loaded : NOTHING;
}

const NOTHING = { value: undefined, problem: undefined };
