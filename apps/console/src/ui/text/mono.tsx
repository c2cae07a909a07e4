import type { ReactNode } from 'react';

/** Ids, tokens and times. */
export function Mono({
  children,
  title,
}: {
  readonly children: ReactNode;
  readonly title?: string;
}) {
  return (
    <span className="mono" title={title}>
      {children}
    </span>
  );
}
