'use client';

import { Title } from '@mantine/core';
import { useSearchParams } from 'next/navigation';
import { SignInForm } from './sign-in-form.tsx';
import classes from './sign-in-page.module.css';

/** The way in. Leads on to where the person wanted to go. */
export function SignInPage() {
  const next = useSearchParams().get('next');
  return (
    <main className={classes['page']}>
      <div className={classes['card']}>
        <Title order={1} size="h4" mb="md">
          Sign in to Leasehold
        </Title>
        <SignInForm
          onSignedIn={() => {
            window.location.assign(safePath(next));
          }}
        />
      </div>
    </main>
  );
}

/** A path of this console, and nothing that leads elsewhere. */
export function safePath(next: string | null): string {
  if (next === null || !next.startsWith('/') || /^\/[/\\]/u.test(next)) return '/';
  return next;
}
