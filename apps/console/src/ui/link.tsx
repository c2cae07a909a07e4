import NextLink from 'next/link';
import type { ComponentProps } from 'react';

/**
 * A link to a page of the console, which is fetched when it is followed. Next's own asks for each
 * page that a link in sight leads to: a table of a hundred rows would be a hundred requests, and the
 * stream of events would stand in line behind them.
 */
export function Link(props: ComponentProps<typeof NextLink>) {
  return <NextLink prefetch={false} {...props} />;
}
