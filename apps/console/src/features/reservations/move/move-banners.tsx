import dynamic from 'next/dynamic';
import { useFollowed } from '~/resources/actions/followed.ts';
import { followedMoves } from './followed-moves.ts';

const MoveBannerList = dynamic(
  () => import('./move-banner.tsx').then((module) => module.MoveBannerList),
  { ssr: false },
);

/** The moves of this tab, on every page, each until its end was seen. Loaded only if there are any. */
export function MoveBanners() {
  const moves = useFollowed(followedMoves);
  return moves.length === 0 ? null : <MoveBannerList moves={moves} />;
}
