/** How the parts of a cluster are configured; docs/operate/failover.md says the same to people. */

/** A server of PostgreSQL, and the Patroni that runs it. */
export interface NodePlace {
  readonly name: string;
  readonly folder: string;
  readonly dataDir: string;
  /** Of PostgreSQL, and of Patroni's own API. */
  readonly port: number;
  readonly apiPort: number;
}

export interface ClusterSettings {
  readonly etcd: string;
  readonly password: string;
  /** Where `initdb` and `postgres` are. */
  readonly binDir: string;
  readonly isSynchronous: boolean;
}

export const HOST = '127.0.0.1';
export const SUPERUSER = 'leasehold';
/** A primary that is gone is replaced after this long at the earliest, in seconds. */
export const TTL_S = 8;
export const LOOP_WAIT_S = 1;
/** More than tests write: the standby that is left is promoted, however far it is behind. */
const LAG_BYTES_MAX = 1024 ** 3;

/** What Patroni keeps in etcd, for all nodes. */
export function sharedSettings(isSynchronous: boolean) {
  return {
    ttl: TTL_S,
    loop_wait: LOOP_WAIT_S,
    retry_timeout: 2,
    maximum_lag_on_failover: LAG_BYTES_MAX,
    synchronous_mode: isSynchronous,
  };
}

/** A node's file. Patroni reads YAML, and JSON is YAML. */
export function nodeSettings(node: NodePlace, cluster: ClusterSettings): string {
  const { password } = cluster;
  const at = (port: number): { listen: string; connect_address: string } => {
    const place = `${HOST}:${String(port)}`;
    return { listen: place, connect_address: place };
  };
  return JSON.stringify({
    scope: 'leasehold',
    name: node.name,
    restapi: at(node.apiPort),
    etcd3: { hosts: [cluster.etcd] },
    watchdog: { mode: 'off' },
    bootstrap: {
      dcs: {
        ...sharedSettings(cluster.isSynchronous),
        postgresql: { use_pg_rewind: true, parameters: { max_connections: 200 } },
      },
      initdb: [
        'auth-host=scram-sha-256',
        'auth-local=scram-sha-256',
        'encoding=UTF8',
        'locale=C',
      ].map((line) => Object.fromEntries([line.split('=')]) as Record<string, string>),
    },
    postgresql: {
      ...at(node.port),
      data_dir: node.dataDir,
      bin_dir: cluster.binDir,
      pgpass: `${node.folder}/pgpass`,
      // A checkpoint at leisure would take minutes.
      basebackup: [{ checkpoint: 'fast' }],
      authentication: {
        superuser: { username: SUPERUSER, password },
        replication: { username: 'replicator', password },
      },
      parameters: { unix_socket_directories: node.folder, log_checkpoints: 'off' },
      pg_hba: [
        `host all all ${HOST}/32 scram-sha-256`,
        `host replication replicator ${HOST}/32 scram-sha-256`,
      ],
    },
  });
}

/** Connections go to the node that says that it is the primary, and end when it no longer does. */
export function proxySettings(port: number, nodes: readonly NodePlace[]): string {
  return `
defaults
  mode tcp
  timeout connect 2s
  timeout check 1s
  timeout client 24h
  timeout server 24h

listen primary
  bind ${HOST}:${String(port)}
  option httpchk OPTIONS /primary
  http-check expect status 200
  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
${nodes
  .map((node) => {
    const ports = `${HOST}:${String(node.port)} check port ${String(node.apiPort)}`;
    return `  server ${node.name} ${ports}\n`;
  })
  .join('')}`;
}
