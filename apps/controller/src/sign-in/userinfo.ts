/** What an identity provider says at its userinfo endpoint: many name the groups of a person only there. */
import { jsonOf } from '@leasehold/service-kit';

/** For both requests together. */
const ANSWERS_MS_MAX = 5_000;
const ANSWER_BYTES_MAX = 1_024 * 1_024;

type Claims = Readonly<Record<string, unknown>>;

/**
 * The claims about the person whom an access token is for; none where the provider has no such endpoint.
 * @throws {Error} when there is no usable answer in time, or one about somebody else than `subject`.
 */
export async function readUserinfo(
  issuer: string,
  { accessToken, subject }: { readonly accessToken: string | undefined; readonly subject: string },
): Promise<Claims> {
  const signal = AbortSignal.timeout(ANSWERS_MS_MAX);
  const discoveryUrl = `${issuer}/.well-known/openid-configuration`;
  const { userinfo_endpoint: endpoint } = await claimsAt(discoveryUrl, { signal });
  if (typeof endpoint !== 'string') return {};
  if (accessToken === undefined) throw new Error('The identity provider sent no access token.');
  const authorization = `Bearer ${accessToken}`;
  const claims = await claimsAt(endpoint, { signal, headers: { authorization } });
  // Else it is of another person's token: so says the standard.
  if (claims['sub'] !== subject) throw new Error('Userinfo is about another subject.');
  return claims;
}

async function claimsAt(url: string, request: RequestInit): Promise<Claims> {
  const response = await fetch(url, request);
  if (!response.ok) {
    await response.body?.cancel();
    throw new Error(`${url} answered ${String(response.status)}.`);
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
