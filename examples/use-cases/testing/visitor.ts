/**
 * A process of the service that updates users: `visitor.ts URL TOKEN DATABASE_URL USER COUNT`. At SIGUSR2 it
 * begins so many visits of the user at once, and prints what they returned as its only line.
 */
import { createLeasehold } from '@leasehold/client';
import pg from 'pg';
import { createUserModule } from '../update-user.ts';
import { usersTable } from './users-table.ts';

const [url = '', token = '', databaseUrl = '', userId = '', count = ''] = process.argv.slice(2);
const pool = new pg.Pool({ connectionString: databaseUrl });
const leasehold = createLeasehold({ url, token, clientName: `visitor-${String(process.pid)}` });
const module = createUserModule(leasehold, usersTable(pool));

process.once('disconnect', () => {
  process.exit(1);
});
const begun = new Promise((resolve) => process.once('SIGUSR2', resolve));
process.send?.({ type: 'ready' });
await begun;

const visits = await Promise.all(Array.from({ length: Number(count) }, () => module.visit(userId)));
console.log(JSON.stringify(visits));
await leasehold.close();
await pool.end();
process.exit(0);
