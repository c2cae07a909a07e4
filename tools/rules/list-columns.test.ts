import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './source-files.ts';

/** Where a list shows its fields, and the fields that have no column there, in order. */
interface Place {
  readonly file: string;
  readonly without: readonly string[];
}

const CSV = 'apps/controller/src/http/export-routes.ts';
const FEATURES = 'apps/console/src/features';
const GRANTS: Place = {
  file: 'apps/cli/src/output/grant-text.ts',
  without: ['endReason', 'ladder', 'namespace', 'releasedAt', 'stopsBy'],
};

const LISTS: Readonly<Record<string, readonly Place[]>> = {
  keys: [
    {
      file: 'apps/cli/src/commands/keys.ts',
      without: words('endReason ladder releasedAt remainingMs reservationId'),
    },
    {
      file: `${FEATURES}/keys/keys-page.tsx`,
      without: words(
        'endReason ladder leaseId releasedAt remainingMs renewable renewedAt reservationId stopsBy waiters',
      ),
    },
    { file: CSV, without: ['failing'] },
  ],
  leases: [
    GRANTS,
    {
      file: `${FEATURES}/leases/leases-page.tsx`,
      without: words(
        'comment datacenter endReason ladder leaseId metadata mode pool releasedAt remainingMs renewable renewedAt stopsBy ttlMs',
      ),
    },
    { file: CSV, without: ['pool', 'ttlMs'] },
  ],
  environments: [
    GRANTS,
    {
      file: `${FEATURES}/leases/environments-page.tsx`,
      without: words(
        'comment datacenter endReason fencingToken ladder leaseId metadata mode pool releasedAt remainingMs renewable renewedAt stopsBy ttlMs waiters',
      ),
    },
    { file: CSV, without: ['pool', 'ttlMs'] },
  ],
  drones: [
    {
      file: 'apps/cli/src/commands/drones.ts',
      without: ['heartbeatAt', 'isConnected', 'load'],
    },
    {
      file: `${FEATURES}/fleet/drones-page.tsx`,
      without: words(
        'backendCount capacity clockId draining engine heartbeatAgeMs heartbeatAt isConnected isolation load lostAt programBackends registeredAt session stoppedAt warm',
      ),
    },
  ],
  backends: [
    { file: 'apps/cli/src/commands/backends.ts', without: [] },
    {
      file: `${FEATURES}/fleet/backends.tsx`,
      without: words(
        'exitCode fencingToken idleStopAt idleStopSeconds lastUsedAt leaseId lifetimeLimitSeconds logFiles reason statusAt',
      ),
    },
  ],
  reservations: [
    { file: 'apps/cli/src/commands/reservations.ts', without: [] },
    { file: `${FEATURES}/reservations/reservations-page.tsx`, without: ['moveReason'] },
    { file: CSV, without: [] },
  ],
};

// A name counts wherever it stands in the file: this finds a place that was forgotten, not a column that is wrong.
test.each(Object.entries(LISTS))(
  'a field of %s has a column in the command, the console and the CSV, or is named here',
  (list, places) => {
    const fields = fieldsOf(list);

    expect(fields.length).toBeGreaterThan(5);
    for (const { file, without } of places) {
      const text = readFileSync(path.join(ROOT, file), 'utf8');
      const named = (field: string): boolean =>
        file === CSV
          ? new RegExp(`'${field}['.]`, 'u').test(text)
          : new RegExp(`\\b${field}\\b`, 'u').test(text);
      expect
        .soft(
          fields.filter((field) => !named(field)),
          `the fields without a column in ${file}: add the column, or correct "without" in tools/rules/list-columns.test.ts; see CONTRIBUTING.md, "A column of a list"`,
        )
        .toEqual(without);
    }
  },
);

interface Schema {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly allOf?: readonly Schema[];
  readonly items?: Schema;
}

/** The fields of what a list answers, in order, as the description of the API has them. */
function fieldsOf(list: string): string[] {
  const document = JSON.parse(
    readFileSync(path.join(ROOT, 'libs/api/src/openapi/openapi.json'), 'utf8'),
  ) as {
    paths: Record<
      string,
      { get: { responses: Record<string, { content: Record<string, { schema: Schema }> }> } }
    >;
    components: { schemas: Record<string, Schema> };
  };
  const fields = (schema: Schema | undefined): Readonly<Record<string, Schema>> => {
    const named = schema?.$ref?.split('/').at(-1);
    if (named !== undefined) return fields(document.components.schemas[named]);
    return Object.assign({}, schema?.properties, ...(schema?.allOf ?? []).map(fields)) as Record<
      string,
      Schema
    >;
  };
  const answer =
    document.paths[`/trpc/${list}.list`]?.get.responses['200']?.content['application/json']?.schema;
  const page = fields(fields(fields(answer)['result'])['data']);
  return Object.keys(fields(page['items']?.items)).sort();
}

function words(text: string): readonly string[] {
  return text.split(' ');
}
