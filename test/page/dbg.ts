import { chromium } from "playwright-core";
import { asker } from "../viewer/viewer-world.ts";
import { Orchestrator } from "../../src/orchestrator/orchestrator.ts";
import { idOf } from "../../src/protocol/ids.ts";
import { memoryStore } from "../../src/store/memory-store.ts";
import { viewer } from "../../src/viewer/viewer.ts";
const view = await viewer({ port: 0, store: memoryStore(), pageFolder: "dist/viewer" });
const role = asker(["pears"]);
const orchestrator = new Orchestrator({ store: view.store, sinks: [view.sink], roles: [role] });
view.attach(orchestrator);
await orchestrator.start(role, "Buy.", { runId: idOf<"RunId">("order") }).result;
const b = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: ["--no-sandbox", "--headless", "--disable-gpu"],
});
const p = await b.newPage({ viewport: { width: 1440, height: 900 } });
p.on("console", (m) => console.log(m.type(), m.text()));
p.on("pageerror", (e) => console.log("PE", e.stack));
const { origin, hash } = new URL(view.url);
await p.goto(origin + "/r/order" + hash);
await p.locator(".question").waitFor();
await p.screenshot({ path: "/tmp/shots/real1.png" });
await p.keyboard.press("a");
await p.keyboard.press("Enter");
await new Promise((r) => setTimeout(r, 2500));
await p.screenshot({ path: "/tmp/shots/real2.png" });
await p.keyboard.press("Enter");
await new Promise((r) => setTimeout(r, 1500));
await p.screenshot({ path: "/tmp/shots/real3.png" });
await b.close();
await view.close();
