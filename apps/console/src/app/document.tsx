import { ColorSchemeScript, mantineHtmlProps } from '@mantine/core';
import type { Metadata, Viewport } from 'next';
import localFont from 'next/font/local';
import type { ReactNode } from 'react';
import { Providers } from './providers.tsx';
import '@mantine/core/styles.layer.css';
import '@mantine/notifications/styles.layer.css';
import './globals.css';

// Asked for with the page, and as wide as what stands in for them: nothing moves when they are there.
const sans = localFont({
  src: [
    {
      path: '../../../../node_modules/@fontsource/ibm-plex-sans/files/ibm-plex-sans-latin-400-normal.woff2',
      weight: '400',
    },
    {
      path: '../../../../node_modules/@fontsource/ibm-plex-sans/files/ibm-plex-sans-latin-500-normal.woff2',
      weight: '500',
    },
    {
      path: '../../../../node_modules/@fontsource/ibm-plex-sans/files/ibm-plex-sans-latin-600-normal.woff2',
      weight: '600',
    },
  ],
  variable: '--font-sans',
  fallback: ['system-ui', 'sans-serif'],
});
const mono = localFont({
  src: [
    {
      path: '../../../../node_modules/@fontsource/ibm-plex-mono/files/ibm-plex-mono-latin-400-normal.woff2',
      weight: '400',
    },
    {
      path: '../../../../node_modules/@fontsource/ibm-plex-mono/files/ibm-plex-mono-latin-500-normal.woff2',
      weight: '500',
    },
  ],
  variable: '--font-mono',
  fallback: ['ui-monospace', 'monospace'],
  adjustFontFallback: false,
});

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
    <html lang="en" className={`${sans.variable} ${mono.variable}`} {...mantineHtmlProps}>
      <head>
        <ColorSchemeScript defaultColorScheme="auto" {...(nonce === undefined ? {} : { nonce })} />
      </head>
      <body>
        <Providers>{children}</Providers>
      </body>
    </html>
  );
}
