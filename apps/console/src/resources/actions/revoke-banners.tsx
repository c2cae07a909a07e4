'use client';

import dynamic from 'next/dynamic';
import { useEffect } from 'react';
import { useSession } from '~/lib/session/session.tsx';
import { useSignal } from '~/lib/use-signal.ts';
import { followed, readFollowed } from './followed-revokes.ts';

const RevokeBannerList = dynamic(
  () => import('./revoke-banner.tsx').then((module) => module.RevokeBannerList),
  { ssr: false },
);

/**
 * The revokes of this tab, each until somebody has seen its end; on every page. Their code is loaded
 * where there are any.
 */
export function RevokeBanners() {
  const revokes = useSignal(followed);
  const { actor } = useSession();
  useEffect(() => {
    readFollowed(actor);
  }, [actor]);
  return revokes.length === 0 ? null : <RevokeBannerList revokes={revokes} />;
}
