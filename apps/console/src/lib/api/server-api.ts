import 'server-only';
import type { AppRouter } from '@leasehold/api';
import { createTRPCUntypedClient, httpLink } from '@trpc/client';
import { cookies, headers } from 'next/headers';
import type { ApiClient } from './api.ts';
import { fetchFromController } from './config.ts';

/** For how long a page waits for its first data before it goes without. */
const PREFETCH_MS_MAX = 2_000;

/** A client for the visitor of this page: with their cookie, from their address. */
export async function serverApi(): Promise<ApiClient> {
  const cookie = (await cookies()).toString();
  const forwardedFor = (await headers()).get('x-forwarded-for');
  return createTRPCUntypedClient<AppRouter>({
    links: [
      httpLink({
        url: '/trpc',
        headers: {
          cookie,
          ...(forwardedFor === null ? {} : { 'x-forwarded-for': forwardedFor }),
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
