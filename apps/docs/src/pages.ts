/**
 * The pages of the site, in the order of its navigation. What is written by hand is a file of the repository, which
 * stays readable where it is; what is generated is made from the contract when the site is built. The console serves the
 * site without a sign-in: it is the same in every installation, and the runbook is for people who cannot sign in.
 */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the repository. */
export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** A page that is made when the site is built, by `reference/generate.ts`. */
interface Generated {
  /** Its address on the site, below `/docs/`, without an ending. */
  readonly to: string;
  readonly text: string;
  /** The file that the page shows, or begins with, from the root of the repository. */
  readonly includes?: string;
}

/** In the order of the navigation. */
const REFERENCE: readonly Generated[] = [
  { to: 'reference/procedures', text: 'Procedures' },
  { to: 'reference/types', text: 'Types' },
  {
    to: 'reference/configuration',
    text: 'Configuration',
    includes: 'docs/reference/configuration.md',
  },
  { to: 'reference/commands', text: 'Commands', includes: 'docs/reference/commands.md' },
  { to: 'reference/metrics', text: 'Metrics' },
  { to: 'reference/errors', text: 'Errors', includes: 'docs/errors.md' },
];

/** The pages of the promises and of the ids of tests, beside what is measured and proved. */
const PROMISES: Generated = { to: 'evidence/promises', text: 'Promises and tests' };
const CASES: Generated = {
  to: 'evidence/cases',
  text: 'Cases, invariants and faults',
  includes: 'docs/cases.json',
};

/** A page that is written by hand. */
interface Written {
  /** The file, from the root of the repository. */
  readonly source: string;
  /** Its address on the site, below `/docs/`, without an ending. */
  readonly to: string;
  /** What the navigation calls it. */
  readonly text: string;
}

export type Page = Written | Generated;

/** Pages that belong together, below one heading of the navigation. */
export interface Section {
  readonly text: string;
  readonly pages: readonly Page[];
  /** Only the first page is in the navigation, and leads to the others. */
  readonly isFolded?: true;
}

/**
 * The pages below `folder`, by their files, each with what the navigation calls it. A file keeps its name; the README of
 * a folder of `docs` is its index, and any other README has the name of its folder.
 */
function written(folder: string, texts: Readonly<Record<string, string>>): Written[] {
  return Object.entries(texts).map(([source, text]) => {
    const to = path.posix.join(folder, NAMES[source] ?? nameOf(source));
    return { source, to, text };
  });
}

function nameOf(source: string): string {
  const { dir, name } = path.posix.parse(source);
  if (name !== 'README') return name.toLowerCase();
  return source.startsWith('docs/') ? 'index' : path.posix.basename(dir);
}

/** `docs/security.md` is another page of the same folder. */
const NAMES: Readonly<Record<string, string>> = { 'SECURITY.md': 'security-policy' };

const START: Section = {
  text: 'Start',
  pages: written('', {
    'docs/README.md': 'What Leasehold is',
    'docs/quick-start.md': 'Quick start',
    'docs/comparison.md': 'Compared with others',
  }),
};

const CONCEPTS: Section = {
  text: 'Concepts',
  pages: written('concepts', {
    'docs/concepts/README.md': 'Keys, leases, environments',
    'docs/concepts/ladder.md': 'The ladder of deadlines',
    'docs/concepts/takeover.md': 'Takeover',
    'docs/concepts/fencing.md': 'Fencing',
    'docs/concepts/chains.md': 'Homes and chains',
    'docs/lease-semantics.md': 'The exact rules',
    'docs/glossary.md': 'Glossary',
  }),
};

const GUIDES: Section = {
  text: 'Guides',
  pages: written('guides', {
    'docs/recipes/README.md': 'All recipes',
    'docs/guides/leader-election.md': 'Elect a leader',
    'docs/guides/run-a-command.md': 'Run a command once',
    'docs/guides/cron-in-nextjs.md': 'A cron job in Next.js',
    'docs/guides/backend-per-key.md': 'One backend for each key',
    'docs/guides/own-program.md': 'Run your own program',
    'docs/guides/browser-to-room.md': 'From a browser to a room',
    'docs/recipes/gateway-names.md': 'TLS and names of a gateway',
    'docs/recipes/deploy-gate.md': 'A deploy pipeline',
    'docs/recipes/preview-environments.md': 'Preview environments',
    'docs/recipes/terraform.md': 'Terraform',
    'docs/guides/from-redlock.md': 'From redlock',
    'docs/guides/from-advisory-locks.md': 'From advisory locks',
    'docs/recipes/fenced-transactions.md': 'Fenced transactions',
    'docs/recipes/two-accounts.md': 'Move between two accounts',
    'docs/recipes/tenant-rate.md': 'A rate of N per tenant',
    'docs/recipes/readers-and-writers.md': 'Readers and writers',
    'docs/recipes/fencing-other-stores.md': 'Fence other stores',
    'docs/recipes/async-calls.md': 'Calls that complete once',
    'docs/recipes/controllers.md': 'Leader and followers',
    'docs/recipes/modules.md': 'Modules',
    'docs/recipes/runner-liveness.md': 'Liveness of runners',
    'docs/recipes/runner-reservation.md': 'Reserve runners',
    'docs/recipes/state-machine.md': 'A state machine',
    'docs/guides/several-datacenters.md': 'Several datacenters',
    'docs/recipes/other-languages.md': 'Other languages',
  }),
};

const LIBRARIES: Section = {
  text: 'Libraries, HTTP and CI',
  pages: written('libraries', {
    'libs/client/README.md': '@leasehold/client',
    'libs/core/README.md': '@leasehold/core',
    'docs/http-api.md': 'The HTTP API',
    'integrations/github-action/README.md': 'An action for GitHub',
    'integrations/gitlab-component/README.md': 'A component for GitLab CI',
    'examples/languages/README.md': 'curl, Python and Go',
    'examples/use-cases/README.md': 'Use cases as programs',
    'examples/next-cron/README.md': 'A Next.js app with a cron job',
    'examples/room-server/README.md': 'A backend to copy',
  }),
};

const OPERATE: Section = {
  text: 'Operate',
  pages: written('operate', {
    'docs/production.md': 'In production',
    'docs/operate/postgresql.md': 'PostgreSQL',
    'docs/operate/failover.md': 'Failover',
    'docs/operate/controllers.md': 'Controllers and tokens',
    'docs/operate/console.md': 'The console',
    'docs/operate/contention.md': 'Contention',
    'docs/operate/sign-in.md': 'Sign-in',
    'docs/single-sign-on.md': 'Single sign-on and groups',
    'docs/operate/drones.md': 'Drones',
    'docs/operate/containers.md': 'Containers',
    'docs/operate/isolation.md': 'Isolation',
    'docs/operate/datacenters.md': 'Several datacenters',
    'docs/upgrades.md': 'Upgrades',
    'docs/observability.md': 'Observability',
    'docs/runbook.md': 'Runbook',
    'docs/security.md': 'Security',
    'SECURITY.md': 'Report a vulnerability',
    'docs/scaling.md': 'Scaling',
  }),
};

const EVIDENCE: Section = {
  text: 'Evidence',
  pages: [
    ...written('evidence', {
      'docs/benchmarks.md': 'Benchmarks',
      'docs/proof.md': 'Proof',
    }),
    CASES,
    PROMISES,
    ...written('evidence', {
      'ARCHITECTURE.md': 'Architecture',
      'docs/dependencies.md': 'Dependencies',
      'CHANGELOG.md': 'Changelog',
    }),
  ],
};

function decisions(): Section {
  const names = readdirSync(path.join(ROOT, 'docs/adr')).filter((name) => /^\d/u.test(name));
  return {
    text: 'Decisions',
    isFolded: true,
    pages: written('decisions', {
      'docs/adr/README.md': 'All decisions',
      ...Object.fromEntries(names.sort().map((name) => [`docs/adr/${name}`, titleOf(name)])),
    }),
  };
}

/** `0043-a-description-made-from-types.md`: "43. A description made from types". */
function titleOf(file: string): string {
  const [number = '', ...words] = path.parse(file).name.split('-');
  const text = words.join(' ');
  return `${String(Number(number))}. ${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** All of it. */
export function sections(): readonly Section[] {
  const reference: Section = { text: 'Reference', pages: REFERENCE };
  return [START, CONCEPTS, GUIDES, LIBRARIES, reference, OPERATE, EVIDENCE, decisions()];
}

/** Documents that are no pages, each with the reason. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  'docs/walkthroughs.md': 'follows requests through the code, for those who change it',
};

export function isWritten(one: Page): one is Written {
  return 'source' in one;
}

/** The pages of a section that the navigation lists. */
export function listedPages({ pages, isFolded }: Section): readonly Page[] {
  return isFolded === true ? pages.slice(0, 1) : pages;
}

/** The document that a page is, or that it begins with. */
export function documentOf(one: Page): string | undefined {
  return isWritten(one) ? one.source : one.includes;
}

/** `guides/index`: the address that a browser shows for a page. */
export function addressOf({ to }: Page): string {
  return `/${to.replace(/(?:^|(?<=\/))index$/u, '')}`;
}
