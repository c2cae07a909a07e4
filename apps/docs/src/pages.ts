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
  /** The document that the page begins with, from the root of the repository. */
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
];

/** The page of the promises, beside what is measured and proved. */
const PROMISES: Generated = { to: 'evidence/promises', text: 'Promises and tests' };

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

const page = (source: string, to: string, text: string): Written => ({ source, to, text });

const START: Section = {
  text: 'Start',
  pages: [
    page('docs/README.md', 'index', 'What Leasehold is'),
    page('docs/quick-start.md', 'quick-start', 'Quick start'),
    page('docs/comparison.md', 'comparison', 'Compared with others'),
  ],
};

const CONCEPTS: Section = {
  text: 'Concepts',
  pages: [
    page('docs/concepts/README.md', 'concepts/index', 'Keys, leases, environments'),
    page('docs/concepts/ladder.md', 'concepts/ladder', 'The ladder of deadlines'),
    page('docs/concepts/takeover.md', 'concepts/takeover', 'Takeover'),
    page('docs/concepts/fencing.md', 'concepts/fencing', 'Fencing'),
    page('docs/concepts/chains.md', 'concepts/chains', 'Homes and chains'),
    page('docs/lease-semantics.md', 'concepts/lease-semantics', 'The exact rules'),
    page('docs/glossary.md', 'concepts/glossary', 'Glossary'),
  ],
};

const GUIDES: Section = {
  text: 'Guides',
  pages: [
    page('docs/recipes/README.md', 'guides/index', 'All recipes'),
    page('docs/guides/leader-election.md', 'guides/leader-election', 'Elect a leader'),
    page('docs/guides/run-a-command.md', 'guides/run-a-command', 'Run a command once'),
    page('docs/guides/cron-in-nextjs.md', 'guides/cron-in-nextjs', 'A cron job in Next.js'),
    page('docs/guides/backend-per-key.md', 'guides/backend-per-key', 'One backend for each key'),
    page('docs/guides/own-program.md', 'guides/own-program', 'Run your own program'),
    page('docs/guides/browser-to-room.md', 'guides/browser-to-room', 'From a browser to a room'),
    page('docs/recipes/gateway-names.md', 'guides/gateway-names', 'TLS and names of a gateway'),
    page('docs/recipes/deploy-gate.md', 'guides/deploy-gate', 'A deploy pipeline'),
    page(
      'docs/recipes/preview-environments.md',
      'guides/preview-environments',
      'Preview environments',
    ),
    page('docs/recipes/terraform.md', 'guides/terraform', 'Terraform'),
    page('docs/guides/from-redlock.md', 'guides/from-redlock', 'From redlock'),
    page('docs/guides/from-advisory-locks.md', 'guides/from-advisory-locks', 'From advisory locks'),
    page(
      'docs/recipes/fenced-transactions.md',
      'guides/fenced-transactions',
      'Fenced transactions',
    ),
    page('docs/recipes/two-accounts.md', 'guides/two-accounts', 'Move between two accounts'),
    page('docs/recipes/tenant-rate.md', 'guides/tenant-rate', 'A rate of N per tenant'),
    page(
      'docs/recipes/readers-and-writers.md',
      'guides/readers-and-writers',
      'Readers and writers',
    ),
    page(
      'docs/recipes/fencing-other-stores.md',
      'guides/fencing-other-stores',
      'Fence other stores',
    ),
    page('docs/recipes/async-calls.md', 'guides/async-calls', 'Calls that complete once'),
    page('docs/recipes/controllers.md', 'guides/controllers', 'Leader and followers'),
    page('docs/recipes/modules.md', 'guides/modules', 'Modules'),
    page('docs/recipes/runner-liveness.md', 'guides/runner-liveness', 'Liveness of runners'),
    page('docs/recipes/runner-reservation.md', 'guides/runner-reservation', 'Reserve runners'),
    page('docs/recipes/state-machine.md', 'guides/state-machine', 'A state machine'),
    page('docs/guides/several-datacenters.md', 'guides/several-datacenters', 'Several datacenters'),
    page('docs/recipes/other-languages.md', 'guides/other-languages', 'Other languages'),
  ],
};

const LIBRARIES: Section = {
  text: 'Libraries, HTTP and CI',
  pages: [
    page('libs/client/README.md', 'libraries/client', '@leasehold/client'),
    page('libs/core/README.md', 'libraries/core', '@leasehold/core'),
    page('docs/http-api.md', 'libraries/http-api', 'The HTTP API'),
    page('integrations/github-action/README.md', 'libraries/github-action', 'An action for GitHub'),
    page(
      'integrations/gitlab-component/README.md',
      'libraries/gitlab-component',
      'A component for GitLab CI',
    ),
    page('examples/languages/README.md', 'libraries/languages', 'curl, Python and Go'),
    page('examples/use-cases/README.md', 'libraries/use-cases', 'Use cases as programs'),
    page('examples/next-cron/README.md', 'libraries/next-cron', 'A Next.js app with a cron job'),
    page('examples/room-server/README.md', 'libraries/room-server', 'A backend to copy'),
  ],
};

const OPERATE: Section = {
  text: 'Operate',
  pages: [
    page('docs/production.md', 'operate/production', 'In production'),
    page('docs/operate/postgresql.md', 'operate/postgresql', 'PostgreSQL'),
    page('docs/operate/failover.md', 'operate/failover', 'Failover'),
    page('docs/operate/controllers.md', 'operate/controllers', 'Controllers and tokens'),
    page('docs/operate/console.md', 'operate/console', 'The console'),
    page('docs/operate/contention.md', 'operate/contention', 'Contention'),
    page('docs/operate/sign-in.md', 'operate/sign-in', 'Sign-in'),
    page('docs/single-sign-on.md', 'operate/single-sign-on', 'Single sign-on and groups'),
    page('docs/operate/drones.md', 'operate/drones', 'Drones'),
    page('docs/operate/containers.md', 'operate/containers', 'Containers'),
    page('docs/operate/isolation.md', 'operate/isolation', 'Isolation'),
    page('docs/operate/datacenters.md', 'operate/datacenters', 'Several datacenters'),
    page('docs/upgrades.md', 'operate/upgrades', 'Upgrades'),
    page('docs/observability.md', 'operate/observability', 'Observability'),
    page('docs/runbook.md', 'operate/runbook', 'Runbook'),
    page('docs/security.md', 'operate/security', 'Security'),
    page('SECURITY.md', 'operate/security-policy', 'Report a vulnerability'),
    page('docs/scaling.md', 'operate/scaling', 'Scaling'),
  ],
};

const EVIDENCE: Section = {
  text: 'Evidence',
  pages: [
    page('docs/benchmarks.md', 'evidence/benchmarks', 'Benchmarks'),
    page('docs/proof.md', 'evidence/proof', 'Proof'),
    page('docs/cases.md', 'evidence/cases', 'Cases, invariants and faults'),
    PROMISES,
    page('ARCHITECTURE.md', 'evidence/architecture', 'Architecture'),
    page('docs/dependencies.md', 'evidence/dependencies', 'Dependencies'),
    page('CHANGELOG.md', 'evidence/changelog', 'Changelog'),
  ],
};

function decisions(): Section {
  const names = readdirSync(path.join(ROOT, 'docs/adr')).filter((name) => /^\d/u.test(name));
  return {
    text: 'Decisions',
    isFolded: true,
    pages: [
      page('docs/adr/README.md', 'decisions/index', 'All decisions'),
      ...names.sort().map((name) => {
        const slug = name.replace(/\.md$/u, '');
        return page(`docs/adr/${name}`, `decisions/${slug}`, titleOf(slug));
      }),
    ],
  };
}

/** `0043-a-description-made-from-types`: "43. A description made from types". */
function titleOf(slug: string): string {
  const [number = '', ...words] = slug.split('-');
  const text = words.join(' ');
  return `${String(Number(number))}. ${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** All of it. */
export function sections(): readonly Section[] {
  const reference: Section = {
    text: 'Reference',
    pages: [...REFERENCE, page('docs/errors.md', 'reference/errors', 'Errors')],
  };
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
