/**
 * What the build has made once for everybody: the sign-in page, the scripts and styles, the icon. Strangers may ask for
 * these as often as they like, so they are served from files, without Next.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import sirv from 'sirv';
import { setStaticPageHeaders } from './documents.ts';

/** Answers a request, if it is for one of these files. @returns whether it was. */
export type ReadyFiles = (
  request: IncomingMessage,
  response: ServerResponse,
  pathname: string,
) => boolean;

const SIGN_IN = '/sign-in';
const ICON = '/icon.svg';
const OF_THE_BUILD = '/_next/';
const STATIC = `${OF_THE_BUILD}static/`;

/** The files of the pages that were built in this folder. */
export function openReadyFiles(folder: string): ReadyFiles {
  const app = path.join(folder, '.next', 'server', 'app');
  const page = readFileSync(path.join(app, 'sign-in.html'));
  const hashes = hashesOfScripts(page.toString());
  const iconFile = path.join(app, 'icon.svg.body');
  const icon = existsSync(iconFile) ? readFileSync(iconFile) : undefined;
  const files = sirv(path.join(folder, '.next', 'static'), {
    etag: true,
    setHeaders: (response) =>
      response.setHeader('cache-control', 'public, max-age=31536000, immutable'),
  });
  return (request, response, pathname) => {
    const isOurs = [SIGN_IN, ICON].includes(pathname) || pathname.startsWith(OF_THE_BUILD);
    if (!isOurs) return false;
    if (!['GET', 'HEAD'].includes(request.method ?? '')) {
      response.writeHead(405, { allow: 'GET, HEAD' }).end();
    } else if (pathname === SIGN_IN) {
      setStaticPageHeaders(response, hashes);
      // Its address may have a one-time link.
      send(request, response, page, {
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-store',
      });
    } else if (pathname === ICON && icon !== undefined) {
      send(request, response, icon, {
        'content-type': 'image/svg+xml',
        'cache-control': 'public, max-age=86400',
      });
    } else if (pathname.startsWith(STATIC)) {
      request.url = request.url?.slice(STATIC.length - 1);
      files(request, response, () => answerMissing(response));
    } else answerMissing(response);
    return true;
  };
}

function send(
  { method }: IncomingMessage,
  response: ServerResponse,
  content: Buffer,
  headers: Record<string, string>,
): void {
  response.writeHead(200, { ...headers, 'content-length': content.byteLength });
  response.end(method === 'HEAD' ? undefined : content);
}

function answerMissing(response: ServerResponse): void {
  response.writeHead(404, { 'content-type': 'text/plain', 'cache-control': 'no-store' });
  response.end('Not found.\n');
}

/** What a content security policy calls the scripts that are written into a page. */
function hashesOfScripts(html: string): string[] {
  const scripts = html.matchAll(/<script(?![^>]*\ssrc=)[^>]*>(?<text>[\s\S]*?)<\/script>/gu);
  return [...scripts].map(
    ({ groups }) =>
      `'sha256-${createHash('sha256')
        .update(groups?.['text'] ?? '')
        .digest('base64')}'`,
  );
}
