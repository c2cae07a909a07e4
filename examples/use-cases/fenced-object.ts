/** This holder has been replaced: the object has seen a larger token. Nothing was written. */
export class Fenced extends Error {}

/** The header under which the store keeps the token beside the object. */
const TOKEN_HEADER = 'x-amz-meta-fencing-token';

export interface StoredObject {
  readonly body: string;
  /** What the store calls this version. */
  readonly etag: string;
}

/**
 * Shows the token and reads: writes the object back as it is, under the new token, provided that
 * nobody has written it meanwhile. From then on a write of the holder before fails, because its
 * version is not the newest any more.
 * @throws {Fenced}
 */
export async function openObject(url: string, fencingToken: string): Promise<StoredObject> {
  for (;;) {
    const found = await fetch(url);
    if (!found.ok) throw new Error(`${url}: ${String(found.status)}`);
    const seen = BigInt(found.headers.get(TOKEN_HEADER) ?? '0');
    if (seen > BigInt(fencingToken)) throw new Fenced();
    const body = await found.text();
    const etag = await putIfMatch(url, { body, etag: etagOf(found) }, fencingToken);
    if (etag !== undefined) return { body, etag };
    // Somebody wrote in between: look again whose token is the larger one.
  }
}

/** Writes over the version that was opened. @throws {Fenced} */
export async function writeObject(
  url: string,
  next: StoredObject,
  fencingToken: string,
): Promise<StoredObject> {
  const etag = await putIfMatch(url, next, fencingToken);
  if (etag === undefined) throw new Fenced();
  return { body: next.body, etag };
}

async function putIfMatch(
  url: string,
  { body, etag }: StoredObject,
  fencingToken: string,
): Promise<string | undefined> {
  const answer = await fetch(url, {
    method: 'PUT',
    headers: { 'if-match': etag, [TOKEN_HEADER]: fencingToken },
    body,
  });
  // 412 Precondition Failed: it has another version. 409: another write is under way.
  if (answer.status === 412 || answer.status === 409) return undefined;
  if (!answer.ok) throw new Error(`${url}: ${String(answer.status)}`);
  return etagOf(answer);
}

function etagOf(answer: Response): string {
  return answer.headers.get('etag') ?? '';
}
