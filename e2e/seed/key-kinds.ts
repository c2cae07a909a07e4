import { words } from './table.ts';

/** What a company has keys for: where they are, what runs behind them, what they are called. */
export interface Kind {
  readonly namespace: string;
  readonly program: string;
  readonly tags: readonly string[];
  readonly names: readonly string[];
}

export const KINDS: readonly Kind[] = [
  {
    namespace: 'boards.eu',
    program: 'board',
    tags: ['v42', 'v42', 'v41'],
    names: words(`
      q4-roadmap checkout-redesign incident-2026-11-14 hiring-plan-berlin retro-payments
      pricing-experiments onboarding-flow design-review-11-20 warehouse-layout okr-draft
      support-escalations brand-refresh sprint-88 sprint-89 gdpr-data-map offsite-lisbon
      app-navigation vendor-comparison launch-checklist persona-workshop risk-register`),
  },
  {
    namespace: 'boards.us',
    program: 'board',
    tags: ['v42'],
    names: words(`
      growth-ideas sales-territories partner-portal black-friday-war-room api-deprecations
      customer-journey platform-weekly data-retention mobile-release-6-2 investor-update
      security-tabletop returns-process catalog-taxonomy fraud-rules content-calendar`),
  },
  {
    namespace: 'documents.sync',
    program: 'document-sync',
    tags: ['', '', 'compact'],
    names: words(`
      employee-handbook runbook-payments pricing-2027 master-services-agreement release-notes-6-2
      postmortem-search-outage supplier-terms budget-2027 interview-guide travel-policy
      api-style-guide board-minutes-october security-whitepaper brand-voice data-dictionary
      oncall-handover rfc-0117-ledger rfc-0121-shard-moves rfc-0124-webhooks tax-checklist-nl`),
  },
  {
    namespace: 'notebooks.research',
    program: 'notebook',
    tags: ['gpu', 'cpu', 'cpu'],
    names: words(`
      churn-model forecast-black-friday ranking-offline-eval delivery-eta fraud-graph
      embedding-drift price-elasticity cohort-retention search-intent basket-affinity
      address-matching demand-by-postcode returns-classifier ab-power-analysis`),
  },
  {
    namespace: 'builds.release',
    program: 'build',
    tags: ['linux', 'linux', 'macos'],
    names: words(`
      web-shop ios-app android-app courier-app warehouse-scanner payments-api search-indexer
      ledger notification-service partner-gateway pricing-engine admin-ui`),
  },
];

/** Rooms of support, sales and the like, which have numbers for names. */
export const NUMBERED: Kind = {
  namespace: 'boards.guest',
  program: 'board',
  tags: ['v42', 'v41'],
  names: [],
};
