import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import type { BackendStateView } from '../../views.ts';
import { printable } from '../../output/printable.ts';

/** `leasehold backends watch`: the states so far, and each new one until the backend is gone. */
export function addBackendsWatch(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'watch <backend>', 'Follow the states of a backend until it has terminated')
    .action(async (backendId: string) => {
      // Over HTTP first, which fails at once when no controller answers or there is no such backend.
      await cli.client().backends.get.query({ backendId });
      const client = cli.client('ws');
      const stop = cli.context.signal();
      await new Promise<void>((resolve, reject) => {
        const subscription = client.backends.watch.subscribe(
          { backendId },
          {
            onData: (state) => {
              cli.show(state, () => stateText(state));
            },
            onError: reject,
            onComplete: resolve,
          },
        );
        stop.addEventListener('abort', () => {
          subscription.unsubscribe();
          resolve();
        });
      });
    });
}

function stateText(state: BackendStateView): string {
  const more = [
    state.reason,
    state.address === null ? null : `at ${printable(state.address)}`,
    state.exitCode === null ? null : `exit code ${String(state.exitCode)}`,
    state.detail === null ? null : printable(state.detail),
  ].filter((text) => text !== null);
  return `${state.at}  ${[state.status, ...more].join(', ')}`;
}
