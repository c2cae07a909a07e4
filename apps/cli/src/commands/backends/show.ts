import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { BackendView } from '../../views.ts';
import { withDatacenter } from '../../options.ts';
import { printable, printableOr } from '../../output/printable.ts';
import { detailsText } from '../../output/table.ts';

/** `leasehold backends show`. */
export function addBackendsShow(cli: Cli, parent: Command): void {
  withDatacenter(cli.leaf(parent, 'show <backend>', 'Show one backend')).action(
    async (backendId: string, { datacenter }: { datacenter?: string }) => {
      const backend = await cli.client().backends.get.query({ backendId, datacenter });
      cli.show(backend, () => backendText(backend));
    },
  );
}

function backendText(backend: BackendView): string {
  const { lifetimeLimitSeconds: lifetime, exitCode } = backend;
  return detailsText([
    ['backend', backend.backendId],
    ['status', `${backend.status}, since ${backend.statusAt}`],
    ...(backend.reason === null ? [] : [['reason', backend.reason] as const]),
    ...(exitCode === null ? [] : [['exit code', String(exitCode)] as const]),
    ['key', printable(backend.key.name)],
    ['namespace', printableOr(backend.key.namespace)],
    ['tag', printableOr(backend.key.tag)],
    ['program', backend.program],
    ['drone', backend.droneId],
    ['address', printableOr(backend.address)],
    ['fencing token', backend.fencingToken],
    ['lease id', backend.leaseId],
    ['created', backend.createdAt],
    ...(backend.logs === null
      ? []
      : [
          ['stdout', printable(backend.logs.stdout)] as const,
          ['stderr', printable(backend.logs.stderr)] as const,
        ]),
    ...(lifetime === null ? [] : [['lifetime limit', `${String(lifetime)} s`] as const]),
    ['datacenter', backend.datacenter],
  ]);
}
