/** Builds images with buildah and runs them with Podman, with all that both keep in a temporary folder. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { writeBase } from './base-image.ts';

const run = promisify(execFile);
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024;

export const REPOSITORY = path.resolve(import.meta.dirname, '../..');
const BASE = 'localhost/leasehold-test-base:1';
/** Where the kernel has both versions of control groups, the runtime refuses to choose. */
const PREPARE = 'umount /sys/fs/cgroup/unified 2>/dev/null;';

export interface ImageStage extends AsyncDisposable {
  /** The folder of this test. */
  readonly folder: string;
  /** Builds a Dockerfile of `deploy/images` as its first lines say, on a base of this machine's files. */
  build(file: string, tag: string, args?: Readonly<Record<string, string>>): Promise<void>;
  podman(...args: readonly string[]): Promise<string>;
  /** All that a container has said. */
  logs(name: string): Promise<string>;
}

export async function openImageStage(): Promise<ImageStage> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'lh-images-'));
  const at = (name: string): string => path.join(folder, name);
  await writeConfiguration(folder);
  const env = {
    PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: folder,
    TMPDIR: folder,
    CONTAINERS_CONF: at('containers.conf'),
    CONTAINERS_STORAGE_CONF: at('storage.conf'),
    CONTAINERS_REGISTRIES_CONF: at('registries.conf'),
  };
  const inside = (...words: readonly string[]): Promise<{ stdout: string; stderr: string }> =>
    run('unshare', ['-m', '/bin/sh', '-c', `${PREPARE} exec "$@"`, 'images', ...words], {
      env,
      maxBuffer: OUTPUT_BYTES_MAX,
    });
  const podman = async (...args: readonly string[]): Promise<string> =>
    (await inside('podman', ...args)).stdout.trim();

  const base = at('base');
  await writeBase(base);
  const tar = at('base.tar');
  await run('tar', ['-C', base, '-cf', tar, '.']);
  await podman('import', '--quiet', tar, BASE);
  await Promise.all([base, tar].map((made) => rm(made, { recursive: true })));
  return {
    folder,
    podman,
    async logs(name) {
      const { stdout, stderr } = await inside('podman', 'logs', name);
      return stdout + stderr;
    },
    async build(file, tag, args = {}) {
      const flags = Object.entries({ BASE, ...args }).flatMap(([name, value]) => [
        '--build-arg',
        `${name}=${value}`,
      ]);
      const dockerfile = path.join(REPOSITORY, 'deploy/images', file);
      const how = ['--format', 'docker', '--isolation', 'chroot', '--pull-never'];
      await inside(
        'buildah',
        ...['build', ...how, ...flags, '-f', dockerfile, '-t', tag, REPOSITORY],
      );
    },
    [Symbol.asyncDispose]: async () => {
      await podman('rm', '--all', '--force', '--time', '0');
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

async function writeConfiguration(folder: string): Promise<void> {
  const at = (name: string): string => path.join(folder, name);
  await mkdir(at('net'));
  const containers = [
    '[engine]',
    'cgroup_manager="cgroupfs"',
    'events_logger="none"',
    'runtime="crun"',
    `tmp_dir="${at('tmp')}"`,
    '[network]',
    `network_config_dir="${at('net')}"`,
  ];
  const storage = [
    '[storage]',
    'driver="overlay"',
    `graphroot="${at('storage')}"`,
    `runroot="${at('run')}"`,
  ];
  await writeFile(at('containers.conf'), containers.join('\n'));
  await writeFile(at('storage.conf'), storage.join('\n'));
  await writeFile(at('registries.conf'), '');
}
