/**
 * Leaves out of the bundle what the client of container engines loads to build images, to read files of
 * containers and to reach engines over SSH: nothing here does any of that. It would be 1.7 MB.
 */
const UNUSED = /^(?:@balena\/dockerignore|@grpc\/(?:grpc-js|proto-loader)|protobufjs|ssh2|tar-fs)$/;
const CLIENT = /\/node_modules\/(?:dockerode|docker-modem)\//u;

/** A plugin of esbuild. */
export const engineWithoutBuilds = {
  name: 'engine-without-builds',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: UNUSED }, ({ path, importer }) =>
      CLIENT.test(importer) ? { path, namespace: 'left-out' } : undefined,
    );
    onLoad({ filter: /.*/, namespace: 'left-out' }, () => ({ contents: 'module.exports = {};' }));
  },
};
