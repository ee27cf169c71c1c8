import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

import { freePort } from "./free-port.ts";

const EPHEMERAL_FILE = "/proc/sys/net/ipv4/ip_local_port_range";

test.skipIf(process.platform !== "linux")(
  "gives ports that no outgoing connection can take",
  async () => {
    const [first = 0, last = 0] = readFileSync(EPHEMERAL_FILE, "utf8").split(/\s+/).map(Number);
    const ports = await Promise.all(Array.from({ length: 50 }, () => freePort()));
    expect(ports.filter((port) => port >= first && port <= last)).toEqual([]);
    expect(new Set(ports).size).toBe(50);
  },
);
