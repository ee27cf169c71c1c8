// Columns of text as lines. Pure: when there is not enough room, columns are narrowed, then left
// out, and no line is ever too wide.

import { displayWidth, fit, type Paint, type Style } from "./terminal-text.ts";

export interface Cell {
  readonly text: string;
  readonly style?: Style;
}

export interface Column {
  readonly title: string;
  readonly cells: readonly Cell[];
  /** Default `left`. */
  readonly align?: "left" | "right";
  /** Kept free even if no cell needs it, so that the columns of a changing table stand still. */
  readonly usualWidth?: number;
  /** It may be narrowed to this. Left out: it may not be narrowed. */
  readonly minWidth?: number;
  /**
   * When there is no room, the column with the highest number is left out first. Left out: it
   * stays.
   */
  readonly rank?: number;
}

const GAP = "  ";

/**
 * A line of titles, and one line for each row; none is wider than `width`. Cells must have no
 * escape sequences.
 */
export function table(columns: readonly Column[], width: number, paint: Paint): readonly string[] {
  const placed = place(columns, width);
  const rows = Math.max(0, ...columns.map((column) => column.cells.length));
  const titles = line(placed, (column) => ({ text: column.title, style: "dim" }), paint);
  const body = Array.from({ length: rows }, (_, row) =>
    line(placed, (column) => column.cells[row] ?? { text: "" }, paint),
  );
  return [titles, ...body];
}

interface PlacedColumn {
  readonly column: Column;
  readonly width: number;
}

function place(columns: readonly Column[], width: number): readonly PlacedColumn[] {
  let kept = columns;
  while (leastWidth(kept) > width) {
    const ranks = kept.map((column) => column.rank ?? 0);
    const highest = Math.max(...ranks);
    if (highest === 0) break;
    const lost = ranks.lastIndexOf(highest);
    kept = kept.filter((_column, index) => index !== lost);
  }
  return widen(kept, width);
}

/**
 * Gives each column its least width, then what is left from left to right; if even that is too
 * much, the last ones get less.
 */
function widen(columns: readonly Column[], width: number): readonly PlacedColumn[] {
  let spare = Math.max(0, width - leastWidth(columns));
  let room = width;
  const placed: PlacedColumn[] = [];
  for (const column of columns) {
    const least = leastOf(column);
    const extra = Math.min(spare, fullOf(column) - least);
    spare -= extra;
    const given = Math.min(least + extra, room);
    if (given <= 0) break;
    room -= given + GAP.length;
    placed.push({ column, width: given });
  }
  return placed;
}

function leastWidth(columns: readonly Column[]): number {
  const cells = columns.reduce((sum, column) => sum + leastOf(column), 0);
  return cells + GAP.length * Math.max(0, columns.length - 1);
}

function leastOf(column: Column): number {
  return Math.min(column.minWidth ?? Infinity, fullOf(column));
}

function fullOf(column: Column): number {
  const widths = column.cells.map((cell) => displayWidth(cell.text));
  return Math.max(displayWidth(column.title), column.usualWidth ?? 0, ...widths);
}

function line(
  placed: readonly PlacedColumn[],
  cellOf: (column: Column) => Cell,
  paint: Paint,
): string {
  let text = "";
  let gap = "";
  for (const { column, width } of placed) {
    const cell = cellOf(column);
    const fitted = fit(cell.text, width);
    const spaces = " ".repeat(width - displayWidth(fitted));
    const painted = cell.style === undefined ? fitted : paint(cell.style, fitted);
    if (fitted === "") {
      gap += spaces + GAP;
    } else if (column.align === "right") {
      text += gap + spaces + painted;
      gap = GAP;
    } else {
      text += gap + painted;
      gap = spaces + GAP;
    }
  }
  return text;
}
