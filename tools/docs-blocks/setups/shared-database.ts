/** A service that takes its leases from a controller and works in the same database. */
import { createLeasehold } from '@leasehold/client';
import pg from 'pg';

export const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'] });
await pool.query('create table if not exists account (id text, balance int)');
export const leasehold = createLeasehold({
  url: process.env['LEASEHOLD_URL'] ?? '',
  token: process.env['LEASEHOLD_TOKEN'] ?? '',
});
// <block>
