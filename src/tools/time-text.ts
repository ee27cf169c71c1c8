const UNITS = [
  { name: "h", ms: 3_600_000 },
  { name: "min", ms: 60_000 },
  { name: "s", ms: 1_000 },
] as const;

/** A time as a model reads it, exact: `250 ms`, `1.5 s`, `30 s`, `90 s`, `5 min`, `2 h`. */
export function timeText(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  const unit = UNITS.find((unit) => ms % unit.ms === 0);
  return unit === undefined ? `${ms / 1_000} s` : `${ms / unit.ms} ${unit.name}`;
}
