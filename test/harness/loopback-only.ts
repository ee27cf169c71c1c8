// Prevents tests from reaching another machine (R25). Loaded into every test process, and by
// `NODE_OPTIONS` into every Node process that a test starts.

import { subscribe } from "node:diagnostics_channel";
import { isIPv4, Socket } from "node:net";

/** Ends every connection to another machine and reports its name or address. */
export function keepToLoopback(report: (host: string) => void): void {
  subscribe("net.client.socket", (message) => {
    const socket = socketOf(message);
    const refuse = (host: string): void => {
      if (isLoopback(host)) return;
      report(host);
      const error = new Error(`Expected a test to keep to this machine, got ${host}.`);
      process.nextTick(() => socket.destroy(error)); // node:net is still processing the attempt.
    };
    socket.on("lookup", (_error, _address, _family, host) => refuse(host));
    socket.on("connectionAttempt", (address) => refuse(address));
  });
}

function isLoopback(host: string): boolean {
  const address = host.replace(/^::ffff:/, "");
  return host === "localhost" || host === "::1" || (isIPv4(address) && address.startsWith("127."));
}

function socketOf(message: unknown): Socket {
  if (typeof message === "object" && message !== null && "socket" in message) {
    if (message.socket instanceof Socket) return message.socket;
  }
  throw new Error("Expected node:net to publish its sockets.");
}
