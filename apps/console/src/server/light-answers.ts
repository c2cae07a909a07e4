/**
 * Answers to the queries of a page, made small: a page asks the same again and again, so it gets what has
 * changed since the answer that it has, and what is still large is compressed. Only for requests with a header
 * that asks for it. A page of another site cannot send that header, so nobody can make a browser ask for answers
 * whose compressed length tells what else is in them. Answers about a session hold a secret and are never
 * compressed.
 */
import { createHash } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { DELTA_TYPE, deltaBetween, HAVE_HEADER, TAG_HEADER } from '../lib/api/json-delta.ts';

/** A larger answer is passed on as it comes. */
const ANSWER_BYTES_MAX = 2 * 1_048_576;
/** What was sent to all pages, to compare with; the oldest is dropped first. */
const KEPT_BYTES_MAX = 32 * 1_048_576;
/** A smaller one fits into one packet as it is. */
const COMPRESSED_FROM_BYTES = 1_024;
/** The answer has the CSRF token of the session. */
const SECRET = '/trpc/session.';

const UNCHANGED = Buffer.from('null');

const compress = promisify(gzip);

/** Whether a page asked for this answer so that it may be made small. */
export function mayBeLight(request: IncomingMessage, answer: IncomingMessage): boolean {
  return (
    request.method === 'GET' &&
    request.headers[HAVE_HEADER] !== undefined &&
    request.url?.startsWith('/trpc/') === true &&
    answer.statusCode === 200 &&
    answer.headers['content-type']?.startsWith('application/json') === true &&
    answer.headers['content-encoding'] === undefined &&
    Number(answer.headers['content-length'] ?? 0) <= ANSWER_BYTES_MAX
  );
}

/** Keeps what was sent, and sends what has changed. */
export class LightAnswers {
  readonly #kept = new Map<string, Buffer>();
  #keptBytes = 0;

  /** Sends an answer that {@link mayBeLight}. @throws when it does not arrive whole. */
  async send(
    request: IncomingMessage,
    answer: IncomingMessage,
    { response, headers }: { response: ServerResponse; headers: OutgoingHttpHeaders },
  ): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of answer) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    const asker = askerOf(request);
    const tag = hashOf(body);
    const have = String(request.headers[HAVE_HEADER]);
    const before = this.#kept.get(asker + have);
    const delta =
      have === tag ? UNCHANGED : before === undefined ? undefined : deltaOf(before, body);
    this.#keep(asker + tag, body);
    const content = delta ?? body;
    const isCompressed = isWorthIt(request, content);
    const sent = isCompressed ? await compress(content) : content;
    response.writeHead(200, {
      ...headers,
      [TAG_HEADER]: tag,
      ...(delta === undefined ? {} : { 'content-type': DELTA_TYPE }),
      ...(isCompressed ? { 'content-encoding': 'gzip' } : {}),
      'content-length': sent.byteLength,
    });
    response.end(sent);
  }

  #keep(key: string, body: Buffer): void {
    const known = this.#kept.get(key);
    this.#kept.delete(key);
    this.#kept.set(key, body);
    this.#keptBytes += body.byteLength - (known?.byteLength ?? 0);
    for (const [oldest, { byteLength }] of this.#kept) {
      if (this.#keptBytes <= KEPT_BYTES_MAX) break;
      this.#kept.delete(oldest);
      this.#keptBytes -= byteLength;
    }
  }
}

/** Undefined where the answer is sent whole: it cannot be compared, or the delta is no shorter. */
function deltaOf(before: Buffer, body: Buffer): Buffer | undefined {
  try {
    const delta = deltaBetween(JSON.parse(before.toString()), JSON.parse(body.toString()));
    const text = Buffer.from(JSON.stringify(delta ?? null));
    return text.byteLength < body.byteLength ? text : undefined;
  } catch {
    // Such as one that is nested very deep.
    return undefined;
  }
}

/** One session, and one question: its answers are compared with each other alone. */
function askerOf({ headers, url }: IncomingMessage): string {
  return hashOf(JSON.stringify([headers.cookie, headers.authorization, url]));
}

function hashOf(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('base64url');
}

function isWorthIt({ headers, url }: IncomingMessage, content: Buffer): boolean {
  return (
    content.byteLength >= COMPRESSED_FROM_BYTES &&
    /\bgzip\b/u.test(String(headers['accept-encoding'])) &&
    url?.startsWith(SECRET) !== true
  );
}
