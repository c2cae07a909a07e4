import type { Metadata } from 'next';
import { FrontGate } from '~/features/access/sign-in-page.tsx';

export const metadata: Metadata = { title: { absolute: 'Sign in · Leasehold' } };
/** Anybody may ask for it as often as they like: nothing is made for a single visitor. */
export const dynamic = 'force-static';

export default function Page() {
  return <FrontGate />;
}
