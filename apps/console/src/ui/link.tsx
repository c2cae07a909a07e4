import NextLink from 'next/link';
import type { ComponentProps } from 'react';

/**
 * A link to a page of the console, which is fetched when it is followed. Next's own link fetches the
 * page of every visible link: a table of a hundred rows would send a hundred requests, and the stream
 * of events would wait behind them.
 */
export function Link(props: ComponentProps<typeof NextLink>) {
  return <NextLink prefetch={false} {...props} />;
}
