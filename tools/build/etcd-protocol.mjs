/**
 * Puts etcd's protocol inside the bundle. `etcd3` reads it from files of its package when it is loaded, and a
 * bundle has no such files: what an installation needs would be 30 more packages.
 */
import { createRequire } from 'node:module';
import { readFile } from 'node:fs/promises';
import path from 'node:path';

const READS_FILES = /loadSync\)\(`\$\{__dirname\}\/\.\.\/proto\/rpc\.proto`/u;

/** A plugin of esbuild. */
export const etcdProtocol = {
  name: 'etcd-protocol',
  setup({ onLoad }) {
    onLoad({ filter: /\/etcd3\/lib\/connection-pool\.js$/ }, async ({ path: file }) => {
      const source = await readFile(file, 'utf8');
      if (!READS_FILES.test(source))
        throw new Error(`${file} does not load its protocol as expected`);
      const protocol = await protocolOf(file);
      return {
        loader: 'js',
        contents: source.replace(READS_FILES, `fromJSON)(${JSON.stringify(protocol)}`),
      };
    });
  },
};

/** As `etcd3` would read it: the names of fields are kept. */
async function protocolOf(file) {
  const requireThere = createRequire(file);
  const loader = createRequire(requireThere.resolve('@grpc/proto-loader'));
  const protobuf = loader('protobufjs');
  const root = new protobuf.Root();
  root.loadSync(path.join(path.dirname(file), '..', 'proto', 'rpc.proto'), { keepCase: true });
  return root.toJSON();
}
