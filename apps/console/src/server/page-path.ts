import type { IncomingMessage } from 'node:http';

/** The header that gives a page its path: a visitor who has to sign in first comes back to it. */
const HEADER = 'x-leasehold-path';

/** Tells the page its own path and query, in place of what the browser claims. */
export function notePath(request: IncomingMessage): void {
  const [path = '/', query = ''] = (request.url ?? '/').split(/\?(.*)/su, 2);
  const params = new URLSearchParams(query);
  // Next's own mark of a page that is fetched in the background.
  params.delete('_rsc');
  const text = params.toString();
  request.headers[HEADER] = text === '' ? path : `${path}?${text}`;
}
