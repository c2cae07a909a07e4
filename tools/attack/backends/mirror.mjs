/** A backend that tells what it was sent, on request also by those before; `/large` never ends. */
import { createServer } from 'node:http';

const seen = [];
const PIECE = Buffer.alloc(65_536, 'x');

const server = createServer((request, response) => {
  const { method, url, headers } = request;
  let bytes = 0;
  request.on('data', (piece) => (bytes += piece.length));
  request.on('error', () => undefined);
  request.on('end', () => {
    if (url === '/seen') response.end(JSON.stringify(seen));
    else if (url === '/large') {
      const write = () => {
        while (!response.destroyed && response.write(PIECE));
      };
      response.on('drain', write).on('error', () => undefined);
      write();
    } else {
      seen.push({ method, url, headers, bytes });
      response.end(JSON.stringify({ method, url, headers, bytes }));
    }
  });
});
// A WebSocket of which nothing is read but its end.
server.on('upgrade', (_request, socket) => {
  socket.write(
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
  );
  socket.resume();
  socket.on('error', () => socket.destroy()).on('end', () => socket.end());
});
server.listen(Number(process.env.PORT));
