/**
 * The floor of a call that changes nothing: a bare `ws` server, in a process of its own, that sends each frame back
 * as it came. It uses nothing of Leasehold. Ends with the process that started it.
 */
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';

process.once('disconnect', () => process.exit(0));
const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
server.on('connection', (socket) => {
  socket.on('message', (frame, isBinary) => {
    socket.send(frame, { binary: isBinary });
  });
});
server.on('listening', () => {
  process.send?.(`ws://127.0.0.1:${String((server.address() as AddressInfo).port)}`);
});
