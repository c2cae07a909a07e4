import type { IncomingMessage } from 'node:http';

/** The header that gives a page its path: a visitor who has to sign in first comes back to it. */
const PATH_HEADER = 'x-leasehold-path';

/** The path and query of a page, without Next's own mark of a page that is fetched in the background. */
export function pathOfPage(request: IncomingMessage): string {
  const [path = '/', query = ''] = (request.url ?? '/').split(/\?(.*)/su, 2);
  const params = new URLSearchParams(query);
  params.delete('_rsc');
  const text = params.toString();
  return text === '' ? path : `${path}?${text}`;
}

/** Tells the page its own path and query, in place of what the browser claims. */
export function notePath(request: IncomingMessage): void {
  request.headers[PATH_HEADER] = pathOfPage(request);
}
