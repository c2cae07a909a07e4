import { ColorSchemeScript, mantineHtmlProps } from '@mantine/core';
import type { Metadata, Viewport } from 'next';
import type { ReactNode } from 'react';
import { Providers } from './providers.tsx';
import '@fontsource/ibm-plex-mono/latin-400.css';
import '@fontsource/ibm-plex-mono/latin-500.css';
import '@fontsource/ibm-plex-sans/latin-400.css';
import '@fontsource/ibm-plex-sans/latin-500.css';
import '@fontsource/ibm-plex-sans/latin-600.css';
import '@mantine/core/styles.layer.css';
import '@mantine/notifications/styles.layer.css';
import './globals.css';

export const siteMetadata: Metadata = {
  title: { default: 'Leasehold', template: '%s · Leasehold' },
  description: 'Who holds this key right now, and for how long may they act as if they do?',
  robots: { index: false, follow: false },
};

export const siteViewport: Viewport = { width: 'device-width', initialScale: 1 };

/** The document around every page. @param nonce - of its scripts, unless the page is the same for everybody. */
export function Document({
  nonce,
  children,
}: {
  readonly nonce?: string | undefined;
  readonly children: ReactNode;
}) {
  return (
    <html lang="en" {...mantineHtmlProps}>
      <head>
        <ColorSchemeScript defaultColorScheme="auto" {...(nonce === undefined ? {} : { nonce })} />
      </head>
      <body>
        <Providers>{children}</Providers>
      </body>
    </html>
  );
}
