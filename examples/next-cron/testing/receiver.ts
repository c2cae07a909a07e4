import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

/** What a job told the world outside of the database. */
export interface Notice {
  readonly idempotencyKey: string;
  readonly replica: string;
  readonly dueAtMs: number;
}

/** Stands for a service that jobs tell of their runs. */
export interface Receiver {
  readonly url: string;
  /** In the order in which they came. */
  readonly notices: readonly Notice[];
  /** From now on leaves notices without an answer, until the function that it returns is called. */
  hold(): () => void;
  close(): Promise<unknown>;
}

export async function startReceiver(): Promise<Receiver> {
  const notices: Notice[] = [];
  let opened = Promise.resolve();
  const server = http.createServer((request, response) => {
    const wait = opened;
    void json(request).then(async (body) => {
      const { replica, dueAt } = body as { replica: string; dueAt: string };
      const idempotencyKey = String(request.headers['idempotency-key']);
      notices.push({ idempotencyKey, replica, dueAtMs: Date.parse(dueAt) });
      await wait;
      response.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/`,
    notices,
    hold() {
      let open = (): void => undefined;
      opened = new Promise<void>((resolve) => (open = resolve));
      return () => {
        open();
        opened = Promise.resolve();
      };
    },
    close() {
      server.closeAllConnections();
      server.close();
      return once(server, 'close');
    },
  };
}
