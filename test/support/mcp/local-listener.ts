// Loaded before the real server over HTTP (`node --import`): it listens on 127.0.0.1 only and
// prints its port.

import { Server } from "node:net";

const { listen } = Server.prototype;

Server.prototype.listen = function (port: unknown, ready: unknown): Server {
  this.once("listening", () => {
    const address = this.address();
    const taken = typeof address === "object" ? address?.port : undefined;
    process.stdout.write(`listening ${taken}\n`);
  });
  Reflect.apply(listen, this, [{ port: Number(port), host: "127.0.0.1" }, ready]);
  return this;
};
