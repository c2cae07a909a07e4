import { useRouter } from 'next/navigation';
import { useEffect } from 'react';

/** Renders the page again on the server, regularly and when it is called. */
export function useRefresh(everyMs: number): () => void {
  const router = useRouter();
  useEffect(() => {
    const timer = setInterval(() => router.refresh(), everyMs);
    return () => clearInterval(timer);
  }, [router, everyMs]);
  return () => router.refresh();
}
