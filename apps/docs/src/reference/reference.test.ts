import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { PROCEDURES } from '@leasehold/api';
import { ROOT } from '../root.ts';
import { allCommands, commandsPage } from './commands.ts';
import { configurationPage, undocumentedVariables } from './configuration.ts';
import { readDescription } from './description.ts';
import { metricsPage } from './metrics.ts';
import { codesWithoutGroup, groupsWithoutText, proceduresPage } from './procedures.ts';
import { typesIn, typeText } from './schema-text.ts';
import { typesPage } from './types.ts';

const description = readDescription();

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

  test('shows every code of the registry beside the procedures that it is of', () => {
    expect(codesWithoutGroup()).toEqual([]);
  });

  test('has every type that a procedure names', () => {
    const page = typesPage(description);
    const names = [...new Set(typesIn(description.paths))].filter((name) =>
      Object.hasOwn(description.components.schemas, name),
    );

    expect(names.length).toBeGreaterThan(40);
    expect(names.filter((name) => !page.includes(`## ${name}\n`))).toEqual([]);
  });

  test('has every variable, and what the README says that it means', () => {
    const page = configurationPage();

    expect(undocumentedVariables()).toEqual([]);
    expect(page).toContain('## `LEASEHOLD_ETCD_CERT_FILE`\n\nPEM files');
    expect(page).toMatch(
      /`LEASEHOLD_PORT`[^#]*\| default \| `4600` \|\n\| value \| a whole number/u,
    );
    expect(page).not.toContain('undefined');
  });

  test('has every command with its help, and the README names each', () => {
    const readme = readFileSync(path.join(ROOT, 'README.md'), 'utf8');
    const page = commandsPage();

    const names = allCommands();
    const inReadme = (name: string): boolean => readme.includes(name.split(' ').at(-1) ?? name);
    expect(names.length).toBeGreaterThan(40);
    expect(names.filter((name) => !inReadme(name))).toEqual([]);
    expect(names.filter((name) => !page.includes(`Usage: leasehold ${name}`))).toEqual([]);
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
