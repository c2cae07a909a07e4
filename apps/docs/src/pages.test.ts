import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { anchorOf, createLinks } from './markdown.ts';
import { documentOf, LEFT_OUT, ROOT, sections } from './pages.ts';

const pages = sections().flatMap((section) => section.pages);

test('every document is a page of the site, or is left out with a reason', () => {
  const documents = readdirSync(path.join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`);
  const shown = pages.map(documentOf);

  expect(documents.length).toBeGreaterThan(50);
  expect(documents.filter((one) => !shown.includes(one)).sort()).toEqual(
    Object.keys(LEFT_OUT).sort(),
  );
});

test('a link in a document leads to the page of its file, or to none if the site does not have it', () => {
  const links = createLinks(pages);

  expect(links.resolve('../runbook.md#symptoms', 'docs/recipes/modules.md')).toEqual({
    kind: 'page',
    href: '/operate/runbook#symptoms',
  });
  expect(links.resolve('docs/adr', 'README.md')).toMatchObject({ href: '/decisions/' });
  expect(links.resolve('../apps/drone/src/main.ts', 'docs/proof.md').kind).toBe('unlinked');
  expect(links.resolve('https://plane.dev', 'README.md').kind).toBe('kept');
  expect(() => links.resolve('gone.md', 'docs/proof.md')).toThrow('docs/proof.md links to gone.md');
});

test('headings have the anchors that git hosts give them', () => {
  expect(anchorOf('`connect` fails with `spawn.no_drone`')).toBe(
    'connect-fails-with-spawnno_drone',
  );
  expect(anchorOf('Who is trusted with what?')).toBe('who-is-trusted-with-what');
});

test('drawings use only what the style of the site knows', () => {
  const folder = path.join(ROOT, 'docs/pictures/diagrams');
  const style = readFileSync(
    path.join(import.meta.dirname, '../.vitepress/theme/diagrams.css'),
    'utf8',
  );
  const used = readdirSync(folder).flatMap((name) => {
    const drawing = readFileSync(path.join(folder, name), 'utf8');
    return [...drawing.matchAll(/(?<= )class="([^"]+)"/gu)].flatMap(([, names = '']) =>
      names.split(' '),
    );
  });

  expect(new Set(used).size).toBeGreaterThan(8);
  expect(used.filter((name) => !style.includes(`.${name}`))).toEqual([]);
});
