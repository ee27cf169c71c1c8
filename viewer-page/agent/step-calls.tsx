import type { CallDetail, StepDetail } from "../../src/read-model/viewer-data.ts";
import { formatFullCount, formatQuantity } from "../../src/read-model/amounts.ts";
import { indentIfJson } from "../text/json-text.ts";
import { Block } from "../text/shown-text.tsx";
import type { OnRun } from "./agent-link.tsx";
import { CallSummary } from "./agent-steps.tsx";

export function StepCalls({ step, state, route }: OnRun & { readonly step: StepDetail }) {
  if (step.callDetails.length === 0) return null;
  return (
    <section aria-label="Calls">
      <h3>{formatQuantity(step.callDetails.length, "call")}</h3>
      <ol class="call-details">
        {step.callDetails.map((call) => (
          <li key={call.callId}>
            <CallSummary call={call} state={state} route={route} />
            <Block text={indentIfJson(call.argumentsText)} />
            <CallResult call={call} />
          </li>
        ))}
      </ol>
    </section>
  );
}

function CallResult({ call }: { readonly call: CallDetail }) {
  const { result, resultCharacters } = call;
  return (
    <>
      {result !== undefined && (
        <div class="result">
          <p class="message-head">
            <span class="muted">the model reads</span>
            <span class="spacer" />
            <span class="muted">
              {resultCharacters === undefined
                ? formatQuantity(result.length, "character")
                : `${formatFullCount(result.length)} of ${formatFullCount(resultCharacters)} characters`}
            </span>
          </p>
          <Block text={indentIfJson(result)} />
        </div>
      )}
      {call.outcome === "open" && <p class="muted">under way</p>}
    </>
  );
}
