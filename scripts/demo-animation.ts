// Records the demo on a pseudo-terminal and writes it as an animated picture for the home page of the site, beside a still picture of its tree.
// `npm run pictures` calls it. It needs `script` of util-linux.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import xterm, { type IBufferCell, type Terminal } from "@xterm/headless";

const FOLDER = resolve("site/public");
const SHOWN_COMMAND = "npx espalier demo";
/** Stands for the temporary folder. */
const SHOWN_FOLDER = "~/project";
const COLUMNS = 100;
const ROWS = 32;
const MAX_BYTES = 2_000_000;
const MAX_SECONDS = 20;
/** Time for which the last frame stays before the animation starts again. */
const HOLD_SECONDS = 3;
/** Shortest time between two frames. */
const FRAME_SECONDS = 0.1;

const CELL = { width: 8.4, height: 18 };
const MARGIN = 16;
const BAR = 34;
const SIZE = {
  width: Math.ceil(COLUMNS * CELL.width + 2 * MARGIN),
  height: BAR + ROWS * CELL.height + MARGIN,
};
const BACKGROUND = "#0d1512";
const FOREGROUND = "#d6e2da";
/** The 16 colours of a terminal, each with a contrast of at least 4.5 on the background. */
const PALETTE = [
  "#8b9a92 #f87171 #4ade80 #facc15 #7db3fb #e58af0 #4fd1e0 #d6e2da",
  "#a3b1a9 #fca5a5 #86efac #fde047 #a5cafd #f0abfc #8be4ee #ffffff",
].flatMap((row) => row.split(" "));

interface Frame {
  readonly seconds: number;
  /** Every row of the screen as SVG. */
  readonly rows: readonly string[];
}

/** Runs the demo and returns its frames. Each is the screen after a burst of output. */
async function recordDemo(): Promise<readonly Frame[]> {
  const folder = mkdtempSync(join(tmpdir(), "espalier-demo-"));
  cpSync("src", join(folder, "src"), { recursive: true });
  const program = [process.execPath, "--conditions=@espalier/source", "--no-warnings"];
  const command = [...program, resolve("src/cli/main.ts"), "demo", "src"].map(quote).join(" ");
  const child = spawn(
    "script",
    [
      "--quiet",
      "--flush",
      "--return",
      "-c",
      `stty cols ${COLUMNS} rows ${ROWS}; exec ${command}`,
      "/dev/null",
    ],
    {
      cwd: folder,
      env: {
        PATH: process.env["PATH"] ?? "",
        HOME: folder,
        TERM: "xterm-256color",
        SHELL: "/bin/sh",
      },
      stdio: ["pipe", "pipe", "inherit"],
    },
  );
  const terminal = new xterm.Terminal({
    cols: COLUMNS,
    rows: ROWS,
    allowProposedApi: true,
    scrollback: 0,
  });
  const frames: Frame[] = [];
  let startedAtMs: number | undefined;
  try {
    const ended: Promise<readonly unknown[]> = once(child, "close");
    for await (const chunk of child.stdout.setEncoding("utf8")) {
      const nowMs = performance.now();
      startedAtMs ??= nowMs;
      await new Promise<void>((resolveWritten) => {
        terminal.write(String(chunk).replaceAll(folder, SHOWN_FOLDER), resolveWritten);
      });
      frames.push({ seconds: (nowMs - startedAtMs) / 1_000, rows: drawRows(terminal) });
    }
    const [code] = await ended;
    if (code !== 0) throw new Error(`Expected the demo to end with code 0, got ${String(code)}.`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return frames;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function drawRows(terminal: Terminal): readonly string[] {
  const { active } = terminal.buffer;
  return Array.from({ length: ROWS }, (_row, y) => drawRow(terminal, active.viewportY + y));
}

/** Draws the runs of cells that have one style. Blanks between words end a run, so that no font can shift a column. */
function drawRow(terminal: Terminal, y: number): string {
  const line = terminal.buffer.active.getLine(y);
  const runs: { text: string; style: string; start: number; width: number }[] = [];
  for (let x = 0; x < COLUMNS; x += 1) {
    const cell = line?.getCell(x);
    const text = cell?.getChars() ?? "";
    if (cell === undefined || text.trim() === "") continue;
    const style = styleCell(cell);
    const last = runs.at(-1);
    if (last?.style === style && last.start + last.width >= x - 1) {
      last.text += " ".repeat(x - last.start - last.width) + text;
      last.width = x - last.start + cell.getWidth();
    } else runs.push({ text, style, start: x, width: cell.getWidth() });
  }
  return runs
    .map(({ text, style, start, width }) => {
      const place = `x="${round(MARGIN + start * CELL.width)}" textLength="${round(width * CELL.width)}"`;
      return `<text ${place}${style}>${escapeXml(text)}</text>`;
    })
    .join("");
}

function styleCell(cell: IBufferCell): string {
  const color = colorCell(cell);
  return [
    color === FOREGROUND ? "" : ` fill="${color}"`,
    cell.isBold() === 0 ? "" : ' font-weight="700"',
    cell.isDim() === 0 ? "" : ' opacity=".7"',
  ].join("");
}

function colorCell(cell: IBufferCell): string {
  const color = cell.getFgColor();
  if (cell.isFgRGB()) return `#${color.toString(16).padStart(6, "0")}`;
  return (cell.isFgPalette() ? PALETTE[color] : undefined) ?? FOREGROUND;
}

function escapeXml(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000;
}

/** Returns the frames that a viewer can tell apart, in the time of the animation. A longer demo is played faster. */
function thinOut(frames: readonly Frame[]): readonly Frame[] {
  const last = frames.at(-1);
  if (last === undefined) throw new Error("Expected the demo to write to its terminal.");
  const scale = Math.min(1, (MAX_SECONDS - HOLD_SECONDS) / last.seconds);
  const sampled: Frame[] = [];
  for (const { seconds, rows } of frames) {
    const frame = { seconds: seconds * scale, rows };
    const before = sampled.at(-1);
    if (before === undefined || frame.seconds - before.seconds >= FRAME_SECONDS)
      sampled.push(frame);
    else sampled[sampled.length - 1] = { seconds: before.seconds, rows };
  }
  return sampled.filter(
    (frame, index) => frame.rows.join("\n") !== sampled[index - 1]?.rows.join("\n"),
  );
}

/** Draws frames side by side, as a strip of film that moves from one to the next. Equal rows are drawn once. */
function drawAnimation(frames: readonly Frame[]): string {
  const ids = new Map<string, string>();
  const idOf = (row: string): string => {
    const id = ids.get(row) ?? `r${ids.size}`;
    ids.set(row, id);
    return id;
  };
  const strip = frames.map(({ rows }, index) => {
    const uses = rows.flatMap((row, y) =>
      row === "" ? [] : [`<use href="#${idOf(row)}" y="${y * CELL.height}"/>`],
    );
    return `<g transform="translate(${index * SIZE.width})">${uses.join("")}</g>`;
  });
  const total = round((frames.at(-1)?.seconds ?? 0) + HOLD_SECONDS);
  const steps = frames.map(
    ({ seconds }, index) =>
      `${round((seconds / total) * 100)}%{transform:translateX(${-index * SIZE.width}px)}`,
  );
  steps.push(`to{transform:translateX(${-(frames.length - 1) * SIZE.width}px)}`);
  const style = `#strip{animation:play ${total}s step-end infinite}@keyframes play{${steps.join("")}}`;
  const defs = [...ids].map(([row, id]) => `<g id="${id}">${row}</g>`).join("\n");
  return drawWindow(
    `<style>${style}</style><defs>${defs}</defs><g id="strip">${strip.join("\n")}</g>`,
  );
}

function drawStill({ rows }: Frame): string {
  const groups = rows.map((row, y) => `<g transform="translate(0 ${y * CELL.height})">${row}</g>`);
  return drawWindow(groups.join("\n"));
}

function drawWindow(content: string): string {
  const { width, height } = SIZE;
  const dots = [0, 1, 2].map((index) => `<circle cx="${22 + index * 18}" cy="17" r="5"/>`).join("");
  const font = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace";
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="${font}" font-size="14">
<rect width="${width}" height="${height}" rx="8" fill="${BACKGROUND}"/>
<g fill="#35453d">${dots}</g><text x="${width / 2}" y="22" text-anchor="middle" fill="#a3b1a9">${SHOWN_COMMAND}</text>
<svg y="${BAR}" width="${width}" height="${height - BAR}" overflow="hidden"><g transform="translate(0 14)" fill="${FOREGROUND}">
${content}
</g></svg>
</svg>
`;
}

function save(name: string, text: string): void {
  if (text.length > MAX_BYTES)
    throw new Error(`Expected ${name} to have at most ${MAX_BYTES} bytes, got ${text.length}.`);
  writeFileSync(join(FOLDER, name), text);
  console.log(`${join(FOLDER, name)}: ${Math.ceil(text.length / 1_000)} kB`);
}

mkdirSync(FOLDER, { recursive: true });
const frames = thinOut(await recordDemo());
const end = frames.at(-1);
/** The tree at work, with most of its story told. */
const middle = frames[Math.floor((frames.length * 2) / 3)];
if (end !== undefined && middle !== undefined) {
  save("demo.svg", drawAnimation(frames));
  save("demo-still.svg", drawStill(middle));
  console.log(`${frames.length} frames, ${round(end.seconds + HOLD_SECONDS)} s`);
}
