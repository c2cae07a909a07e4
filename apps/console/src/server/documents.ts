import { existsSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import sirv from 'sirv';
import { setDocumentHeaders } from './security-headers.ts';

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
