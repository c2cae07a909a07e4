'use client';

import { useRouter } from 'next/navigation';
import { useEffect } from 'react';

/** Makes the page again on the server, every so often by itself and when it is called. */
export function useRefresh(everyMs: number): () => void {
  const router = useRouter();
  useEffect(() => {
    const timer = setInterval(() => {
      router.refresh();
    }, everyMs);
    return () => {
      clearInterval(timer);
    };
  }, [router, everyMs]);
  return () => {
    router.refresh();
  };
}
