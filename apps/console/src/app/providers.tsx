'use client';

import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import dynamic from 'next/dynamic';
import { type ReactNode, useState } from 'react';
import { api } from '~/lib/api/api.ts';
import { createQueryClient } from '~/lib/api/query-client.ts';
import { signedOut } from '~/lib/session.tsx';
import { cssVariablesResolver, theme } from './theme.ts';

// Notifications appear only after an act: no page waits for their code.
const Notifications = dynamic(
  () => import('@mantine/notifications').then((module) => module.Notifications),
  { ssr: false },
);

/** What surrounds every page, the sign-in page too. */
export function Providers({ children }: { children: ReactNode }) {
  const [queryClient] = useState(() => createQueryClient(api, signedOut.raise));
  return (
    <MantineProvider
      theme={theme}
      cssVariablesResolver={cssVariablesResolver}
      defaultColorScheme="auto"
    >
      <QueryClientProvider client={queryClient}>
        {children}
        <Notifications position="bottom-right" limit={4} />
      </QueryClientProvider>
    </MantineProvider>
  );
}
