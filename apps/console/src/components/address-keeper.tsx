'use client';

import { useSearchParams } from 'next/navigation';
import { startTransition, useEffect, useState } from 'react';

/**
 * Keeps the page at what the address says. After a reload Next asks the server for each page that
 * Back or Forward leads to; when the next step comes before that answer, Next goes back to the step
 * before it, and leaves the address where it is. Whoever looks would see one list under the address
 * of another, so Next is told the address again.
 */
export function AddressKeeper() {
  const known = useSearchParams().toString();
  const [stepCount, setStepCount] = useState(0);
  useEffect(() => {
    const step = (): void => {
      startTransition(() => {
        setStepCount((count) => count + 1);
      });
    };
    window.addEventListener('popstate', step);
    return () => {
      window.removeEventListener('popstate', step);
    };
  }, []);
  useEffect(() => {
    const { href, search } = window.location;
    // Without a state of its own the entry keeps Next's, and Next reads the address.
    if (new URLSearchParams(search).toString() !== known) {
      window.history.replaceState(null, '', href);
    }
  }, [known, stepCount]);
  return null;
}
