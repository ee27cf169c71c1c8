// A TCP balancer: one address for several workers.

import { connect, createServer, type AddressInfo, type Socket } from "node:net";

import { afterwards } from "../harness/afterwards.ts";

/**
 * Distributes connections over the ports in turn, and resolves with its own port. Closes after the
 * test.
 */
export async function balancer(ports: readonly number[]): Promise<number> {
  let count = 0;
  const open = new Set<Socket>();
  /**
   * `turn` is the first port to try. Each connection tries all ports, whatever other connections
   * do.
   */
  const join = (client: Socket, turn: number, attemptsLeft: number): void => {
    const port = ports[turn % ports.length] ?? 0;
    const worker = connect(port, "127.0.0.1");
    open.add(worker);
    let isConnected = false;
    worker.once("connect", () => {
      isConnected = true;
      client.pipe(worker).pipe(client);
    });
    worker.on("error", () => undefined);
    worker.once("close", () => {
      open.delete(worker);
      if (!isConnected && attemptsLeft > 0) join(client, turn + 1, attemptsLeft - 1);
      else client.destroy();
    });
    client.once("close", () => worker.destroy());
  };
  const server = createServer((client) => {
    open.add(client);
    client.on("error", () => undefined).once("close", () => open.delete(client));
    join(client, count, ports.length - 1);
    count += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterwards(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of open) socket.destroy();
    await closed;
  });
  const address: string | AddressInfo | null = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}
