/**
 * `GET /export/<list>?format=json|csv&…`: a whole list as a file, with the filters and the access of
 * the list itself. It is read page by page, as fast as the client takes it, and never in memory as a
 * whole. Rows that are granted, renewed or released meanwhile are shown as they were when their page
 * was read.
 *
 * Once the first bytes are sent there is no status left to say that something failed. Then the
 * connection is reset, so that nobody takes half a file for a whole one, not even over HTTP/1.0: a file
 * is complete if the answer ended by itself.
 */
import { Readable } from 'node:stream';
import { describeError, type Access, type ApiContext } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { Logger } from '@leasehold/service-kit';
import type { ConnectionGuard } from '@leasehold/service-kit/connection-guard';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import {
  callerOf,
  contextOf,
  httpCaller,
  requireCaller,
  type ContextDeps,
} from '../http/request-context.ts';
import type { OpenConnections } from '../http/sockets/open-connections.ts';
import { once } from '../once.ts';
import {
  createExportText,
  exportListOf,
  pagesOf,
  readExportQuery,
  textOf,
  type ExportList,
} from './export-lists.ts';

const BUFFERED_BYTES_MAX = 64 * 1_024;

export interface ExportDeps extends ContextDeps {
  readonly connections: OpenConnections;
  readonly guard: ConnectionGuard;
  readonly log: Logger;
}

/** Mounts the exports of all lists. See the top of this file. */
export async function mountExport(server: FastifyInstance, deps: ExportDeps): Promise<void> {
  const places = createExportPlaces();
  await server.register((scope, _options, done) => {
    requireCaller(scope, deps);
    mountLists(scope, deps, places);
    done();
  });
}

function mountLists(scope: FastifyInstance, deps: ExportDeps, places: ExportPlaces): void {
  scope.get<{ Params: { list: string } }>(
    '/export/:list',
    { exposeHeadRoute: false },
    async (request, reply) => {
      const list = exportListOf(request.params.list);
      if (list === undefined) throw new LeaseError('request.not_found');
      const gone = new AbortController();
      reply.raw.once('close', () => gone.abort());
      const caller = callerOf(request.raw);
      const life = httpCaller(request.raw, gone.signal);
      const { access } = caller;
      const use = caller.use.inBackground();
      const context = contextOf(deps, request.raw, { access, use, life });
      const leave = places.take(access.principal);
      whenGone(context.signal, leave);
      return send(deps, { list, name: request.params.list, context, access, request, reply });
    },
  );
}

interface Exported {
  readonly list: ExportList;
  readonly name: string;
  readonly context: ApiContext;
  readonly access: Access;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

async function send(deps: ExportDeps, exported: Exported): Promise<FastifyReply> {
  const { list, name, context, access, request, reply } = exported;
  const asked = readExportQuery(list, request.query);
  const pages = pagesOf(list, asked, context);
  // Before anything is sent, so that a refusal still has a status.
  const first = await pages.next();
  const { format } = asked;
  const text = createExportText(format, list.columns);
  const stream = streamOf(deps, textOf(first, pages, text), {
    list: name,
    actor: access.name,
    requestId: request.id,
  });
  const cutOff = (): void => {
    if (!stream.readableEnded && reply.raw.headersSent) reply.raw.socket?.resetAndDestroy();
  };
  // Whichever comes first, because it must run before Fastify ends the connection in good order.
  stream.once('error', cutOff).once('close', cutOff);
  const forget = deps.connections.add(access, () => {
    // At once, because the stream closes only when its query to the database has ended.
    cutOff();
    stream.destroy();
  });
  whenGone(context.signal, () => {
    stream.destroy();
    forget();
  });
  const at = (await context.services.now()).slice(0, 19).replaceAll(':', '-');
  return reply
    .type(text.contentType)
    .header('content-disposition', `attachment; filename="leasehold-${name}-${at}Z.${format}"`)
    .header('x-content-type-options', 'nosniff')
    .send(stream);
}

/** Calls `leave` when the answer is over, at once if it is already. */
function whenGone(signal: AbortSignal, leave: () => void): void {
  if (signal.aborted) leave();
  else signal.addEventListener('abort', leave, { once: true });
}

/** A stream that produces text as fast as the client reads it. */
function streamOf(
  { log }: ExportDeps,
  pieces: AsyncGenerator<string, void>,
  what: { readonly list: string; readonly actor: string; readonly requestId: string },
): Readable {
  async function* filled(): AsyncGenerator<string, void> {
    // An empty piece would be taken for nothing, and asked for again.
    for await (const piece of pieces) if (piece !== '') yield piece;
  }
  const stream = Readable.from(filled(), {
    objectMode: false,
    highWaterMark: BUFFERED_BYTES_MAX,
  });
  stream.on('error', (error) => {
    const { incidentId, leaseholdCode } = describeError(error);
    log.warn({ ...what, incidentId, leaseholdCode, err: error }, 'an export was cut off');
  });
  return stream;
}

/** Each holds a page in memory, and keeps querying the database. */
const EXPORTS_MAX = 8;
/** So that one caller leaves places to the others. */
const EXPORTS_PER_PRINCIPAL_MAX = 2;

/** The places of the exports that are under way at once. */
interface ExportPlaces {
  /**
   * Takes a place.
   * @returns a function that gives it back; called again, it does nothing.
   * @throws {LeaseError} `request.rate_limited` when all are taken, or all that one caller may have.
   */
  take(principal: string): () => void;
}

function createExportPlaces(): ExportPlaces {
  const takenBy = new Map<string, number>();
  let takenCount = 0;
  return {
    take(principal) {
      const own = takenBy.get(principal) ?? 0;
      if (own >= EXPORTS_PER_PRINCIPAL_MAX) {
        throw refused(`You already have ${String(own)} exports in progress.`);
      }
      if (takenCount >= EXPORTS_MAX) {
        throw refused(`${String(takenCount)} exports are in progress already.`);
      }
      takenBy.set(principal, own + 1);
      takenCount += 1;
      return once(() => {
        takenCount -= 1;
        const left = (takenBy.get(principal) ?? 0) - 1;
        if (left > 0) takenBy.set(principal, left);
        else takenBy.delete(principal);
      });
    },
  };
}

function refused(why: string): LeaseError {
  return new LeaseError('request.rate_limited', `${why} Try again when one has ended.`);
}
