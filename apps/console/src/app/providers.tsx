'use client';

import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import dynamic from 'next/dynamic';
import { usePathname, useSearchParams } from 'next/navigation';
import {
  renderQueryString,
  type unstable_AdapterInterface,
  unstable_createAdapterProvider,
} from 'nuqs/adapters/custom';
import { type ReactNode, useEffect, useState } from 'react';
import { api } from '~/lib/api/api.ts';
import { createQueryClient } from '~/lib/api/query-client.ts';
import { signedOut } from '~/lib/session.tsx';
import { cssVariablesResolver, theme } from '~/lib/theme.ts';

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
        <AddressAdapter>
          {children}
          <Notifications position="bottom-right" limit={4} />
        </AddressAdapter>
      </QueryClientProvider>
    </MantineProvider>
  );
}

/** Called when the address of the page that is shown has changed. */
const listeners = new Set<() => void>();

const updateUrl: unstable_AdapterInterface['updateUrl'] = (search, { history, scroll }) => {
  const url = new URL(window.location.href);
  const params = new URLSearchParams(search);
  // How many rows are before a page is of use only with the cursor of that page.
  if (!params.has('after')) params.delete('before');
  url.search = renderQueryString(params);
  // A history entry without a state gets Next's state, and Next then reads the address.
  if (history === 'push') window.history.pushState(null, '', url);
  else window.history.replaceState(null, '', url);
  if (scroll) window.scrollTo(0, 0);
  for (const listener of [...listeners]) listener();
};

/**
 * The parameters of the address, for nuqs. Next reports them too late, or never: after a reload it
 * asks the server for each page that Back or Forward leads to, and if the next step comes before that
 * answer, it returns to the step before, while the address stays where it is. So within a page the
 * address itself is read; Next counts while it leads from one page to another.
 */
function useAddress(): unstable_AdapterInterface {
  const known = useSearchParams();
  const pathname = usePathname();
  const [own, setOwn] = useState<URLSearchParams | null>(null);
  useEffect(() => {
    const read = (): void => {
      const { pathname: path, search } = window.location;
      const params = new URLSearchParams(search);
      setOwn(path !== pathname || params.toString() === known.toString() ? null : params);
    };
    read();
    listeners.add(read);
    window.addEventListener('popstate', read);
    return () => {
      listeners.delete(read);
      window.removeEventListener('popstate', read);
    };
  }, [known, pathname]);
  return { searchParams: own ?? known, updateUrl };
}

/** Gives every `useQueryStates` below it the address; see {@link useAddress}. */
const AddressAdapter = unstable_createAdapterProvider(useAddress);
