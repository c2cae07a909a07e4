import type { Metadata } from 'next';
import { redirect } from 'next/navigation';
import { readSignIn } from '~/features/access/sign-in/read-sign-in.ts';
import { safePath } from '~/features/access/sign-in/safe-path.ts';
import { SignInPage } from '~/features/access/sign-in/sign-in-page.tsx';
import { providerErrorText } from '~/features/access/sign-in/sign-in-texts.ts';
import { SignedInElsewhere } from '~/features/access/session/signed-in-elsewhere.tsx';
import { firstOf } from '~/lib/page-params.ts';

export const metadata: Metadata = { title: 'Sign in' };

type Params = Readonly<Record<string, string | string[] | undefined>>;

/** Visitors who are signed in already go on, unless there is a one-time link or an error to show. */
export default async function Page({ searchParams }: { searchParams: Promise<Params> }) {
  const params = await searchParams;
  const next = safePath(one(params['next']));
  const invitation = one(params['invitation']);
  const providerError = providerErrorText(one(params['error']));
  const { isSignedIn, options } = await readSignIn();
  if (isSignedIn && invitation === undefined && providerError === undefined) {
    if (one(params['window']) === '1') return <SignedInElsewhere />;
    redirect(next);
  }
  return (
    <SignInPage
      options={options}
      next={next}
      invitation={invitation}
      isReset={one(params['reset']) === '1'}
      providerError={providerError}
    />
  );
}

/** The value of a parameter; an empty one counts as missing. */
function one(value: string | string[] | undefined): string | undefined {
  const first = firstOf(value);
  return first === '' ? undefined : first;
}
