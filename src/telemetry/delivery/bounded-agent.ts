// Connections to a trace endpoint, each of which may be in use for so long and no longer: an endpoint that answers a little at a time
// is never idle, and would keep the process alive for ever.

import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent, type AgentOptions } from "node:https";
import type { Duplex } from "node:stream";

import { idleClock } from "../../kernel/clock.ts";

/** `maxUseMs`: of one request, from its beginning to the end of its answer. Certificates are in `options`. */
export function boundedAgent(
  protocol: string,
  maxUseMs: number,
  options: AgentOptions,
): HttpAgent | HttpsAgent {
  const isPlain = protocol === "http:";
  const agent = isPlain ? new HttpAgent({ keepAlive: true }) : new HttpsAgent(options);
  const timers = new WeakMap<Duplex, () => void>();
  const stop = (socket: Duplex): void => timers.get(socket)?.();
  const start = (socket: Duplex): void => {
    stop(socket);
    timers.set(
      socket,
      idleClock.setTimer(maxUseMs, () => socket.destroy()),
    );
  };

  const createConnection = agent.createConnection.bind(agent);
  const keepSocketAlive = agent.keepSocketAlive.bind(agent);
  const reuseSocket = agent.reuseSocket.bind(agent);
  agent.createConnection = (target, callback) => {
    const socket = createConnection(target, callback);
    if (socket) start(socket.once("close", () => stop(socket)));
    return socket;
  };
  agent.keepSocketAlive = (socket) => {
    stop(socket);
    return keepSocketAlive(socket);
  };
  agent.reuseSocket = (socket, request) => {
    start(socket);
    reuseSocket(socket, request);
  };
  return agent;
}
