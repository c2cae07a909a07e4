/** Why no connection was made, by address: for people who look for what to change. */

/** What was thrown, or what an address answered, by address. */
export type ConnectionFailures = ReadonlyMap<string, unknown>;

/** A chain of causes is followed this far. */
const CAUSES_MAX = 8;

/** `https://a: certificate has expired (CERT_HAS_EXPIRED); https://b: …`, the first cause of each. */
export function failuresText(failures: ConnectionFailures): string {
  return [...failures]
    .map(([address, thrown]) => `${addressText(address)}: ${causeText(thrown)}`)
    .join('; ');
}

/** What happened first: the last in the chain of causes. */
export function firstCauseOf(thrown: unknown): unknown {
  let cause = thrown;
  for (let followed = 0; followed < CAUSES_MAX; followed += 1) {
    // One address may stand for several of the network, tried one after the other.
    const next: unknown =
      cause instanceof AggregateError
        ? (cause.errors as unknown[])[0]
        : cause instanceof Error
          ? cause.cause
          : undefined;
    if (!(next instanceof Error)) return cause;
    cause = next;
  }
  return cause;
}

function causeText(thrown: unknown): string {
  const cause = firstCauseOf(thrown);
  if (!(cause instanceof Error)) return String(cause);
  const message = (cause.message === '' ? cause.name : cause.message).split('\n', 1)[0] ?? '';
  // Without the credentials of a URL.
  const plain = message.replaceAll(/\/\/[^/\s@]*@/gu, '//');
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
  return code === '' || plain.includes(code) ? plain : `${plain} (${code})`;
}

/** Without what may be secret in it. */
function addressText(address: string): string {
  if (!URL.canParse(address)) return 'an address';
  const { protocol, host, pathname } = new URL(address);
  const path = pathname.replace(/(\/trpc)?\/*$/u, '');
  return `${protocol.replace(/^ws/u, 'http')}//${host}${path}`;
}
