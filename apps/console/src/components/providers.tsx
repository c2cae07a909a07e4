'use client';

import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { NuqsAdapter } from 'nuqs/adapters/next/app';
import dynamic from 'next/dynamic';
import { Suspense, useState, type ReactNode } from 'react';
import { api } from '~/lib/api.ts';
import { createQueryClient } from '~/lib/query-client.ts';
import { signedOut } from '~/lib/signed-out.ts';
import { cssVariablesResolver, theme } from '~/lib/theme.ts';
import { AddressKeeper } from './address-keeper.tsx';

// What was done is said after it was done: nothing of a page waits for it.
const Notifications = dynamic(
  () => import('@mantine/notifications').then((module) => module.Notifications),
  { ssr: false },
);

/** What every page stands in, the sign-in page too. */
export function Providers({ children }: { children: ReactNode }) {
  const [queryClient] = useState(() => createQueryClient(api, signedOut.raise));
  return (
    <MantineProvider
      theme={theme}
      cssVariablesResolver={cssVariablesResolver}
      defaultColorScheme="auto"
    >
      <QueryClientProvider client={queryClient}>
        <NuqsAdapter>
          <Suspense>
            <AddressKeeper />
          </Suspense>
          {children}
          <Notifications position="bottom-right" limit={4} />
        </NuqsAdapter>
      </QueryClientProvider>
    </MantineProvider>
  );
}
