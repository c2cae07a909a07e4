import type { ReactNode } from 'react';
import { EmptyState } from './empty-state.tsx';

/** In place of a page that the person's role may not see: why not, and what they can do about it. */
export function NotAllowed({
  whyNot,
  children,
}: {
  readonly whyNot: string;
  readonly children: ReactNode;
}) {
  return (
    <EmptyState title={whyNot}>
      {children} An administrator can change your role on the page Access.
    </EmptyState>
  );
}
