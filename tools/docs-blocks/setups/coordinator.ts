/** A process of a service that shares its database with Leasehold, as docs/recipes/README.md starts it. */
import { createLeaseholdCore, pgDatabase } from '@leasehold/core';
import pg from 'pg';

export const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'] });
export const core = createLeaseholdCore({ database: pgDatabase(pool) });
export const coordinator = core.coordinator({ holder: '10.0.0.1:8080', principal: 'orders' });
export const { clock } = core;
// <block>
