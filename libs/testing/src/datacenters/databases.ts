import path from 'node:path';
import {
  createDatabase,
  findMigrationsDir,
  migrate,
  startEmbeddedPostgres,
} from '@leasehold/keys-core/postgres';
import { copyTemplate } from '../postgres/template-copy.ts';

/** A datacenter's own PostgreSQL. */
export interface DatacenterDatabase {
  readonly url: string;
  drop(): Promise<void>;
}

/** Makes the database of the datacenter with this name. */
export type DatabaseOf = (name: string) => Promise<DatacenterDatabase>;

/** Databases of one cluster, which is the fastest: for tests, where no cluster is taken down. */
export function databasesIn(clusterUrl: string): DatabaseOf {
  return (name) => copyTemplate(clusterUrl, `datacenter_${name}`);
}

/** A cluster for each, as in real datacenters, with its data in a subfolder of `folder`. */
export function clustersIn(folder: string): DatabaseOf {
  return async (name) => {
    const cluster = await startEmbeddedPostgres({
      dataDir: path.join(folder, name, 'postgres'),
      settings: { max_connections: '100', shared_buffers: '64MB' },
    });
    const url = cluster.url('leasehold');
    await createDatabase(url);
    await migrate(url, findMigrationsDir());
    return { url, drop: () => cluster.stop() };
  };
}
