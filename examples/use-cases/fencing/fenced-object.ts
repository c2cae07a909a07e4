import { setTimeout as pause } from 'node:timers/promises';

/** How often a write is sent while another one is under way, with longer and longer pauses. */
const WRITE_TRIES_MAX = 5;
const PAUSE_MS = 20;

/** This holder has been replaced: the object has seen a larger token. Nothing was written. */
export class Fenced extends Error {}

/** The object's body, as JSON. It contains the token, so the token is part of the version. */
interface Kept {
  readonly fencingToken: string;
  readonly value: string;
}

export interface OpenedObject {
  readonly value: string;
  /** The store's name for this version: in many stores, a hash of the body. */
  readonly etag: string;
}

/**
 * Shows the token and reads: writes the value back unchanged with the new token, if nobody has
 * written in between. After this a write of the former holder fails, because its version is not the
 * newest any more.
 * @throws {Fenced}
 */
export async function openObject(url: string, fencingToken: string): Promise<OpenedObject> {
  for (;;) {
    const found = await fetch(url);
    if (!found.ok) throw new Error(`${url}: ${String(found.status)}`);
    const kept = (await found.json()) as Kept;
    if (BigInt(kept.fencingToken) > BigInt(fencingToken)) throw new Fenced();
    const { value } = kept;
    const etag = await putIfMatch(url, etagOf(found), { fencingToken, value });
    if (etag !== undefined) return { value, etag };
    // Somebody wrote in between: read again, and compare tokens again.
  }
}

/** Writes over the version that was opened, or written last. @throws {Fenced} */
export async function writeObject(
  url: string,
  { value, etag }: OpenedObject,
  fencingToken: string,
): Promise<OpenedObject> {
  const next = await putIfMatch(url, etag, { fencingToken, value });
  if (next === undefined) throw new Fenced();
  return { value, etag: next };
}

/** @returns the new version; undefined if the object has another one than `etag`. */
async function putIfMatch(url: string, etag: string, kept: Kept): Promise<string | undefined> {
  for (let tries = 1; ; tries += 1) {
    const answer = await fetch(url, {
      method: 'PUT',
      headers: { 'if-match': etag, 'content-type': 'application/json' },
      body: JSON.stringify(kept),
    });
    // Precondition Failed: somebody has written.
    if (answer.status === 412) return undefined;
    if (answer.ok) return etagOf(answer);
    // Conflict: another write is under way, which may fail. Nothing was written.
    const mayRepeat = answer.status === 409 && tries < WRITE_TRIES_MAX;
    if (!mayRepeat) throw new Error(`${url}: ${String(answer.status)}`);
    await pause(PAUSE_MS * tries);
  }
}

function etagOf(answer: Response): string {
  const etag = answer.headers.get('etag');
  if (etag === null) throw new Error('This store has no versions to compare.');
  return etag;
}
