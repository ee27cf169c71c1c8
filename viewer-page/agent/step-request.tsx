import { useState } from "preact/hooks";

import type { Message } from "../../src/protocol/message.ts";
import type { ShownMessage, StepDetail } from "../../src/read-model/viewer-data.ts";
import type { RunRoute } from "../app/route.ts";
import { api } from "../data/api.ts";
import { useLoaded } from "../data/use-loaded.ts";
import { formatQuantity } from "../../src/read-model/amounts.ts";
import { indentIfJson } from "../text/json-text.ts";
import { Block, Code, Line, Words } from "../text/shown-text.tsx";
import { Changes } from "../text/text-changes.tsx";

interface RequestProps {
  readonly request: NonNullable<StepDetail["request"]>;
  readonly step: StepDetail;
  readonly route: RunRoute;
  readonly isWhole: boolean;
  readonly onWhole: (isWhole: boolean) => void;
}

export function StepRequest({ request, step, route, isWhole, onWhole }: RequestProps) {
  const { messages, sameAsBefore } = request;
  const isFirst = step.number === 1;
  const from = isFirst || isWhole ? 0 : sameAsBefore;
  const before = useBefore(step, route, !isFirst && !isWhole && sameAsBefore < messages.length);
  return (
    <section aria-label="Request">
      <h3 class="with-choice">
        <span>
          Request <span class="muted">{formatQuantity(messages.length, "message")}</span>
        </span>
        {!isFirst && (
          <span class="choice" role="group" aria-label="Part of the request to show">
            <button aria-pressed={!isWhole} onClick={() => onWhole(false)}>
              Changed since step {step.number - 1}
            </button>
            <button aria-pressed={isWhole} onClick={() => onWhole(true)}>
              Whole <kbd>w</kbd>
            </button>
          </span>
        )}
      </h3>
      {from > 0 && (
        <button class="more" onClick={() => onWhole(true)}>
          {formatQuantity(from, "message")} as in step {step.number - 1}: show
        </button>
      )}
      {before !== undefined && before.length > sameAsBefore && (
        <p class="muted">
          {formatQuantity(before.length - sameAsBefore, "message")} of step {step.number - 1}{" "}
          changed or were dropped.
        </p>
      )}
      <ol class="messages" start={from + 1}>
        {messages.slice(from).map((shown, place) => (
          <MessageItem
            key={from + place}
            shown={shown}
            number={from + place + 1}
            before={before?.[from + place]}
          />
        ))}
      </ol>
    </section>
  );
}

function useBefore(
  step: StepDetail,
  route: RunRoute,
  isWanted: boolean,
): readonly ShownMessage[] | undefined {
  const place = {
    runId: route.runId,
    agentId: step.agentId,
    step: step.number - 1,
    execution: route.execution,
  };
  const loaded = useLoaded({ key: isWanted ? JSON.stringify(place) : "" }, async (signal) =>
    isWanted ? await api.step(place, signal) : undefined,
  );
  return loaded.value?.request?.messages;
}

interface ItemProps {
  readonly shown: ShownMessage;
  readonly number: number;
  readonly before: ShownMessage | undefined;
}

function MessageItem({ shown: { message, from }, number, before }: ItemProps) {
  const old =
    before !== undefined && before.message.role === message.role ? before.message.text : undefined;
  const isChanged = old !== undefined && old !== message.text;
  const [hasChanges, setHasChanges] = useState(true);
  return (
    <li class={`message is-${message.role}`}>
      <p class="message-head">
        <span class="muted number">{number}</span>
        <b>{message.role}</b>
        <span class="muted">
          <Line text={showOrigin(message)} />
        </span>
        {from !== undefined && (
          <span class="inherited">
            inherited from <Line text={from} />
          </span>
        )}
        <span class="spacer" />
        <span class="muted">{formatQuantity(message.text.length, "character")}</span>
        {isChanged && (
          <button
            class="small"
            aria-pressed={hasChanges}
            onClick={() => setHasChanges(!hasChanges)}
          >
            changes
          </button>
        )}
      </p>
      {isChanged && hasChanges ? (
        <Changes from={old} to={message.text} />
      ) : (
        message.text !== "" && <Said message={message} />
      )}
      {message.role === "assistant" &&
        message.toolCalls.map((call) => (
          <div key={call.callId} class="asked">
            <p>
              <span class="muted">calls</span> <Code text={call.toolName} />
            </p>
            <Block text={indentIfJson(call.argumentsText)} />
          </div>
        ))}
      <Attachments message={message} />
    </li>
  );
}

function showOrigin(message: Message): string {
  if (message.role === "system" || message.role === "user") return message.origin;
  return message.role === "tool" ? message.toolName : "";
}

function Said({ message: { role, text } }: { readonly message: Message }) {
  return role === "tool" ? <Block text={indentIfJson(text)} /> : <Words text={text} />;
}

function Attachments({ message }: { readonly message: Message }) {
  const parts =
    "content" in message ? (message.content ?? []).filter(({ type }) => type !== "text") : [];
  if (parts.length === 0) return null;
  return (
    <p class="muted">with {parts.map(({ type }) => type).join(", ")}, which is not shown here</p>
  );
}
