import { IconKey } from '@tabler/icons-react';
import { describe, expect, test } from 'vitest';
import { type Entry, partsOf, sectionsOf } from './palette-sections.ts';

const entry = (label: string): Entry => ({ id: label, label, icon: IconKey, run: () => undefined });
const LISTED = {
  found: [entry('boards.eu/q4-keys')],
  acts: [entry('Revoke keys-1')],
  recent: [entry('recent')],
  pages: [entry('Keys'), entry('Leases')],
  console: [entry('Sign out')],
};
const listedFor = (text: string): [string, string[]][] =>
  sectionsOf(text, LISTED).map(({ label, entries }) => [label, entries.map((each) => each.label)]);

describe('what the palette lists', () => {
  test('without a text: what can be done here, what was opened last, all pages, the console', () => {
    expect(listedFor(' ').map(([label]) => label)).toEqual([
      'This page',
      'Recent',
      'Pages',
      'Console',
    ]);
  });

  test('with a text: what begins with it and is known here, then what was found, then the rest', () => {
    expect(listedFor('KEYS ')).toEqual([
      ['Actions and pages', ['Keys']],
      ['Found', ['boards.eu/q4-keys']],
      ['More actions and pages', ['Revoke keys-1']],
    ]);
  });
});

test.each([
  ['q4-Roadmap', 'road', ['q4-', 'Road', 'map']],
  ['q4-Roadmap', '', undefined],
  ['q4-Roadmap', 'x', undefined],
  ['İstanbul', 'tan', undefined],
])('the part of %s that is %j is marked', (label, text, parts) => {
  expect(partsOf(label, text)).toEqual(parts);
});
