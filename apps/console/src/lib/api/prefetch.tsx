import 'server-only';
import { dehydrate } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { query, type Group, type Inputs, type Procedure } from './api.ts';
import { Hydrated } from './hydrated.tsx';
import { createQueryClient } from './query-client.ts';
import { serverApi } from './server-api.ts';

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
  const queryClient = createQueryClient(await serverApi(), () => undefined);
  const { group, procedure, input = null } = first;
  await queryClient
    .query({ ...query(group, procedure, input), retry: false })
    .catch(() => undefined);
  return <Hydrated state={dehydrate(queryClient)}>{children}</Hydrated>;
}
