import type { ReactNode } from 'react';
import { Document, siteMetadata, siteViewport } from '../document.tsx';

export const metadata = siteMetadata;
export const viewport = siteViewport;

/** The same for every visitor: it is made once, when the console is built. */
export default function SignInLayout({ children }: { readonly children: ReactNode }) {
  return <Document>{children}</Document>;
}
