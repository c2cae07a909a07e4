import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import sirv from 'sirv';

/** Serves the documentation: files that are the same for everybody, whether they have signed in or not. */
export type Documents = (request: IncomingMessage, response: ServerResponse) => void;

const ROOT = '/docs';
/** Their names change with their content. */
const HASHED = '/assets/';
const HASHED_CACHE = 'public, max-age=31536000, immutable';

/** Whether a path is one of the documentation. */
export function isOfDocuments(pathname: string): boolean {
  return pathname === ROOT || pathname.startsWith(`${ROOT}/`);
}

/** The documentation in a folder: its files are listed once, and nothing beside them can be asked for. */
export function openDocuments(folder: string): Documents {
  if (!existsSync(path.join(folder, 'index.html'))) return answerNotBuilt;
  const missing = readFileSync(path.join(folder, '404.html'));
  const files = sirv(folder, {
    etag: true,
    setHeaders(response, pathname) {
      response.setHeader('cache-control', pathname.startsWith(HASHED) ? HASHED_CACHE : 'no-cache');
    },
  });
  return (request, response) => {
    setDocumentHeaders(response);
    const url = request.url ?? ROOT;
    if (!['GET', 'HEAD'].includes(request.method ?? '')) {
      response.writeHead(405, { allow: 'GET, HEAD' }).end();
    } else if (!url.startsWith(`${ROOT}/`)) {
      // Relative links are below the folder.
      response.writeHead(308, { location: `${ROOT}/${url.slice(ROOT.length)}` }).end();
    } else {
      request.url = url.slice(ROOT.length);
      files(request, response, () => {
        response.writeHead(404, { 'content-type': 'text/html;charset=utf-8' });
        response.end(request.method === 'HEAD' ? undefined : missing);
      });
    }
  };
}

function answerNotBuilt(_request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(404, { 'content-type': 'text/plain' });
  response.end('The documentation is not installed. In a clone, run `npm run build`.\n');
}

const NONCE_BYTES = 16;
const HSTS_SECONDS = 31_536_000;

/**
 * What a page may load and call: this origin alone. Scripts run when they are of this origin, or written into the
 * page and allowed by their hash or by the nonce of this very answer. Styles are also written into elements, as
 * the component library does it; those cannot send anything away.
 */
function contentSecurityPolicy(written: readonly string[] = []): string {
  return [
    "default-src 'self'",
    ["script-src 'self'", ...written].join(' '),
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ');
}

/** The headers of every answer, whichever part makes it. */
export function setCommonHeaders(
  response: ServerResponse,
  { isHttps }: { isHttps: boolean },
): void {
  response.setHeader('x-content-type-options', 'nosniff');
  response.setHeader('referrer-policy', 'same-origin');
  response.setHeader('cross-origin-opener-policy', 'same-origin');
  if (isHttps) response.setHeader('strict-transport-security', `max-age=${String(HSTS_SECONDS)}`);
}

/**
 * The additional headers of a page. Next finds the nonce in the request and puts it on each script
 * that it writes into the page; pages of our own that write one find it in `x-nonce`.
 */
export function setPageHeaders(request: IncomingMessage, response: ServerResponse): void {
  const nonce = randomBytes(NONCE_BYTES).toString('base64');
  const policy = contentSecurityPolicy([`'nonce-${nonce}'`]);
  request.headers['content-security-policy'] = policy;
  request.headers['x-nonce'] = nonce;
  delete request.headers['content-security-policy-report-only'];
  response.setHeader('content-security-policy', policy);
  response.setHeader('x-frame-options', 'DENY');
}

/** The additional headers of a page that is the same for everybody. @param hashes of the scripts in it. */
export function setStaticPageHeaders(response: ServerResponse, hashes: readonly string[]): void {
  response.setHeader('content-security-policy', contentSecurityPolicy(hashes));
  response.setHeader('x-frame-options', 'DENY');
}

/** The additional headers of the documentation: no page of it has a script of its own. */
function setDocumentHeaders(response: ServerResponse): void {
  response.setHeader('content-security-policy', contentSecurityPolicy());
  response.setHeader('x-frame-options', 'DENY');
}
