/** docs/production.md names files, sections, variables and secrets that exist. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { unread } from './environments.ts';
import { DEPLOY, MANIFESTS, WORKLOADS } from './manifests.ts';

const ROOT = path.dirname(DEPLOY);
const DOCS = path.join(ROOT, 'docs');
const page = readFileSync(path.join(DOCS, 'production.md'), 'utf8');

/** As the pages of a repository give an id to a section. */
function anchorsOf(file: string): string[] {
  return [...readFileSync(file, 'utf8').matchAll(/^#+ (.*)$/gmu)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

test('every link leads to a file, and to a section of it', () => {
  const links = [...page.matchAll(/\]\((?<target>[^)]+)\)/gu)].map(
    ({ groups }) => groups?.['target'] ?? '',
  );
  const broken = links.filter((link) => {
    const [name = '', anchor] = link.split('#');
    const file = path.join(DOCS, name === '' ? 'production.md' : name);
    if (!existsSync(file)) return true;
    return anchor !== undefined && !anchorsOf(file).includes(anchor);
  });

  expect(links.length).toBeGreaterThan(20);
  expect(broken).toEqual([]);
});

test('every variable is one that a process reads', () => {
  const names = [...page.matchAll(/\b(?:LEASEHOLD_[A-Z_]+|DATABASE_URL\w*)\b/gu)].map(
    ([name]) => name,
  );

  expect(names.length).toBeGreaterThan(10);
  expect(
    unread(['controller', 'console', 'migrate', 'drone', 'gateway'], [...new Set(names)]),
  ).toEqual([]);
});

test('the secrets, images and folders of its commands are those of the manifests', () => {
  const mounted = WORKLOADS.flatMap(({ pod }) =>
    pod.volumes.flatMap(({ secret }) => secret?.secretName ?? []),
  );
  const named = MANIFESTS.map(({ whole }) => JSON.stringify(whole)).join('\n');
  // Of Prometheus and the ingress, which no pod mounts.
  const others = ['leasehold-metrics', 'leasehold-tls'].filter((name) =>
    named.includes(`"${name}"`),
  );
  const made = [...page.matchAll(/create secret (?:generic|tls) (?<name>\S+)/gu)].map(
    ({ groups }) => groups?.['name'],
  );
  const folders = [...page.matchAll(/\bdeploy\/[\w./-]*\w/gu)].map(([place]) => place);

  expect(made.sort()).toEqual([...new Set([...mounted, ...others])].sort());
  expect(folders.filter((place) => !existsSync(path.join(ROOT, place)))).toEqual([]);
});
