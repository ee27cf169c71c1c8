import type { ComponentChildren } from "preact";

/** A list of names with their values. A fact without a value is left out. */
export function Facts({
  facts,
}: {
  readonly facts: readonly (readonly [name: string, value: ComponentChildren] | undefined)[];
}) {
  return (
    <dl class="facts">
      {facts.map((fact) => {
        if (fact === undefined) return null;
        const [name, value] = fact;
        if (value === undefined || value === null || value === "") return null;
        return (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        );
      })}
    </dl>
  );
}
