import { createTRPCClient, createWSClient, wsLink } from '@trpc/client';
import { WebSocket } from 'ws';
import { startChild } from '../rig/child.ts';
import type { InsertRouter } from '../rig/insert-server.ts';
import type { Rig } from '../rig/rig.ts';
import type { LockService } from './lock-service.ts';

/**
 * Two calls that each insert one row, in place of an acquire and a release: no lock, but the same hops
 * through the same libraries, and as many commits. What is slower than this is due to leases, the rest
 * to the way.
 */
export async function openInsertCalls(rig: Rig): Promise<Pick<LockService, 'name' | 'take'>> {
  const { url } = await rig.database('bench_insert_calls');
  const server = await startChild<string>('insert-server', [url]);
  rig.onClose(() => server.stop());
  const socket = createWSClient({
    url: `${server.ready.replace(/^http/u, 'ws')}/trpc`,
    WebSocket: WebSocket as unknown as typeof globalThis.WebSocket,
  });
  rig.onClose(() => socket.close());
  const client = createTRPCClient<InsertRouter>({ links: [wsLink({ client: socket })] });
  return {
    name: 'two calls that insert a row',
    async take() {
      await client.insert.mutate();
      return { release: () => client.insert.mutate() };
    },
  };
}
