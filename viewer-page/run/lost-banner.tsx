import type { FollowedRun } from "../data/followed-run.ts";
import { formatMoment } from "../text/relative-time.tsx";
import { nowMs } from "../data/page-clock.ts";
import { useRef } from "preact/hooks";
import { Code, Line } from "../text/shown-text.tsx";

export function LostBanner({ live }: { readonly live: FollowedRun }) {
  const lostAtMs = useRef<number | undefined>(undefined);
  const isLost = live.liveness.value === "lost";
  if (!isLost) lostAtMs.current = undefined;
  else lostAtMs.current ??= nowMs();
  if (!isLost || lostAtMs.current === undefined) return null;
  const problem = live.problem.value;
  return (
    <div class="lost" role="alert">
      <span>
        <b>Connection lost</b> at {formatMoment(lostAtMs.current, nowMs())}. The page shows the last
        known state and reconnects automatically.
      </span>
      {problem !== undefined && problem.code !== "unreachable" && (
        <span>
          <Code text={problem.code} /> <Line text={problem.message} />
        </span>
      )}
      <button class="small" onClick={() => live.retry()}>
        Try now
      </button>
    </div>
  );
}
