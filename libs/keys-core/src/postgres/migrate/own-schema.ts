import pg from 'pg';
import { LeaseError } from '../../kernel/errors.ts';
import { createHistory, readHistory } from './migration-history.ts';

/** Makes the schema, unless it is there and empty, and its history. */
export async function makeHome(client: pg.ClientBase, schema: string): Promise<void> {
  if ((await readHistory(client, schema)) !== undefined) return;
  const objects = await objectsIn(client, schema);
  if (objects === undefined) {
    await client.query(`create schema ${pg.escapeIdentifier(schema)}`);
  } else if (objects.length > 0) {
    throw foreignSchema(schema, objects);
  }
  await createHistory(client);
}

const OBJECTS_SHOWN_MAX = 5;

/**
 * The first few tables, views and sequences of a schema, except for those of extensions; undefined when
 * there is no such schema.
 */
async function objectsIn(client: pg.ClientBase, schema: string): Promise<string[] | undefined> {
  const { rows } = await client.query<{ name: string | null }>(
    `select c.relname as name
     from pg_namespace n
     left join pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p', 'v', 'm', 'S', 'f')
       and not exists (
         select from pg_depend d
         where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e'
       )
     where n.nspname = $1
     order by c.relname
     limit $2`,
    [schema, OBJECTS_SHOWN_MAX],
  );
  if (rows.length === 0) return undefined;
  return rows.map(({ name }) => name).filter((name) => name !== null);
}

function foreignSchema(schema: string, objects: readonly string[]): LeaseError {
  return new LeaseError(
    'store.schema_foreign',
    `The schema "${schema}" contains tables of another application (${objects.join(', ')}): name an empty one, or one that does not exist, in LEASEHOLD_SCHEMA.`,
    { details: { schema, objects } },
  );
}
