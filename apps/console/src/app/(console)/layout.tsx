import { headers } from 'next/headers';
import { redirect } from 'next/navigation';
import type { ReactNode } from 'react';
import type { SessionView } from '@leasehold/api/contract';
import { Document, siteMetadata, siteViewport } from '~/app/document.tsx';
import { ApiError, isSignedOut, toApiError } from '~/lib/api/api.ts';
import { Prefetched, serverApi } from '~/lib/api/prefetch.tsx';
import { routes } from '~/lib/routes.ts';
import { ControllerDown } from '~/ui/fallbacks.tsx';
import { ConsoleFrame } from './console-frame.tsx';

export const metadata = siteMetadata;
export const viewport = siteViewport;

/** Each page is made for its visitor, and its scripts carry the nonce of this one answer. */
export default async function ConsoleLayout({ children }: { children: ReactNode }) {
  return (
    <Document nonce={(await headers()).get('x-nonce') ?? undefined}>
      <SignedIn>{children}</SignedIn>
    </Document>
  );
}

/** Visitors who are not signed in are sent to sign in; everything else is inside the frame. */
async function SignedIn({ children }: { readonly children: ReactNode }) {
  const session = await readSession();
  if (session === 'signed out') {
    redirect(routes.signIn((await headers()).get('x-leasehold-path') ?? undefined));
  }
  if (session instanceof ApiError) {
    const { message, code, incidentId, details } = session;
    return <ControllerDown error={{ message, code, incidentId, details }} />;
  }
  // The input of every list depends on whether there are several datacenters.
  return (
    <Prefetched first={{ group: 'datacenters', procedure: 'list', input: {} }}>
      <ConsoleFrame session={session}>{children}</ConsoleFrame>
    </Prefetched>
  );
}

/** Without the session there is no page: it is waited for longer than for what the browser can ask for again. */
const SESSION_MS_MAX = 10_000;

async function readSession(): Promise<SessionView | ApiError | 'signed out'> {
  try {
    const api = await serverApi(SESSION_MS_MAX);
    return (await api.query('session.get')) as SessionView;
  } catch (error) {
    const failure = toApiError(error);
    if (isSignedOut(failure)) return 'signed out';
    if (failure instanceof ApiError) return failure;
    throw failure;
  }
}
