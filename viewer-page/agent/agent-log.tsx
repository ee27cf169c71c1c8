import { useEffect, useState } from "preact/hooks";

import type { LogEntry } from "../../src/read-model/viewer-data.ts";
import { Pending } from "../app/problem-notice.tsx";
import { api } from "../data/api.ts";
import { useLoaded } from "../data/use-loaded.ts";
import { formatQuantity } from "../../src/read-model/amounts.ts";
import { Block, Line } from "../text/shown-text.tsx";

interface LogProps {
  readonly runId: string;
  readonly agentId: string;
  readonly version: string;
}

export function AgentLog({ runId, agentId, version }: LogProps) {
  const [after, setAfter] = useState("");
  const [before, setBefore] = useState<readonly LogEntry[]>([]);
  useEffect(() => {
    setAfter("");
    setBefore([]);
  }, [runId, agentId]);
  const page = useLoaded({ key: `${runId} ${agentId} ${after}`, version }, (signal) =>
    api.log(runId, { agent: agentId, after }, signal),
  );
  if (page.value === undefined && before.length === 0)
    return <Pending problem={page.problem} rows={6} />;
  const entries = [...before, ...(page.value?.entries ?? [])];
  const next = page.value?.next;
  return (
    <>
      <p class="muted">
        {formatQuantity(entries.length, "event")}
        {next !== undefined && " so far"}
      </p>
      <ol class="log">
        {entries.map(({ record, event }) => (
          <li key={record}>
            <details>
              <summary>
                <span class="muted number">{record}</span> <Line text={String(event["type"])} />
              </summary>
              <Block text={JSON.stringify(event, null, 2)} />
            </details>
          </li>
        ))}
      </ol>
      {next !== undefined && (
        <button
          onClick={() => {
            setBefore(entries);
            setAfter(String(next));
          }}
        >
          More
        </button>
      )}
    </>
  );
}
