// Goal: a viewer validates its options and serves its page, port and token as configured.
// Method: viewers with each option, at real ports.

import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { expect } from "vitest";

import { startViewer } from "../../src/viewer-server/viewer.ts";
import { afterwards } from "../harness/afterwards.ts";
import { proves } from "../harness/proves.ts";
import { rejectionOf } from "../support/thrown.ts";
import { ask, askApi, codeOf, placeOf } from "../support/viewer-server/asking.ts";
import { opened, survey } from "../support/viewer-server/viewer-world.ts";

async function folder(): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "espalier-viewer-"));
  afterwards(() => rm(made, { recursive: true, force: true }));
  return made;
}

proves(["V84"], "refuses invalid options", async () => {
  const wrong: readonly (readonly [string, object])[] = [
    ["viewer options.more", { more: 1 }],
    ["viewer options.store", { store: {} }],
    ["viewer options.content", { content: "no" }],
    ["viewer options.content.redact", { content: {} }],
    ["viewer options.content.more", { content: { redact: String, more: 1 } }],
    ["viewer options.actions", { actions: ["fork"] }],
    ["viewer options.actions", { actions: "answer" }],
    ["viewer options.port", { port: -1 }],
    ["viewer options.port", { port: 65_536 }],
    ["viewer options.port", { port: "4983" }],
    ["viewer options.host", { host: "0.0.0.0" }],
    ["viewer options.host", { host: "192.168.0.1" }],
    ["viewer options.host", { host: "127.0.0.1.evil.example" }],
    ["viewer options.authorize", { authorize: true }],
    ["viewer options.jaegerUrl", { jaegerUrl: "javascript:alert(1)" }],
    ["viewer options.clock", { clock: {} }],
  ];
  for (const [field, options] of wrong) {
    const error = await rejectionOf(startViewer({ port: 0, ...options }));
    expect(error, field).toMatchObject({ code: "invalid_argument", data: { field } });
  }
  for (const name of ["storeName", "by", "tokenFile", "pageFolder"])
    expect(await rejectionOf(startViewer({ port: 0, [name]: "" })), name).toMatchObject({
      code: "invalid_argument",
    });
  const view = await opened({});
  for (const prefix of ["espalier", "/espalier/", "/../x", "/a b"])
    expect(() => view.handler(prefix), prefix).toThrow("prefix");
});

proves(
  ["V84"],
  "refuses a port that is taken, picks the next one from 4983 on by default, and returns the address",
  async () => {
    const first = await opened({});
    const { port, hash, hostname } = new URL(first.url);
    expect(hostname).toBe("127.0.0.1");
    expect(hash).toMatch(/^#token=[0-9a-f]{48}$/);
    expect(await rejectionOf(startViewer({ port: Number(port) }))).toMatchObject({
      code: "invalid_argument",
      data: { field: "viewer options.port" },
    });
    const made = await startViewer();
    afterwards(() => made.close());
    expect(Number(new URL(made.url).port)).toBeGreaterThanOrEqual(4_983);
    const another = await startViewer();
    afterwards(() => another.close());
    expect(another.url).not.toBe(made.url);
    await made.close();
    await made.close();
  },
);

proves(
  ["V84"],
  "uses a memory store of its own by default and reports the address of traces",
  async () => {
    const own = placeOf(await opened({ jaegerUrl: "http://localhost:16686" }));
    expect((await askApi(own, "meta")).body).toMatchObject({
      store: "memory",
      jaegerUrl: "http://localhost:16686",
    });
    expect((await askApi(own, "runs")).body).toEqual({ runs: [] });
  },
);

proves(["V85"], "keeps the token in a private file beyond the life of the server", async () => {
  const tokenFile = join(await folder(), "deep", "viewer-token");
  const first = await opened({ tokenFile });
  const { token } = placeOf(first);
  expect(await readFile(tokenFile, "utf8")).toBe(`${token}\n`);
  expect((await stat(tokenFile)).mode & 0o777).toBe(0o600);
  await first.close();
  const second = await opened({ tokenFile });
  expect(placeOf(second).token).toBe(token);
  await chmod(tokenFile, 0o644);
  const third = placeOf(await opened({ tokenFile }));
  expect(third.token).not.toBe(token);
  expect((await stat(tokenFile)).mode & 0o777).toBe(0o600);
  expect((await askApi({ ...third, token }, "meta")).status).toBe(401);
  expect((await askApi(third, "meta")).status).toBe(200);
  for (const text of ["", "short", `${"0".repeat(47)}G`, token.toUpperCase()]) {
    await writeFile(tokenFile, text, { mode: 0o600 });
    expect(placeOf(await opened({ tokenFile })).token, text).toMatch(/^[0-9a-f]{48}$/);
  }
  const error = await rejectionOf(
    startViewer({ port: 0, tokenFile: join(tokenFile, "below", "a-file") }),
  );
  expect(error).toMatchObject({
    code: "invalid_argument",
    data: { field: "viewer options.tokenFile" },
  });
});

proves(
  ["V72", "V86"],
  "serves the files of the page below any path, and explains that the page was not built",
  async () => {
    const pageFolder = await folder();
    const missing = await opened({ pageFolder: join(pageFolder, "nowhere") });
    const unbuilt = await ask(placeOf(missing), "/");
    expect(unbuilt).toMatchObject({
      status: 503,
      headers: { "content-type": "text/plain; charset=utf-8" },
    });
    expect(unbuilt.text).toContain("npm run build");
    const html =
      '<script type="module" crossorigin src="./viewer.js"></script><link rel="stylesheet" href="./viewer.css">';
    await writeFile(join(pageFolder, "index.html"), html);
    await writeFile(join(pageFolder, "viewer.js"), "let a;");
    await writeFile(join(pageFolder, "viewer.css"), "a{}");
    await writeFile(join(pageFolder, "secret"), "no");
    const place = placeOf(await opened({ pageFolder }));
    const page = html.replaceAll('"./viewer', '"/viewer');
    for (const path of ["/", "/?q=1", "/r/a%20b", "/r/x?agent=1", "/questions", "/compare?a=1&b=2"])
      expect(await ask(place, path, { headers: { authorization: undefined } }), path).toMatchObject(
        { status: 200, text: page, headers: { "content-type": "text/html; charset=utf-8" } },
      );
    expect(await ask(place, "/viewer.js")).toMatchObject({
      status: 200,
      text: "let a;",
      headers: { "content-type": "text/javascript; charset=utf-8" },
    });
    expect(await ask(place, "/viewer.css")).toMatchObject({
      status: 200,
      text: "a{}",
      headers: { "content-type": "text/css; charset=utf-8" },
    });
    expect(await ask(place, "/", { method: "HEAD" })).toMatchObject({ status: 200, text: "" });
    expect((await ask(place, "/secret")).status).toBe(404);
    // The page has no icon, which is not an error: the browser's console stays empty.
    expect(await ask(place, "/favicon.ico")).toMatchObject({
      status: 204,
      text: "",
      headers: { "x-content-type-options": "nosniff" },
    });
    for (const path of ["/favicon.ico/x", "/r%2f..%2ffavicon.ico"])
      expect((await ask(place, path)).status, path).toBe(404);
  },
);

proves(
  ["V151", "V152"],
  "inserts the command's name into the page, which browsers but not programs get at unknown paths",
  async () => {
    const pageFolder = await folder();
    const html = (command: string): string => `<meta name="command" content="${command}" />`;
    await writeFile(join(pageFolder, "index.html"), html("espalier"));
    const place = placeOf(await opened({ pageFolder }));
    const headers = { authorization: undefined, accept: "text/html,*/*;q=0.8" };
    for (const [path, status] of [
      ["/", 200],
      ["/x", 404],
      ["/r.html/y", 404],
    ] as const)
      expect(await ask(place, path, { headers }), path).toMatchObject({
        status,
        text: html("npx espalier"),
        headers: { "content-type": "text/html; charset=utf-8" },
      });
    expect(codeOf(await ask(place, "/x"))).toEqual([404, "not_found"]);
    expect(codeOf(await ask(place, "/x", { method: "POST", headers }))).toEqual([404, "not_found"]);
    expect(codeOf(await ask(place, "/api/v1/x", { headers: { accept: "text/html" } }))).toEqual([
      404,
      "not_found",
    ]);
    const unauthorized = await askApi(place, "meta", { headers: { authorization: undefined } });
    expect(unauthorized.body).toMatchObject({
      message:
        "Expected the token of the viewer, got none. Open the `url` of the viewer, or the address of its page with `#token=` and its `token`.",
    });
    const command = `pnpm "a&b" <x$1>`;
    const other = await opened({ pageFolder, command });
    const escaped = "pnpm &quot;a&amp;b&quot; &lt;x$1>";
    expect((await ask(placeOf(other), "/")).text).toBe(html(escaped));
    const { body } = await askApi(placeOf(other), "meta", {
      headers: { authorization: undefined },
    });
    expect(body).toMatchObject({
      message: expect.stringContaining(`\`${command} view --url\``) as unknown,
    });
    const server = createServer(other.handler("/runs"));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    afterwards(() => void server.close());
    const address = server.address();
    const port = typeof address === "object" ? address?.port : undefined;
    for (const path of ["/runs", "/runs/"])
      expect(await ask({ origin: `http://127.0.0.1:${port}`, token: "" }, path)).toMatchObject({
        status: 200,
        text: html(escaped),
      });
  },
);

proves(["V70"], "compresses long responses for clients that accept it", async () => {
  const { Orchestrator } = await import("../../src/orchestrator/orchestrator.ts");
  const view = await opened({});
  const role = survey(30);
  await new Orchestrator({
    store: view.store,
    roles: [role],
    limits: { maxBreadthPerParent: 30 },
  }).start(role, "Survey.", { runId: "wide" }).result;
  const place = placeOf(view);
  const plain = await askApi(place, "runs/wide");
  const packed = await askApi(place, "runs/wide", {
    headers: { "accept-encoding": "br, gzip;q=0.8" },
  });
  expect(packed).toMatchObject({
    body: plain.body,
    headers: { "content-encoding": "gzip", vary: "accept-encoding" },
  });
  expect(packed.bytes).toBeLessThan(plain.bytes / 3);
  const refused = await askApi(place, "runs/wide", { headers: { "accept-encoding": "gzip;q=0" } });
  expect(refused.headers["content-encoding"]).toBeUndefined();
});
