import type { Logger } from '@leasehold/service-kit';
import type { Store } from '../../postgres/open-store.ts';
import type { EtcdGivenUp, ReadGivenUp } from '../etcd/etcd-given-up.ts';
import { readGivenUp, rememberGivenUp } from '../sql/given-up.ts';
import type { GivenUp, GivenUpDatacenters, GivenUpView } from './given-up-types.ts';

/** The datacenters that were given up, as the store had them a moment ago. */
export interface KnownGivenUp extends GivenUpDatacenters {
  /** What this database remembers, before the store was asked. */
  load(): Promise<void>;
  /** Asks the store. Linearizable. @throws {LeaseError} `reservation.store_unreachable`. */
  refresh(): Promise<void>;
}

export function createKnownGivenUp(deps: {
  readonly shared: Pick<EtcdGivenUp, 'list' | 'remainingMs'>;
  readonly store: Pick<Store, 'general'>;
  readonly log: Logger;
}): KnownGivenUp {
  const { shared, store, log } = deps;
  let known = new Map<string, GivenUpView>();

  /** What is final is kept: an etcd that is replaced is told of it again. */
  async function note(row: GivenUp): Promise<void> {
    const before = known.get(row.datacenter);
    const isNews = before === undefined || (before.opened === null) !== (row.opened === null);
    if (!isNews) return;
    if (row.opened !== null) await rememberGivenUp(store.general, row);
    log.warn(row, 'a datacenter was given up');
  }

  return {
    find: (datacenter) => known.get(datacenter),
    list: () => [...known.values()],
    async load() {
      const rows = await readGivenUp(store.general);
      known = new Map(rows.map((row) => [row.datacenter, { ...row, remainingMs: 0 }]));
    },
    async refresh() {
      const rows = await shared.list();
      const views: GivenUpView[] = [];
      for (const row of rows.map(withoutRevision)) {
        await note(row);
        const remainingMs = row.opened === null ? await shared.remainingMs(row.datacenter) : 0;
        views.push({ ...row, remainingMs });
      }
      known = new Map(views.map((view) => [view.datacenter, view]));
    },
  };
}

function withoutRevision({ revision: _revision, ...row }: ReadGivenUp): GivenUp {
  return row;
}
