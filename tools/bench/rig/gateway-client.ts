/**
 * Asks one address as fast as it answers, over connections that are kept: what a browser's requests cost its own
 * processor must not count, so it reads no more of an answer than its length. Each message from its starter begins
 * a round; its report ends it. Ends with the process that started it.
 * Arguments: URL CONNECTIONS MS
 */
import { once } from 'node:events';
import net from 'node:net';
import { quantile } from './rounds.ts';

/** One round. */
export interface RoundReport {
  readonly perSecond: number;
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const [url = '', connections = '', forMs = ''] = process.argv.slice(2);
const { hostname, port, pathname } = new URL(url);
const QUESTION = Buffer.from(`GET ${pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\n\r\n`);
const HEAD_END = Buffer.from('\r\n\r\n');

process.once('disconnect', () => process.exit(0));
process.on('message', () => {
  void round().then((report) => process.send?.(report));
});
process.send?.({});

async function round(): Promise<RoundReport> {
  const tookMs: number[] = [];
  const openings = Array.from({ length: Number(connections) }, () => opened(tookMs));
  const sockets = await Promise.all(openings);
  const startedAtMs = performance.now();
  await Promise.all(sockets.map((ask) => ask(startedAtMs + Number(forMs))));
  const seconds = (performance.now() - startedAtMs) / 1_000;
  const count = tookMs.length;
  return {
    perSecond: count / seconds,
    count,
    p50Ms: quantile(tookMs, 0.5),
    p99Ms: quantile(tookMs, 0.99),
  };
}

/** A connection. @returns asks over it, one question after the other, until a moment, and closes it. */
async function opened(tookMs: number[]): Promise<(untilMs: number) => Promise<void>> {
  const socket = net.connect({ host: hostname, port: Number(port), noDelay: true });
  await once(socket, 'connect');
  return async (untilMs) => {
    let sentAtMs = 0;
    let left = 0;
    const ask = (): void => {
      sentAtMs = performance.now();
      socket.write(QUESTION);
    };
    socket.on('data', (piece) => {
      left = (left === 0 ? lengthOf(piece) : left) - piece.length;
      if (left > 0) return;
      const nowMs = performance.now();
      tookMs.push(nowMs - sentAtMs);
      if (nowMs < untilMs) ask();
      else socket.destroySoon();
    });
    ask();
    await once(socket, 'close');
    if (performance.now() < untilMs) throw new Error(`${url} closes connections`);
  };
}

/** Bytes of the answer that a piece begins. @throws when it is no answer of the program. */
function lengthOf(piece: Buffer): number {
  const end = piece.indexOf(HEAD_END);
  const head = piece.toString('latin1', 0, end);
  const [, length] = /\r\ncontent-length: (\d+)/iu.exec(head) ?? [];
  if (end === -1 || !head.startsWith('HTTP/1.1 200') || length === undefined) {
    throw new Error(`no answer of the program: ${head}`);
  }
  return end + HEAD_END.length + Number(length);
}
