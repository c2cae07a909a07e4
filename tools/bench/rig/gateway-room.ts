/**
 * A program of a drone that browsers use: answers each request with 1 KB, and accepts WebSockets. Kept warm, it takes
 * its claim. Its answers differ in nothing, so that only what is in front of it does.
 */
import { existsSync, readFileSync, rmSync, watch } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { WebSocketServer } from 'ws';

const BODY = Buffer.alloc(1_024, 'x');

const server = http.createServer((_request, response) => {
  response.writeHead(200, { 'content-type': 'text/plain', 'content-length': BODY.length });
  response.end(BODY);
});
// Longer than any pause of a measurement.
server.keepAliveTimeout = 120_000;
const webSockets = new WebSocketServer({ server, perMessageDeflate: false });
webSockets.on('connection', (socket) => {
  socket.on('error', () => socket.terminate());
});

// All that needs no key comes before it.
const claim = process.env['LEASEHOLD_CLAIM_FILE'];
if (claim !== undefined) {
  await new Promise<void>((resolve) => {
    const look = (): void => {
      if (!existsSync(claim)) return;
      watcher.close();
      resolve();
    };
    const watcher = watch(path.dirname(claim), look);
    look();
  });
  Object.assign(process.env, JSON.parse(readFileSync(claim, 'utf8')));
}
server.listen(Number(process.env['PORT']), '127.0.0.1', () => {
  if (claim !== undefined) rmSync(claim);
});
