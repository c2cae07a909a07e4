import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { PROCEDURES } from '@leasehold/api';
import { COMMAND_ERROR_CODES, ERROR_CODES } from '@leasehold/keys-core';
import { ROOT } from '../pages.ts';
import { allCommands, commandsPage } from './generate.ts';
import { configurationPage, undocumentedVariables } from './generate.ts';
import { errorsOfProcedure, filesBelow, forwardingErrors } from './procedures.ts';
import { readDescription, typesIn, typeText } from './description.ts';
import { errorsPage, metricsPage, typesPage } from './generate.ts';
import { groupsWithoutText, isNamedElsewhere, proceduresPage } from './procedures.ts';

const description = readDescription();

/** The slices whose services refuse, and the procedures that call them. */
const SLICES: [string, string[]][] = [
  ['access', ['people', 'tokens']],
  ['bulk', ['bulk']],
  ['events', ['events']],
  ['fleet', ['drones', 'backends']],
  ['keys', ['keys', 'backends']],
  ['leases', ['leases', 'environments']],
  ['reservations', ['reservations', 'datacenters', 'keys']],
];

function codesMadeIn(folder: string): string[] {
  const made = /\bnew LeaseError\(\s*'([a-z]+\.[a-z_]+)'/gu;
  return filesBelow(folder).flatMap((file) =>
    [...readFileSync(path.join(ROOT, file), 'utf8').matchAll(made)].map(([, code = '']) => code),
  );
}

function namedBy(paths: readonly string[]): string[] {
  return [...paths.flatMap((path) => errorsOfProcedure(path).codes), ...forwardingErrors()];
}

/** What to do about a code that the reference lacks. */
const NAME_IT = 'name these codes in the `@throws` of a method in the interface of their service';

describe('the reference', () => {
  test('has every procedure of the contract, with its role', () => {
    const page = proceduresPage(description);

    expect(PROCEDURES.size).toBeGreaterThan(80);
    for (const [path, { meta }] of PROCEDURES) {
      const [, section = ''] = page.split(`### \`${path}\`\n`);
      const [own = ''] = section.split('\n### ');
      expect(own).toContain(meta?.role === undefined ? 'role' : `needs the role \`${meta.role}\``);
    }
    expect(groupsWithoutText(description)).toEqual([]);
  });

  test('lists for each procedure the codes that it answers with', () => {
    const errors = (path: string): readonly string[] => errorsOfProcedure(path).codes;
    const page = proceduresPage(description);
    const [, get = ''] = page.split('### `drones.get`\n');

    expect(errors('keys.connect')).toEqual(
      expect.arrayContaining(['key.unheld', 'spawn.no_drone', 'reservation.chain_too_long']),
    );
    expect(errors('bulk.start')).toEqual(expect.arrayContaining(['bulk.busy', 'grant.hold_off']));
    expect(errors('bulk.start')).not.toContain('bulk.not_found');
    // Through a function that the router spreads, which leases and environments share.
    expect(errors('environments.cancel')).toContain('request.idempotency_reused');
    expect(errors('environments.cancel')).not.toContain('lease.wait_cancelled');
    // What a function of the API throws itself.
    expect(errors('drones.session')).toContain('drone.not_allowed');
    expect(errorsOfProcedure('keys.revoke').isForwarded).toBe(true);
    expect(errorsOfProcedure('keys.renew').isForwarded).toBe(false);
    expect(forwardingErrors()).toContain('peer.refused');
    expect(get.split('\n### ')[0]).toContain(
      '**Errors**: [`drone.not_found`](/reference/errors#dronenot_found), [those of another',
    );
  });

  test('has every code of the registry at a procedure, unless any call or none answers with it', () => {
    const named = new Set<string>(namedBy([...PROCEDURES.keys()]));
    const codes = Object.keys(ERROR_CODES);

    expect(
      codes.filter((code) => !isNamedElsewhere(code) && !named.has(code)),
      NAME_IT,
    ).toEqual([]);
    expect([...named]).toEqual(
      expect.arrayContaining(['lease.ttl_out_of_range', 'lease.wait_cancelled']),
    );
    // Only libraries throw these: no procedure answers with them.
    for (const code of ['lease.held', 'lease.lost', 'lease.not_held']) {
      expect([...named]).not.toContain(code);
    }
  });

  // A new refusal that no method of a service names would be missing from the page.
  test.each(SLICES)('has every code that %s makes at a procedure of it', (slice, groups) => {
    const made = codesMadeIn(`libs/keys-core/src/${slice}`);
    const named = namedBy(
      [...PROCEDURES.keys()].filter((path) => groups.includes(path.split('.')[0] ?? '')),
    );

    expect(made.length).toBeGreaterThan(0);
    expect(
      made.filter((code) => !isNamedElsewhere(code) && !named.includes(code)),
      NAME_IT,
    ).toEqual([]);
  });

  test('has every type that a procedure names', () => {
    const page = typesPage(description);
    const names = [...new Set(typesIn(description.paths))].filter((name) =>
      Object.hasOwn(description.components.schemas, name),
    );

    expect(names.length).toBeGreaterThan(40);
    expect(names.filter((name) => !page.includes(`## ${name}\n`))).toEqual([]);
  });

  test('has every variable, and what the table says that it means', () => {
    const page = configurationPage();

    expect(undocumentedVariables()).toEqual([]);
    expect(page).toContain('## `LEASEHOLD_ETCD_CERT_FILE`\n\nPEM files');
    expect(page).toMatch(
      /`LEASEHOLD_PORT`[^#]*\| default \| `4600` \|\n\| value \| a whole number/u,
    );
    expect(page).not.toContain('undefined');
  });

  test('has every command with its help, in lines that are no wider than a page', () => {
    const page = commandsPage();

    const names = allCommands();
    expect(names.length).toBeGreaterThan(40);
    expect(names.filter((name) => !page.includes(`Usage: leasehold ${name}`))).toEqual([]);
    const [, help = ''] = page.split('## All commands');
    // Examples are broken by the page.
    const lines = help.split('\n').filter((line) => /^ +(?!leasehold )\S/u.test(line));
    expect(lines.filter((line) => line.length > 88)).toEqual([]);
  });

  test('has every code of an error with what to do, its status, and whether to send the request again', () => {
    const page = errorsPage();

    const codes = [...Object.keys(ERROR_CODES), ...Object.keys(COMMAND_ERROR_CODES)];
    expect(codes.filter((code) => !page.includes(`## \`${code}\`\n\n`))).toEqual([]);
    expect(page).toContain(
      '## `key.tag_mismatch`\n\nThe key is held under another tag. The holder was not changed. Use its tag, or another key.\n\nStatus 409, final.\n',
    );
    expect(page).toMatch(/## `grant\.contended`[^#]*Status 409, retryable\./u);
    expect(page).toMatch(/### `cli\.unreachable`[^#]*Exit code 3\./u);
    expect(page).toMatch(/### `up\.running`[^#]*Exit code 1\./u);
  });

  test('has every metric with its meaning and its labels', () => {
    const page = metricsPage();

    expect(page).toMatch(/`leasehold_waiters`\n\nCallers that wait[^#]*\| labels \| `face` \|/u);
    expect(page).toMatch(/`leasehold_clock_jumps_total`[^#]*\| worry when \| it grows \|/u);
  });
});

describe('a schema as text', () => {
  test('has its fields, its limits and its choices, each choice once', () => {
    const schema = {
      type: 'object',
      required: ['a'],
      properties: {
        a: { anyOf: [{ const: 'x' }, { anyOf: [{ const: 'y' }, { const: 'x' }] }] },
        b: { type: 'integer', minimum: 1, default: 5 },
        c: { type: 'array', items: { type: ['null', 'string'] } },
      },
    };

    expect(typeText(schema)).toBe(
      [
        '{',
        "  a: 'x' | 'y';",
        '  /** Default 5, at least 1 */',
        '  b?: number;',
        '  c?: (null | string)[];',
        '}',
      ].join('\n'),
    );
  });
});
