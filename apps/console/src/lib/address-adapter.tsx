import { usePathname, useSearchParams } from 'next/navigation';
import {
  renderQueryString,
  unstable_createAdapterProvider,
  type unstable_AdapterInterface,
} from 'nuqs/adapters/custom';
import { useEffect, useState } from 'react';

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
export const AddressAdapter = unstable_createAdapterProvider(useAddress);
