'use client';

import dynamic from 'next/dynamic';
import { useEffect } from 'react';
import { useSession } from '~/lib/session/session.tsx';
import { useSignal } from '~/lib/use-signal.ts';
import { followedMoves, readFollowedMoves } from './followed-moves.ts';

const MoveBannerList = dynamic(
  () => import('./move-banner.tsx').then((module) => module.MoveBannerList),
  { ssr: false },
);

/** The moves of this tab, each until its end was seen; on every page. Loaded where there are any. */
export function MoveBanners() {
  const moves = useSignal(followedMoves);
  const { actor } = useSession();
  useEffect(() => {
    readFollowedMoves(actor);
  }, [actor]);
  return moves.length === 0 ? null : <MoveBannerList moves={moves} />;
}
