import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { filesBelow, ROOT } from './source-files.ts';

const PAGES = path.join(ROOT, 'apps', 'console', 'src', 'app', '(console)');
const textOf = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8');
const navigation = textOf('apps/console/src/ui/shell/nav.tsx');

/** The first part of the address of each page. A folder in brackets takes any address. */
const pages = readdirSync(PAGES).filter(
  (name) => !name.startsWith('[') && existsSync(path.join(PAGES, name, 'page.tsx')),
);

test('each page of the console is in the navigation, and in e2e/pages.ts for the browser tests', () => {
  const tested = textOf('e2e/pages.ts');

  expect(pages.length).toBeGreaterThan(8);
  expect(
    pages.filter((name) => !navigation.includes(`href: routes.${name}`)),
    'add these to NAV_GROUPS in apps/console/src/ui/shell/nav.tsx',
  ).toEqual([]);
  expect(
    pages.filter((name) => !tested.includes(`'/${name}'`)),
    'add these to e2e/pages.ts',
  ).toEqual([]);
});

test('no two pages of the console have the same letter after g', () => {
  const letters = [...navigation.matchAll(/ key: '(.)'/gu)].map(([, letter]) => letter);

  expect(letters.length).toBeGreaterThanOrEqual(pages.length);
  expect(letters.filter((letter, index) => letters.indexOf(letter) !== index)).toEqual([]);
});

/** Either way to end something as an entry of a control, by its value or by what people read. */
const MODE_OFFERED =
  /\bvalue(?::|=)\s*['"](?:graceful|force|soft|hard)['"]|['"`>]\s*(?:Graceful|Gracefully|Soft|Hard|Force)(?:: |['"`<])/u;
const MODE_CHOSEN = /useState<RevokeMode>|\bsetMode\b/u;

test('graceful and force are offered by one component, in each dialog that has both', () => {
  const sources = filesBelow('apps/console/src', ['.ts', '.tsx'])
    .filter((file) => !file.includes('.test.'))
    .map((file) => ({ file, text: textOf(file) }));
  const shown = sources.filter(({ text }) => /<ModeChoice\b/u.test(text));
  const choosing = sources.filter(({ text }) => MODE_CHOSEN.test(text));

  expect(shown.length).toBeGreaterThanOrEqual(3);
  expect(shown.map(({ file }) => file)).toEqual(choosing.map(({ file }) => file));
  expect(sources.filter(({ text }) => MODE_OFFERED.test(text)).map(({ file }) => file)).toEqual([
    'apps/console/src/resources/actions/act-parts.tsx',
  ]);
});
