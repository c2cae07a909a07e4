import 'server-only';
import type { AppRouter } from '@leasehold/api';
import { createTRPCUntypedClient, httpLink } from '@trpc/client';
import { cookies, headers } from 'next/headers';
import type { ApiClient } from './api.ts';
import { fetchFromController } from './config.ts';

const FROM_THE_SERVER = ['x-forwarded-for', 'leasehold-caller', 'leasehold-console-secret'];
/** For how long a page waits for its first data before it goes without. */
const PREFETCH_MS_MAX = 2_000;

/** A client for the visitor of this page: with their cookie, from their address. */
export async function serverApi(): Promise<ApiClient> {
  const cookie = (await cookies()).toString();
  const given = await headers();
  // Where the visitor comes from, as the console's server has noted it.
  const source = FROM_THE_SERVER.map((name) => [name, given.get(name)] as const).filter(
    (header): header is [string, string] => header[1] !== null,
  );
  return createTRPCUntypedClient<AppRouter>({
    links: [
      httpLink({
        url: '/trpc',
        headers: {
          cookie,
          ...Object.fromEntries(source),
        },
        fetch: (path, init) =>
          fetchFromController(path as string, {
            ...(init as RequestInit),
            cache: 'no-store',
            signal: AbortSignal.timeout(PREFETCH_MS_MAX),
          }),
      }),
    ],
  });
}
