import { expect, test } from 'vitest';
import { z } from 'zod';
import type { Access } from './access.ts';
import type { ApiContext, CallerUse } from './context.ts';
import { createCallerFactory, router, viewerProcedure } from './trpc.ts';

const VIEWER: Access = {
  principal: 'p',
  name: 'a viewer',
  role: 'viewer',
  namespaces: null,
  droneId: null,
};

test('a read does not begin if its caller left while it waited for its turn', async () => {
  const begun: string[] = [];
  const caller = new AbortController();
  const leavesWhileItWaits: CallerUse['read'] = async (run) => {
    await Promise.resolve();
    caller.abort();
    return run();
  };
  const list = viewerProcedure.input(z.string()).query(({ input }) => begun.push(input));
  const ctx = {
    access: VIEWER,
    use: { read: leavesWhileItWaits },
    services: { datacenters: { peers: [] } },
  } as unknown as ApiContext;
  const api = createCallerFactory(router({ list }))(ctx, { signal: caller.signal });

  await expect(api.list('leases')).rejects.toMatchObject({ cause: { code: 'request.deadline' } });

  expect(begun).toEqual([]);
});
