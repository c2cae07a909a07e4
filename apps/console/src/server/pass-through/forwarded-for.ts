import type { IncomingMessage } from 'node:http';
import {
  CALLER_HEADER,
  CONSOLE_SECRET_HEADER,
  createSources,
} from '@leasehold/service-kit/source-address';

/** Writes the source of a request into its headers. See {@link createNoteSource}. */
type NoteSource = (request: IncomingMessage) => void;

/**
 * Tells the controller where a request comes from, with the secret of the console: any program on this machine could
 * claim the same. What the caller itself says about this is dropped. `x-forwarded-for` is for a controller of the
 * version before: the address of the socket, after what a trusted proxy has said.
 * @param consoleSecret null: the controller takes the console for the caller.
 */
export function createNoteSource({
  trustedProxies,
  consoleSecret,
}: {
  readonly trustedProxies: readonly string[];
  readonly consoleSecret: string | null;
}): NoteSource {
  const sources = createSources({ trustedProxies });
  return (request) => {
    const source = sources.of(request);
    const said = sources.isFromProxy(request) ? request.headers['x-forwarded-for'] : undefined;
    const { remoteAddress: peer } = request.socket;
    for (const name of [CALLER_HEADER, CONSOLE_SECRET_HEADER, 'x-forwarded-for']) {
      Reflect.deleteProperty(request.headers, name);
    }
    if (source === null || peer === undefined) return;
    request.headers['x-forwarded-for'] = [...(said === undefined ? [] : [said].flat()), peer].join(
      ', ',
    );
    if (consoleSecret === null) return;
    request.headers[CALLER_HEADER] = source;
    request.headers[CONSOLE_SECRET_HEADER] = consoleSecret;
  };
}
