/**
 * A program of a drone: a room that echoes. Each answer and each message names its fencing token, which it was started
 * with, so that a judge can tell whose it is. It needs nothing that is not in Node.
 */
import { createHash } from 'node:crypto';
import http from 'node:http';

const { PORT, LEASEHOLD_FENCING_TOKEN: token, LEASEHOLD_BACKEND_ID: backendId } = process.env;
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

const server = http.createServer((request, response) => {
  const { method, url, headers } = request;
  let bytes = 0;
  request.on('data', (piece) => (bytes += piece.length));
  request.on('end', () => {
    response.setHeader('content-type', 'application/json');
    if (url?.startsWith('/stream')) {
      // Until it is closed.
      const timer = setInterval(() => response.write(`${token}\n`), 20);
      response.once('close', () => clearInterval(timer));
    } else response.end(JSON.stringify({ token, backendId, method, url, headers, bytes }));
  });
});

server.on('upgrade', (request, socket) => {
  const accept = createHash('sha1')
    .update(`${request.headers['sec-websocket-key']}${GUID}`)
    .digest('base64');
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
  );
  let rest = Buffer.alloc(0);
  socket.on('data', (piece) => {
    rest = Buffer.concat([rest, piece]);
    for (let frame = frameIn(rest); frame !== undefined; frame = frameIn(rest)) {
      rest = rest.subarray(frame.length);
      if (frame.code === 8) socket.end(frameOf('', 8));
      else if (frame.code === 1) socket.write(frameOf(`${token} ${frame.text}`, 1));
    }
  });
  socket.on('error', () => socket.destroy());
  socket.on('end', () => socket.end());
});

/** The first frame of short text, masked as clients send it; undefined until it is whole. */
function frameIn(data) {
  if (data.length < 6) return undefined;
  const size = data[1] & 0x7f;
  const length = 6 + size;
  if (data.length < length) return undefined;
  const mask = data.subarray(2, 6);
  const text = Buffer.from(data.subarray(6, length).map((byte, at) => byte ^ mask[at % 4]));
  return { code: data[0] & 0x0f, length, text: text.toString() };
}

function frameOf(text, code) {
  const body = Buffer.from(text);
  return Buffer.concat([Buffer.from([0x80 | code, body.length]), body]);
}

server.listen(Number(PORT), '0.0.0.0');
