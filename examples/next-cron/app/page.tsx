import pg from 'pg';
import type { ReactNode } from 'react';
import { readConfig } from '../config.ts';
import { lastRuns } from '../runs.ts';

/** Read at each request. */
export const dynamic = 'force-dynamic';

const SHOWN = 20;
const CELL = { padding: '0.25rem 2rem 0.25rem 0', textAlign: 'left' } as const;

let pool: pg.Pool | undefined;

export default async function Page(): Promise<ReactNode> {
  const { databaseUrl, replica } = readConfig();
  pool ??= new pg.Pool({ connectionString: databaseUrl }).on('error', () => undefined);
  const runs = await lastRuns(pool, SHOWN);
  const [last] = runs;
  return (
    <main>
      <h1>Cron runs</h1>
      <p role="status">
        {last === undefined
          ? 'Nothing has run yet.'
          : `Replica ${last.replica} ran the job ${last.job} last. It was due at ${last.dueAt.toISOString()}.`}
      </p>
      <table>
        <thead>
          <tr>
            {['Job', 'Due', 'Replica', 'Fencing token'].map((title) => (
              <th key={title} scope="col" style={CELL}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {runs.map(({ job, dueAt, replica: by, fencingToken }) => (
            <tr key={`${job} ${dueAt.toISOString()}`}>
              <td style={CELL}>{job}</td>
              <td style={CELL}>{dueAt.toISOString()}</td>
              <td style={CELL}>{by}</td>
              <td style={CELL}>{fencingToken}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p>This page comes from replica {replica}.</p>
    </main>
  );
}
