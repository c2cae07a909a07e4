import 'server-only';
import { dehydrate } from '@tanstack/react-query';
import { createTRPCUntypedClient, httpLink } from '@trpc/client';
import { cookies, headers } from 'next/headers';
import { cache, type ReactNode } from 'react';
import type { AppRouter } from '@leasehold/api';
import {
  type ApiClient,
  type Group,
  type Inputs,
  type Outputs,
  type Procedure,
  query,
} from './api.ts';
import { fetchFromController } from './config.ts';
import { Hydrated } from './hydrated.tsx';
import { createQueryClient } from './query-client.ts';

/** One query of a page: the same group, procedure and input as its `useLiveQuery`. */
interface Prefetch<G extends Group, P extends Procedure<G>> {
  readonly group: G;
  readonly procedure: P;
  readonly input?: Inputs[G][P];
}

/**
 * Reads a page's first data on the server, so that it arrives with the page. What cannot be read is
 * left out: the browser asks again and says why.
 */
export async function Prefetched<G extends Group, P extends Procedure<G>>({
  first,
  children,
}: {
  readonly first: Prefetch<G, P>;
  readonly children: ReactNode;
}) {
  const queryClient = createQueryClient(await serverApi());
  const { group, procedure, input = null } = first;
  await queryClient
    .query({ ...query(group, procedure, input), retry: false })
    .catch(() => undefined);
  return <Hydrated state={dehydrate(queryClient)}>{children}</Hydrated>;
}

const FROM_THE_SERVER = ['x-forwarded-for', 'leasehold-caller', 'leasehold-console-secret'];
/** For how long a page waits for its first data before it goes without. */
const PREFETCH_MS_MAX = 2_000;

/** A client for the visitor of this page: with their cookie, from their address. It waits `msMax` for an answer. */
export async function serverApi(msMax = PREFETCH_MS_MAX): Promise<ApiClient> {
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
            signal: AbortSignal.timeout(msMax),
          }),
      }),
    ],
  });
}

/** Whether there are several datacenters, asked once for each page; false if that fails. */
export const isSeveralDatacenters = cache(async (): Promise<boolean> => {
  try {
    const api = await serverApi();
    const { items } = (await api.query('datacenters.list', {})) as Outputs['datacenters']['list'];
    return items.length > 1;
  } catch {
    return false;
  }
});
