import dynamic from 'next/dynamic';
import { followedRevokes } from './followed-revokes.ts';
import { useFollowed } from '../followed.ts';

const RevokeBannerList = dynamic(
  () => import('./revoke-banner.tsx').then((module) => module.RevokeBannerList),
  { ssr: false },
);

/** The revokes of this tab, on every page, each until its end was seen. Loaded only if there are any. */
export function RevokeBanners() {
  const revokes = useFollowed(followedRevokes);
  return revokes.length === 0 ? null : <RevokeBannerList revokes={revokes} />;
}
