/**
 * What the gateway is compared with: the proxy library that it uses, with an agent that keeps connections as its does,
 * and nothing else. Argument: the port of the backend. Ends with the process that started it.
 */
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { createProxyServer } from 'httpxy';

process.once('disconnect', () => process.exit(0));
const target = { protocol: 'http:', host: '127.0.0.1', port: Number(process.argv[2]) };
const agent = new http.Agent({ keepAlive: true, maxSockets: 1_024, maxFreeSockets: 256 });
const proxy = createProxyServer();
const server = http.createServer((request, response) => {
  void proxy.web(request, response, { target, agent });
});
server.listen(0, '127.0.0.1', () => {
  process.send?.(`http://127.0.0.1:${String((server.address() as AddressInfo).port)}`);
});
