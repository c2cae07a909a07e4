import type { IncomingMessage } from 'node:http';

/** Where a page learns which one it is: a visitor who has to sign in first comes back to it. */
const HEADER = 'x-leasehold-path';

/** Tells the page its own path and query, in place of whatever the browser said of them. */
export function notePath(request: IncomingMessage): void {
  const [path = '/', query = ''] = (request.url ?? '/').split(/\?(.*)/su, 2);
  const params = new URLSearchParams(query);
  // Next's own mark of a page that is fetched in the background.
  params.delete('_rsc');
  const text = params.toString();
  request.headers[HEADER] = text === '' ? path : `${path}?${text}`;
}
