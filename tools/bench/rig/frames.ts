/** The client of a bare WebSocket server of the benchmarks, over one socket. */
import { once } from 'node:events';
import { WebSocket } from 'ws';
import type { Rig } from './rig.ts';

/** What identifies a call and its answer. */
interface Numbered {
  readonly id: number;
}

/** Sends a call. @returns its answer. */
export type Call<Answer> = (body: object) => Promise<Answer & Numbered>;

/** Calls whose frames hold all calls of a turn, and answers that came together. */
export async function openTurns<Answer>(rig: Rig, url: string): Promise<Call<Answer>> {
  const socket = await openSocket(rig, url);
  const waiting = new Waiting<Answer>();
  let frame: object[] = [];
  socket.on('message', (data: Buffer) => {
    for (const answer of JSON.parse(data.toString()) as (Answer & Numbered)[]) waiting.end(answer);
  });
  return (body) =>
    waiting.begin((id) => {
      if (frame.push({ id, ...body }) > 1) return;
      queueMicrotask(() => {
        socket.send(JSON.stringify(frame));
        frame = [];
      });
    });
}

/** Calls with a frame each. */
export async function openFrames<Answer>(rig: Rig, url: string): Promise<Call<Answer>> {
  const socket = await openSocket(rig, url);
  const waiting = new Waiting<Answer>();
  socket.on('message', (data: Buffer) => {
    waiting.end(JSON.parse(data.toString()) as Answer & Numbered);
  });
  return (body) =>
    waiting.begin((id) => {
      socket.send(JSON.stringify({ id, ...body }));
    });
}

async function openSocket(rig: Rig, url: string): Promise<WebSocket> {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  await once(socket, 'open');
  rig.onClose(() => {
    socket.terminate();
    return Promise.resolve();
  });
  return socket;
}

/** The calls without an answer. */
class Waiting<Answer> {
  readonly #calls = new Map<number, (answer: Answer & Numbered) => void>();
  #lastId = 0;

  begin(send: (id: number) => void): Promise<Answer & Numbered> {
    return new Promise((resolve) => {
      this.#lastId += 1;
      this.#calls.set(this.#lastId, resolve);
      send(this.#lastId);
    });
  }

  end(answer: Answer & Numbered): void {
    this.#calls.get(answer.id)?.(answer);
    this.#calls.delete(answer.id);
  }
}
