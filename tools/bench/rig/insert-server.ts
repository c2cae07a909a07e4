/**
 * A tRPC server whose one procedure inserts a row and answers once it is on disk: what a call costs that
 * goes the way of a lease's calls and decides nothing. Ends with the process that started it.
 */
import fastifyWebsocket from '@fastify/websocket';
import { connectionOf } from '@leasehold/service-kit';
import { initTRPC } from '@trpc/server';
import { getWSConnectionHandler } from '@trpc/server/adapters/ws';
import { fastify } from 'fastify';
import pg from 'pg';

/** What one of our controllers may use for its statements. */
const CONNECTIONS_MAX = 10;

const [databaseUrl] = process.argv.slice(2);
if (databaseUrl === undefined) throw new Error('usage: DATABASE_URL');
process.once('disconnect', () => process.exit(0));
const pool = new pg.Pool({
  ...connectionOf(databaseUrl),
  max: CONNECTIONS_MAX,
  idleTimeoutMillis: 0,
});
await pool.query('create table inserted (id bigint generated always as identity primary key)');

const t = initTRPC.create();
const router = t.router({
  insert: t.procedure.mutation(async () => {
    await pool.query({ name: 'insert', text: 'insert into inserted default values' });
  }),
});
export type InsertRouter = typeof router;

const server = fastify();
await server.register(fastifyWebsocket, { options: { perMessageDeflate: false } });
const connect = getWSConnectionHandler({ wss: server.websocketServer, router });
server.get('/trpc', { websocket: true }, (socket, request) => {
  connect(socket, request.raw);
});
process.send?.(await server.listen({ host: '127.0.0.1', port: 0 }));
