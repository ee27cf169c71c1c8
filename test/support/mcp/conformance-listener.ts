// Loaded before the conformance suite (`node --import`): its servers listen on 127.0.0.1 only. They
// read their port at once, which a listener on a named host does not know yet. A listener on an
// existing socket knows it.

import net from "node:net";

const { listen } = net.Server.prototype;
/** Not in the types of node:net. */
const socketOn: unknown = Reflect.get(net, "_createServerHandle");

net.Server.prototype.listen = function (port: unknown, ready: unknown): net.Server {
  if (typeof socketOn !== "function") throw new Error("Expected node:net to make sockets.");
  Reflect.apply(listen, this, [
    Reflect.apply(socketOn, net, ["127.0.0.1", Number(port), 4]),
    ready,
  ]);
  return this;
};
