/** What an identity provider says at its userinfo endpoint: many name the groups of a person only there. */
import { jsonOf } from '@leasehold/service-kit';

/** For both requests together. */
const ANSWERS_MS_MAX = 5_000;
const ANSWER_BYTES_MAX = 1_024 * 1_024;

type Claims = Readonly<Record<string, unknown>>;

/** Answers that another try would not change: the provider tells nothing there, or not to this client. */
const TELLS_NOTHING: readonly number[] = [401, 403, 404];

/**
 * The claims about the person whom an access token is for; none where the provider tells none: it has no such
 * endpoint, refuses the token there, or signs its answer.
 * @throws {Error} when there is no answer in time, a failure, or an answer about somebody else than `subject`.
 */
export async function readUserinfo(
  issuer: string,
  { accessToken, subject }: { readonly accessToken: string | undefined; readonly subject: string },
): Promise<Claims> {
  const signal = AbortSignal.timeout(ANSWERS_MS_MAX);
  const discovery = await fetch(`${issuer}/.well-known/openid-configuration`, { signal });
  const { userinfo_endpoint: endpoint } = await claimsOf(discovery);
  if (typeof endpoint !== 'string') return {};
  if (accessToken === undefined) throw new Error('The identity provider sent no access token.');
  const authorization = `Bearer ${accessToken}`;
  const answer = await fetch(endpoint, { signal, headers: { authorization } });
  if (TELLS_NOTHING.includes(answer.status) || (answer.ok && isSigned(answer))) {
    await answer.body?.cancel();
    return {};
  }
  const claims = await claimsOf(answer);
  // Else it is of another person's token: so says the standard.
  if (claims['sub'] !== subject) throw new Error('Userinfo is about another subject.');
  return claims;
}

function isSigned({ headers }: Response): boolean {
  return /^application\/jwt\b/iu.test(headers.get('content-type') ?? '');
}

/** @throws {Error} */
async function claimsOf(response: Response): Promise<Claims> {
  const { ok, status, url } = response;
  if (!ok) {
    await response.body?.cancel();
    throw new Error(`${url} answered ${String(status)}.`);
  }
  const value = jsonOf(await boundedText(response));
  if (typeof value !== 'object' || value === null) throw new Error(`${url} answered no object.`);
  return value as Claims;
}

/** @throws {Error} */
async function boundedText({ body, url }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength;
    if (bytes > ANSWER_BYTES_MAX) throw new Error(`The answer of ${url} is too large.`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
